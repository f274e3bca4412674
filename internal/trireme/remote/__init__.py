"""Plugins that are services: calls to them, their answers, and the consequences of failures and missing answers."""
