"""Makes the clusters that these tests run on available to them."""

from tests.e2e.clusters import cluster

__all__ = ["cluster"]
