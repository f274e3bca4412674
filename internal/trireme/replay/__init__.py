"""Decides the decisions of a recording again, on the recorded state and with the scheduler's own engines."""
