"""VolumeRestrictions: refuses nodes where a disk or claim of the pod is in use by a pod it cannot share it with."""
