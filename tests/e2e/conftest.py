"""Makes the clusters that these tests run on available to them."""

from clusters import cluster, plane

__all__ = ["cluster", "plane"]
