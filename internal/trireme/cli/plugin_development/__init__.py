"""`trireme plugin init` and `run`: beginning a plugin, and trying it on an embedded cluster while it is written."""
