"""InterPodAffinity: requires or prefers nodes near certain pods, or far from them."""
