"""An in-memory Kubernetes API server with simulated nodes, for trying Trireme out and for its tests.

`kubectl` and the official clients work against it unchanged; the scheduler cannot tell it from a real cluster and
has no special case for it. It forgets everything when it stops, checks no credentials, and is no place for
production workloads.
"""
