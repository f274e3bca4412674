"""The scheduling queue: which pods are tried next, and which events wake the ones that were refused."""
