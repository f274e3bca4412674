"""Kubernetes machinery that knows nothing of Trireme: what a component of Kubernetes gets from Go libraries.

`apimachinery` reads and writes the API's values and documents, `componentbase` is what every component's process has
(flags, logs, metrics, health, TLS), `client` talks to an API server, `cel` evaluates its expressions, and `embedded` is
a small cluster to try things on. Nothing here imports `trireme`; `embedded` imports none of the others.
"""
