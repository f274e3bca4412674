"""Objects as the rows that `kubectl get` prints."""
