"""Clients of the phases: where their replicas are, which one is called, and what they answered."""
