"""NodeVolumeLimits: refuses nodes that cannot attach as many more volumes of the pod's CSI drivers."""
