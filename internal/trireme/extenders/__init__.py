"""HTTP extenders: what they are asked, and what becomes of their answers."""
