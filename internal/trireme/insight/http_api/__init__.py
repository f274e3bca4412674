"""Insight's RPCs as JSON over HTTP, for callers that the API server authenticates and authorises."""
