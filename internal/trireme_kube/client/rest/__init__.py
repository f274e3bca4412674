"""Requests to an API server: connections, credentials, encodings, errors and the client's rate limit."""
