"""The cluster as the frontend sees it: informers, the cache, and what replicas are told of it."""
