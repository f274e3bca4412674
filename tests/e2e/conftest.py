"""Makes the clusters that these tests run on available to them."""

from clusters import cluster

__all__ = ["cluster"]
