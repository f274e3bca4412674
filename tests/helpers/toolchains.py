"""What plugins in each language need on the machine."""

OF_PLUGINS = {"python": (), "go": ("go",), "typescript": ("node", "npm"), "java": ("mvn", "java"), "rust": ("cargo",)}
