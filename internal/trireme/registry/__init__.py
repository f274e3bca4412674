"""Which plugins there are, which a profile has by default, and how their implementations are loaded."""
