"""ImageLocality: prefers nodes that have the pod's images."""
