"""DefaultBinder: binds a pod by a POST to its `binding` subresource."""
