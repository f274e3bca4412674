"""NodeLabelValue: prefers nodes by the integer in a label that the profile names."""
