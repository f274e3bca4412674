"""What makes an attempt part of the trial of a pod group: it may be undone, and may be bound to some nodes.

Tests: tests/unit/scheduling/test_attempt.py.
"""

import dataclasses
from typing import Protocol

import numpy as np

from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer


@dataclasses.dataclass(frozen=True, slots=True)
class GroupPlacement:
    """Nodes that a group may go to, and no others; `name` is what they have in common."""

    name: str
    slots: tuple[int, ...]

    def restrict_to_nodes(self, filtered: FilterAnswer) -> FilterAnswer:
        """Filter's answer about these nodes alone, as if there were no others."""
        columns = filtered.columns
        inside = np.zeros(columns.index.shape[0], dtype=np.bool_)
        inside[[slot for slot in self.slots if slot < inside.shape[0]]] = True
        overlaid = node_columns.NodeColumns.complete(
            columns.generation,
            columns.statuses,
            np.where(inside, columns.index, 0).astype(np.int16),
            np.where(inside, columns.capacity, 0).astype(np.int32),
        )
        return dataclasses.replace(filtered, columns=overlaid, update=None)


class NodeCosts(Protocol):
    """What nodes cost a group that preempts.

    Implementers: trireme.scheduling.groups.victim_costs.VictimCosts.
    """

    def restrict_to_cheapest(self, filtered: FilterAnswer) -> tuple[FilterAnswer, bool]:
        """Filter's answer about those of the feasible nodes that cost least, and whether they cost nothing."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class TrialScope:
    """The trial that an attempt is part of: its PodGroup and its nodes (`placement` None: all).

    The group's members may share claims that are reserved in it. `costs`: only nodes that cost least are taken.
    """

    pod_group: str
    placement: GroupPlacement | None = None
    costs: NodeCosts | None = None
