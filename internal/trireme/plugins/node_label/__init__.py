"""NodeLabel: refuses or prefers nodes by the presence of labels that the profile names."""
