"""Makes what these tests run on available to them: clusters, and a scheduler with its console."""

from tests.e2e.clusters import cluster, plane
from tests.e2e.consoles import axe, world
from tools.controlplane.controlplane_fixture import controlplane, start_controlplane

__all__ = ["axe", "cluster", "controlplane", "plane", "start_controlplane", "world"]
