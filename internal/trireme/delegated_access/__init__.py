"""Delegated authentication and authorisation: the API server decides who a caller is, and what it may do.

It is what the frontend's HTTPS server does, and what kube-scheduler's own does.
"""
