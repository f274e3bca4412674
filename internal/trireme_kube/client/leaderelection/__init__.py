"""Leader election on a Lease."""
