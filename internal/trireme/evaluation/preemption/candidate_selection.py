"""Selects among the nodes where preemption makes room, and converts them to messages and back.

Source: pkg/scheduler/framework/preemption (SelectCandidate, pickOneNodeForPreemption).

Also change: internal/trireme/insight/preemption_explanation.py (criteria in their order).

Tests: tests/unit/in_process/test_in_process_evaluators.py.
"""

import operator
from collections.abc import Sequence

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.preemption import dry_run, potential_victims, victims_with_groups
from trireme.snapshot import pods, snapshot
from trireme.v1 import cycle_pb2, filter_phase_pb2

# Added to priorities before they are summed up, so that more victims never sum up to less.
_PRIORITY_SHIFT = 2**31


def select_candidate(candidates: Sequence[dry_run.Candidate], snap: snapshot.Snapshot) -> dry_run.Candidate:
    """Return the candidate of the least cost; the first one of several."""
    new = [candidate for candidate in candidates if not candidate.cost]
    if new:
        _compute_preemption_costs(new, snap)
    return min(candidates, key=operator.attrgetter("cost"))


def _compute_preemption_costs(candidates: Sequence[dry_run.Candidate], snap: snapshot.Snapshot) -> None:
    """Compute the candidates' costs; the first number counts most.

    They are: violations of budgets; the highest priority of a victim; the sum of priorities; the number of victims; and
    the earliest start of a victim of the highest priority, negative since a later one is better.
    """
    counts = np.array([len(candidate.rows) for candidate in candidates])
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rows = np.fromiter((row for candidate in candidates for row in candidate.rows), dtype=np.intp)
    priority = class_priorities.priorities_by_class(snap)[snap.pods.class_index[rows]]
    start = potential_victims.starts(snap, rows)
    important = priority == np.repeat(np.maximum.reduceat(priority, first), counts)
    earliest = np.minimum.reduceat(np.where(important, start, potential_victims.NOT_STARTED), first)
    total = np.add.reduceat(priority + _PRIORITY_SHIFT, first)
    columns_of = (priority[first].tolist(), total.tolist(), counts.tolist(), (-earliest).tolist())
    for candidate, *cost in zip(candidates, *columns_of, strict=True):
        candidate.cost = (candidate.violations, *cost)


def to_messages(
    candidates: Sequence[dry_run.Candidate], snap: snapshot.Snapshot
) -> tuple[filter_phase_pb2.PreemptionCandidate, ...]:
    """Return the candidates by names, for HTTP extenders."""
    return tuple(
        filter_phase_pb2.PreemptionCandidate(
            node_name=snap.nodes.names[candidate.slot],
            victims=[pod_identity(snap, row) for row in candidate.rows],
            violations=candidate.violations,
        )
        for candidate in candidates
    )


def from_messages(
    messages: Sequence[filter_phase_pb2.PreemptionCandidate], snap: snapshot.Snapshot
) -> list[dry_run.Candidate]:
    """Return the candidates whose node and victims all still exist; one with a victim that is gone is left out.

    A victim is on the node, or belongs to a group that is disrupted as a whole.
    """
    slots = {each.node_name: snap.nodes.slot_of_name.get(each.node_name, pods.NO_SLOT) for each in messages}
    named = [slot for slot in slots.values() if slot != pods.NO_SLOT]
    placed = snap.pods.slot[: snap.pods.size]
    whole_group = victims_with_groups.group_membership_of(snap).whole_group[snap.pods.class_index[: snap.pods.size]]
    rows_there = np.flatnonzero(np.isin(placed, named) | ((placed != pods.NO_SLOT) & (whole_group > 0))).tolist()
    row_of = {snap.pods.uids[row]: row for row in rows_there}
    out = []
    for each in messages:
        slot = slots[each.node_name]
        rows = [row_of[victim.uid] for victim in each.victims if victim.uid in row_of]
        rows = [row for row in rows if placed[row] == slot or whole_group[row]]
        if rows and len(rows) == len(each.victims):
            out.append(dry_run.Candidate(slot, tuple(rows), each.violations))
    return out


def pod_identity(snap: snapshot.Snapshot, row: int) -> cycle_pb2.PodIdentity:
    """Return the identity of the pod of this row."""
    namespace = snap.classes[int(snap.pods.pod_class[row])].namespace
    return cycle_pb2.PodIdentity(namespace=namespace, name=snap.pods.names[row], uid=snap.pods.uids[row])
