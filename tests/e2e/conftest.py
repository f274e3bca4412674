"""Makes the clusters that these tests run on available to them."""

from clusters import cluster, plane
from controlplane_fixture import start_controlplane

__all__ = ["cluster", "plane", "start_controlplane"]
