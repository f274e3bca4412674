"""The simulated nodes: their shape, their kubelets and what their containers log."""
