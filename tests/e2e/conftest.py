"""Makes what these tests run on available to them: clusters, and a scheduler with its console."""

from clusters import cluster, plane
from consoles import axe, world
from controlplane_fixture import start_controlplane

__all__ = ["axe", "cluster", "plane", "start_controlplane", "world"]
