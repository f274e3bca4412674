"""HTTP extenders: requests to them, and what follows from their answers."""
