"""The HTTP server: from a request to the registry or the storage, and back to a response."""
