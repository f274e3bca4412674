"""Plugins that are services of their own: calling them, and what their answers, failures and silence come to."""
