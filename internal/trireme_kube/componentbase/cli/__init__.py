"""Command lines: flags, their values and their help."""
