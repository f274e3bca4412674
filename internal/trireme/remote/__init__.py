"""Plugins that are services: calls to them, their answers, and what follows if they fail or do not answer."""
