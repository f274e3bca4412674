"""The wire edge: the only code that converts between domain values and the messages of trireme.v1."""
