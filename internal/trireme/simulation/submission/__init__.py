"""Submissions to the cluster: manifests as `kubectl apply` takes them, and the pods that they make."""
