"""Logs in the form of Kubernetes' components."""
