"""What would be submitted to the cluster: manifests as `kubectl apply` takes them, and the pods that they make."""
