"""Why pods have no node in a simulation: the nodes' final verdicts on their class.

Tests: tests/unit/simulation/test_refused_values.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import status
from trireme.snapshot import snapshot
from trireme.wire.phase_answers import FilterAnswer

_EXAMPLES = 3
_REASONS = 1000
# The field `status` hides the module.
_Reasons = Sequence[status.Reason]


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """The nodes that refuse with one status: how many, and the names of some.

    `reasons` are the different ones of statuses with the same messages, a thousand at most.
    """

    status: status.Status
    nodes: int
    examples: Sequence[str]
    reasons: _Reasons


def refused_at_once(refusal: status.Status, snap: snapshot.Snapshot) -> NodeRefusals:
    """The refusal of all nodes by PreFilter."""
    return NodeRefusals(refusal, snap.nodes.count, (), refusal.reasons[:_REASONS])


def refusals_of(filtered: FilterAnswer, snap: snapshot.Snapshot) -> list[NodeRefusals]:
    """The refusing nodes by plugin and messages, the most first, then in the order of these.

    Empty where PreFilter refused on all nodes.
    """
    if filtered.refusal is not None:
        return []
    index = filtered.columns.index
    index = np.where(snap.nodes.alive[: index.shape[0]], index, 0)
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for number, each in enumerate(filtered.columns.statuses, start=1):
        found.setdefault((each.plugin, each.messages), []).append(number)
    refusals = []
    for numbers in found.values():
        slots = np.flatnonzero(np.isin(index, numbers))
        if slots.size:
            names = [snap.nodes.names[slot] for slot in slots[:_EXAMPLES].tolist()]
            statuses = [filtered.columns.statuses[number - 1] for number in numbers]
            given = dict.fromkeys(reason for each in statuses for reason in each.reasons)
            refusals.append(NodeRefusals(statuses[0], int(slots.size), names, list(given)[:_REASONS]))
    # Statuses are numbered in the order in which they first occurred.
    return sorted(refusals, key=lambda refusal: (-refusal.nodes, refusal.status.plugin, refusal.status.messages))
