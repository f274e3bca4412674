"""The `trireme` command: run a scheduler on this machine, and ask a running one for its state."""
