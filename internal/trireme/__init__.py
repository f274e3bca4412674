"""Trireme: a Kubernetes scheduler built as gRPC microservices, one per scheduling phase."""
