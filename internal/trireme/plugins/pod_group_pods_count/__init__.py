"""PodGroupPodsCount: prefers placements of a pod group that take more of its pods."""
