"""Which plugins there are, which a profile has by default, and how the sides of one are loaded."""
