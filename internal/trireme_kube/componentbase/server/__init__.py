"""The HTTP server that every component has: who may read, health, status pages, profiles, metrics."""
