"""Victims of preemption where there are pod groups: a pod, or all pods of a group that is disrupted as a whole.

A pod of a group is evicted with the topmost of the groups around it that is disrupted as a whole; evicted alone, it
ranks as a pod. The pods' own priority counts, which was their group's when they were scheduled. A group of groups is
more important than a group of its priority, and that than a pod; a larger one more important than a smaller one, then
the one that started earlier, and then the one with the lower UID. Preemption for a pod and for a group share this;
where no pod names a group, `has_no_groups` says so for the cost of a look at the classes when they change.

Source: pkg/scheduler/framework/preemption (types.go, util.go).

Also change: internal/trireme/evaluation/preemption/potential_victims.py (the order of victims).

Tests: tests/unit/plugins/default_preemption/test_post_filter.py,
    tests/unit/plugins/default_preemption/test_pod_group_post_filter.py.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.preemption import potential_victims
from trireme.framework import group_ancestry
from trireme.snapshot import arrays, snapshot

_KIND = "pod_group"
_COMPOSITE = "composite_pod_group"

# How important victims of one priority are: a pod; a group; a group of groups.
_POD, _GROUP, _COMPOSITE_GROUP = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Victim:
    """The rows of pods that are evicted together, the earliest first; `rank` says what they are."""

    rows: tuple[int, ...]
    priority: int
    rank: int
    earliest_start: int
    uid: str  # of the first pod

    @property
    def of_group(self) -> bool:
        """Whether it is a group, of pods or of groups."""
        return self.rank > _POD

    @property
    def of_composite_group(self) -> bool:
        """Whether it is a group of groups."""
        return self.rank == _COMPOSITE_GROUP

    @property
    def importance(self) -> tuple[int, int, int, int, str]:
        """Sorts the most important first."""
        return -self.priority, -self.rank, -len(self.rows), self.earliest_start, self.uid


class GroupMembership:
    """Priorities and disruption of classes by their pods' groups, refreshed when classes or groups change.

    `priority` is the pods' own. `whole_group` numbers the group that the pods are evicted with; 0:
    each is evicted alone. `rank` is that of its pods, or of that group, as victims. Shapes: all (class,).
    """

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._generations = (-1, -1, -1)
        # Whether any group is disrupted as a whole; else no class needs to be looked at for the groups around it.
        self._has_whole_groups = False
        self.priority = np.zeros(0, dtype=np.int64)
        self.whole_group = np.zeros(0, dtype=np.int64)
        self.rank = np.zeros(0, dtype=np.int8)
        #: Whether any class is of pods that name a group.
        self.has_groups = False

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        return self.priority.nbytes + self.whole_group.nbytes + self.rank.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Bring the columns up to date with the snapshot's classes and groups.

        Of groups around each other the outermost that is disrupted as a whole is the victim.
        """
        generations = snap.classes_generation, snap.objects.last_change(_KIND), snap.objects.last_change(_COMPOSITE)
        if self._generations == generations:
            return
        if self._generations[1:] != generations[1:]:
            groups = itertools.chain(snap.objects.all(_KIND), snap.objects.all(_COMPOSITE))
            self._has_whole_groups = any(map(_is_disrupted_as_a_whole, groups))
        self.priority = class_priorities.priorities_by_class(snap)
        self.whole_group = np.zeros(self.priority.shape, dtype=np.int64)
        self.rank = np.full(self.priority.shape, _POD, dtype=np.int8)
        self.has_groups = False
        numbers: dict[tuple[str, str, str], int] = {}
        for pod_class in snap.classes.values():
            name = pod_class.pod_group_name
            if not name:
                continue
            self.has_groups = True
            if not self._has_whole_groups:
                break
            index = pod_class.index
            for kind, group in _groups_around(snap, pod_class.namespace, name):
                if _is_disrupted_as_a_whole(group):
                    key = kind, pod_class.namespace, group.metadata.name
                    self.whole_group[index] = numbers.setdefault(key, len(numbers) + 1)
                    self.rank[index] = _GROUP if kind == _KIND else _COMPOSITE_GROUP
        self._generations = generations


