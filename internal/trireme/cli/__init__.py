"""The `trireme` command: runs a scheduler on this machine, and shows the state of a running one."""
