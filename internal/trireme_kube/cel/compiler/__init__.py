"""From an expression's text to a checked tree and a program, with Kubernetes' messages and limits."""
