"""All defects, by name; importing the modules registers them. `lost-rows` is the function `lost_rows` in `of_*.py`."""

from __future__ import annotations

from tests.simulation.defects import of_decisions, of_leftovers, of_processes, of_replicas, registry

DEFECTS = registry.DEFECTS
__all__ = ["DEFECTS", "of_decisions", "of_leftovers", "of_processes", "of_replicas"]
