"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod makes more evenly used."""
