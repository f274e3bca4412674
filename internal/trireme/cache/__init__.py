"""The cluster as the frontend sees it: informers, the cache, and the deltas that replicas follow."""
