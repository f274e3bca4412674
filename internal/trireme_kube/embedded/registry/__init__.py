"""The rules of a write, between HTTP and the storage: defaults, admission, validation, subresources."""
