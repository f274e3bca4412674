"""Metrics, and the formats in which they are scraped."""
