"""`trireme`: the person's tool."""
