"""VolumeZone: refuses nodes outside the zones and regions of the pod's volumes."""
