"""NodeAffinity: requires or prefers nodes by the labels and fields that a pod or its profile selects."""
