"""VolumeBinding: refuses nodes where a pod's claims cannot be bound, and binds them."""