def _is_disrupted_as_a_whole(group: group_ancestry.Group) -> bool:
    """Whether all pods of the group are evicted together."""
    return group.spec.disruption_mode.HasField("all")


def _groups_around(snap: snapshot.Snapshot, namespace: str, name: str) -> Iterator[tuple[str, group_ancestry.Group]]:
    """The PodGroup and the groups around it, from the inside out, as far as they exist, each with its kind."""

    def find_group(key: tuple[str, str]) -> group_ancestry.Group | None:
        """Find a PodGroup or CompositePodGroup by kind and name; None where there is none."""
        return snap.objects.get(key[0], namespace, key[1])

    for (kind, _), group in itertools.islice(
        group_ancestry.ancestors_of((_KIND, name), find_group, _key_of_parent_group), group_ancestry.MAX_LEVELS
    ):
        if group is not None:
            yield kind, group


def _key_of_parent_group(key: tuple[str, str], group: group_ancestry.Group) -> tuple[str, str] | None:
    """The key of the group around this one; None: it is outermost."""
    parent = group.spec.parent_composite_pod_group_name
    return (_COMPOSITE, parent) if parent else None


def group_membership_of(snap: snapshot.Snapshot) -> GroupMembership:
    """Return the snapshot's group membership, up to date."""
    return snap.derived("group_membership", GroupMembership)


def has_no_groups(snap: snapshot.Snapshot) -> bool:
    """Return whether no pod of the cluster names a group."""
    return not group_membership_of(snap).has_groups


def rows_on_slots(snap: snapshot.Snapshot, slots: arrays.SlotArray, priority: int) -> arrays.RowArray:
    """Return the rows of the potential victims on these slots, as potential_victims.rows_on_slots does.

    Groups that are disrupted as a whole count by their rank. Shape: (victim,).
    """
    rows = [row for victim in victims(snap, priority, slots) for row in victim.rows]
    ordered = np.array(rows, dtype=np.intp)
    ordered = ordered[np.isin(snap.pods.slot[ordered], slots)]
    return ordered[np.argsort(snap.pods.slot[ordered], kind="stable")]


def victims(snap: snapshot.Snapshot, priority: int, slots: arrays.SlotArray | None = None) -> list[Victim]:
    """Return the victims of lower priority, the most important first: all, or those with a pod on these slots.

    A group that is disrupted as a whole is one victim, with its pods on other nodes too; one of its pods has the
    priority of all.
    """
    table, member = snap.pods, group_membership_of(snap)
    rows = np.flatnonzero(table.slot[: table.size] >= 0)
    whole_group = member.whole_group[table.class_index[rows]]
    lower = (member.priority[table.class_index[rows]] < priority) | (whole_group > 0)
    rows, whole_group = rows[lower], whole_group[lower]
    if slots is not None:
        there = np.isin(table.slot[rows], slots)
        there |= np.isin(whole_group, np.unique(whole_group[there & (whole_group > 0)]))
        rows, whole_group = rows[there], whole_group[there]
    alone = rows[whole_group == 0]
    out = [
        _victim_of_rows(snap, member, (row,), (start,))
        for row, start in zip(alone.tolist(), potential_victims.starts(snap, alone).tolist(), strict=True)
    ]
    for number in np.unique(whole_group[whole_group > 0]).tolist():
        of_group = rows[whole_group == number]
        started = potential_victims.starts(snap, of_group).tolist()
        out.append(_victim_of_rows(snap, member, of_group.tolist(), started))
    return sorted((victim for victim in out if victim.priority < priority), key=lambda victim: victim.importance)


def _victim_of_rows(
    snap: snapshot.Snapshot, member: GroupMembership, rows: Sequence[int], started: Sequence[int]
) -> Victim:
    """Make a victim of the pods at these rows, which are evicted together, and when each started."""
    index = int(snap.pods.class_index[rows[0]])
    ordered = tuple(row for _, row in sorted(zip(started, rows, strict=True)))
    uid = snap.pods.uids[ordered[0]]
    return Victim(ordered, int(member.priority[index]), int(member.rank[index]), min(started), uid)
