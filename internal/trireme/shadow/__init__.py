"""Shadow: runs beside any scheduler with read-only credentials, and compares its decisions with Trireme's."""
