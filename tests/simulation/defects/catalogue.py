"""All defects, by name."""

from __future__ import annotations

from tests.simulation.defects import of_decisions, of_processes, of_replicas, registry

DEFECTS = registry.DEFECTS
__all__ = ["DEFECTS", "of_decisions", "of_processes", "of_replicas"]
