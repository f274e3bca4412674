"""NodeName: refuses all nodes but the one that the pod names."""
