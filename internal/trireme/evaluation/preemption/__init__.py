"""PostFilter: which pods to evict so that a pod or a group fits that fits on no node now."""
