"""PostFilter: what a pod or a group that fits nowhere can have instead, and at whose expense."""
