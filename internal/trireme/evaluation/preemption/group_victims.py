"""Victims of preemption where there are pod groups: a pod, or all pods of a group that is disrupted as one.

A pod of a group counts with the priority of its group, or of the topmost group of groups that it is in; and the topmost
of them that is disrupted as one is who it goes with. A group of groups is more important than a group of its priority,
and that than a pod; a larger one more important than a smaller one, and then who started earlier. Single pods that
preempt and groups that do share this; where no pod names a group, `none` says so at the price of a look at the classes
when they change.

Source: pkg/scheduler/framework/preemption (types.go, util.go).
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.preemption import preemption_victims
from trireme.framework import group_ancestry
from trireme.snapshot import arrays, snapshot

_KIND = "pod_group"
_COMPOSITE = "composite_pod_group"
# How far up groups are looked at.
_MAX_LEVELS = 4

# How important victims of the same priority are: a pod, one of a group or such a group, a group of groups.
_POD, _GROUP, _GROUPS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Unit:
    """A victim: rows of pods that go together. `rank`: what it is."""

    rows: tuple[int, ...]
    priority: int
    rank: int
    earliest: int

    @property
    def of_group(self) -> bool:
        """It is a group, or a pod of one."""
        return self.rank > _POD

    @property
    def importance(self) -> tuple[int, int, int, int]:
        """Sorts the most important first."""
        return -self.priority, -self.rank, -len(self.rows), self.earliest


class Membership:
    """By class what its pods' group makes of them; made anew when classes or groups change. Shapes: both (class,).

    `priority` is that of the group where there is one. `whole` is the number of the group that they all go with; 0:
    each goes alone. `rank`: what its pods, or they with others, are as victims.
    """

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._generations = (-1, -1, -1)
        self.priority = np.zeros(0, dtype=np.int64)
        self.whole = np.zeros(0, dtype=np.int64)
        self.rank = np.zeros(0, dtype=np.int8)

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        return self.priority.nbytes + self.whole.nbytes + self.rank.nbytes

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Take in the classes and groups that came."""
        generations = snap.classes_generation, snap.objects.generation(_KIND), snap.objects.generation(_COMPOSITE)
        if self._generations == generations:
            return
        self.priority = class_priorities.of(snap).copy()
        self.whole = np.zeros(self.priority.shape, dtype=np.int64)
        self.rank = np.full(self.priority.shape, _POD, dtype=np.int8)
        numbers: dict[tuple[str, str, str], int] = {}
        for pod_class in snap.classes.values():
            name = pod_class.pod.spec.scheduling_group.pod_group_name
            if not name:
                continue
            self.rank[pod_class.id] = _GROUP
            for kind, group in _upwards(snap, pod_class.namespace, name):
                self.priority[pod_class.id] = group.spec.priority
                if group.spec.disruption_mode.HasField("all"):
                    key = kind, pod_class.namespace, group.metadata.name
                    self.whole[pod_class.id] = numbers.setdefault(key, len(numbers) + 1)
                    self.rank[pod_class.id] = _GROUP if kind == _KIND else _GROUPS
        self._generations = generations


def _upwards(snap: snapshot.Snapshot, namespace: str, name: str) -> Iterator[tuple[str, group_ancestry.Group]]:
    """The PodGroup and what it is in, one after the other, each with its kind, as far as they are there."""

    def get(key: tuple[str, str]) -> group_ancestry.Group | None:
        return snap.objects.get(key[0], namespace, key[1])

    for (kind, _), group in itertools.islice(group_ancestry.upwards((_KIND, name), get, _parent_of), _MAX_LEVELS):
        if group is not None:
            yield kind, group


def _parent_of(key: tuple[str, str], group: group_ancestry.Group) -> tuple[str, str] | None:
    parent = group.spec.parent_composite_pod_group_name
    return (_COMPOSITE, parent) if parent else None


def membership(snap: snapshot.Snapshot) -> Membership:
    """What the groups make of the classes."""
    return snap.derived("group_membership", Membership)


def none(snap: snapshot.Snapshot) -> bool:
    """No pod of the cluster names a group."""
    return not (membership(snap).rank > _POD).any()


def on_slots(snap: snapshot.Snapshot, slots: arrays.SlotArray, priority: int) -> arrays.SlotArray:
    """As preemption_victims.potential_victims, with regard for groups. Shape: (victim,)."""
    rows = [row for unit in units(snap, priority, slots) for row in unit.rows]
    ordered = np.array(rows, dtype=np.intp)
    ordered = ordered[np.isin(snap.pods.slot[ordered], slots)]
    return ordered[np.argsort(snap.pods.slot[ordered], kind="stable")]


def units(snap: snapshot.Snapshot, priority: int, slots: arrays.SlotArray | None = None) -> list[Unit]:
    """The victims of lower priority in the whole cluster, or those that have a pod on these slots: the most important
    first.
    """
    table, member = snap.pods, membership(snap)
    rows = np.flatnonzero(table.slot[: table.size] >= 0)
    rows = rows[member.priority[table.pod_class[rows]] < priority]
    whole = member.whole[table.pod_class[rows]]
    if slots is not None:
        there = np.isin(table.slot[rows], slots)
        there |= np.isin(whole, np.unique(whole[there & (whole > 0)]))
        rows, whole = rows[there], whole[there]
    out = [_unit(snap, member, (row,)) for row in rows[whole == 0].tolist()]
    for number in np.unique(whole[whole > 0]).tolist():
        out.append(_unit(snap, member, rows[whole == number].tolist()))
    return sorted(out, key=lambda unit: unit.importance)


def _unit(snap: snapshot.Snapshot, member: Membership, rows: Sequence[int]) -> Unit:
    started = [int(snap.pods.start[row]) or int(preemption_victims.NOT_STARTED) for row in rows]
    number = int(snap.pods.pod_class[rows[0]])
    ordered = tuple(row for _, row in sorted(zip(started, rows, strict=True)))
    return Unit(ordered, int(member.priority[number]), int(member.rank[number]), min(started))
