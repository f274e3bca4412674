"""What every component of Kubernetes has: flags, logs, metrics, health, TLS, and the HTTP server for them.

Nothing here knows what a pod is: the processes pass in their numbers, checks and documents.

Source: k8s.io/component-base, k8s.io/apiserver (authentication and authorization of the endpoints).
"""
