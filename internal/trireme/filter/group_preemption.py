"""DefaultPreemption for a group of pods: who has to go, in the whole cluster, so that all of them fit.

Pods of lower priority may go; those of a group that is disrupted as one are one victim, and a pod that belongs to a
group has the group's priority. The frontend places the preempting group as if all of them were gone (that takes score
too), and asks again: then victims are let back one by one, those first whose going would break a disruption budget, the
more important before the others, and who can stay beside all members where they are stays. Whether a member still fits
is asked of the filter plugins, as each saw the cluster: the members before it there, those after it not.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from trireme.filter import as_if, columns, evaluation, preemption_budgets, preemption_victims
from trireme.framework import status
from trireme.plugins import interfaces
from trireme.snapshot import arrays, pods, rehearsal, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2
from trireme.wire import status as wire_status

NAME = "DefaultPreemption"

# The place of a victim that is all over the cluster, as events name it.
_EVERYWHERE = "cluster"
_PREFIX = "pod group preemption: "


@dataclass(frozen=True, slots=True)
class _Unit:
    """A victim: rows of pods that go together. `group`: they are a group's."""

    rows: tuple[int, ...]
    priority: int
    group: bool
    earliest: int

    @property
    def importance(self) -> tuple[int, bool, int, int]:
        """Sorts the most important first."""
        return -self.priority, not self.group, -len(self.rows), self.earliest


def who_may_go(
    request: filter_pb2.PodGroupPostFilterRequest, snap: snapshot.Snapshot
) -> filter_pb2.PodGroupPostFilterResponse:
    """All victims that there could be, or why there are none, or that room is being made already."""
    if any(_never(member, snap) for member in request.members):
        return _answer(status.unschedulable(NAME, "not eligible due to preemptionPolicy=Never."))
    by_class = _priorities(snap)
    if _under_way(request, snap, by_class):
        return _answer(status.Status(status.Code.SUCCESS, "", ("ongoing preemption on nominated nodes",)))
    units = sorted(_units(snap, by_class, request.priority), key=lambda unit: unit.importance)
    if not units:
        return _answer(status.unresolvable(NAME, "No preemption victims found for incoming preemptor"))
    violating = preemption_budgets.Budgets(snap).violating([row for unit in units for row in unit.rows])
    out = filter_pb2.PodGroupPostFilterResponse()
    out.potential.extend(_victim(unit, snap, not violating.isdisjoint(unit.rows)) for unit in units)
    return out


def who_has_to_go(
    request: filter_pb2.PodGroupPostFilterRequest,
    snap: snapshot.Snapshot,
    chain: evaluation.Chain,
    kept: Mapping[int, columns.ClassColumns],
) -> filter_pb2.PodGroupPostFilterResponse:
    """The victims that cannot stay beside the members. `kept` are the columns of the members' classes."""
    order = sorted(range(len(request.victims)), key=lambda number: not request.victims[number].violates)
    staying = _Reprieve(request, snap, chain, kept).staying(order)
    going = [victim for number, victim in enumerate(request.victims) if number not in staying]
    count = sum(len(victim.pods) for victim in going)
    text = f"found a placement for podgroup, preempting {count} victims"
    out = _answer(status.Status(status.Code.SUCCESS, "", (text,)))
    preemptor = request.pod_group
    for pod in (pod for victim in going for pod in victim.pods if not pod.terminating):
        out.actions.add(
            pod=pod.pod,
            evict=bind_pb2.Evict(
                message=f"{request.cycle.profile}: preempting to accommodate a higher priority podgroup",
                preemptor=preemptor,
                node_name=_EVERYWHERE,
            ),
        )
    return out


class _Reprieve:
    """Lets victims back."""

    def __init__(
        self,
        request: filter_pb2.PodGroupPostFilterRequest,
        snap: snapshot.Snapshot,
        chain: evaluation.Chain,
        kept: Mapping[int, columns.ClassColumns],
    ) -> None:
        self._request = request
        self._snap = snap
        self._asking = {
            number: as_if.AsIf(
                chain, kept[number], snap.classes[number], snap, as_if.nominees(snap, request.priority, ""), apart=False
            )
            for number in kept
        }
        # Where a member's answer may depend on any other node, all members are asked about for each victim.
        self._everywhere = any(asking.one_by_one for asking in self._asking.values())
        rows = {snap.pods.uids[row]: row for row in range(snap.pods.size) if snap.pods.slot[row] != pods.NO_SLOT}
        self._members = [
            (member.pod_class, member.slot, rows[member.pod.uid])
            for member in request.members
            if member.pod.uid in rows
        ]

    def staying(self, order: Sequence[int]) -> set[int]:
        """The victims (indexes) that can stay, asked about in this order."""
        out: set[int] = set()
        with rehearsal.Rehearsal(self._snap) as rehearsed:
            for number in order:
                mark = rehearsed.mark
                victim = self._request.victims[number]
                self._add(victim, rehearsed)
                if self._fits({pod.slot for pod in victim.pods}, rehearsed):
                    out.add(number)
                else:
                    rehearsed.clear_added(mark)
        return out

    def _add(self, victim: filter_pb2.Victim, rehearsed: rehearsal.Rehearsal) -> None:
        there = [(pod.pod_class, pod.slot) for pod in victim.pods]
        known = [pair for pair in there if pair[0] in self._snap.classes and self._snap.nodes.alive[pair[1]]]
        pairs = np.array(known, dtype=np.int32).reshape(-1, 2)
        rehearsed.add(pairs[:, 0], pairs[:, 1])

    def _fits(self, slots: set[int], rehearsed: rehearsal.Rehearsal) -> bool:
        """Whether the members that the victim's pods on these slots may hinder fit where they are."""
        members = [each for each in self._members if self._everywhere or each[1] in slots]
        rows = np.array([row for _, _, row in members], dtype=np.intp)
        rehearsed.remove(rows)
        fits = all(self._run_fits(*run, rehearsed) for run in _runs(members))
        rehearsed.restore(rows[np.array([self._snap.pods.slot[row] == pods.NO_SLOT for row in rows], dtype=np.bool_)])
        return fits

    def _run_fits(self, pod_class: int, slot: int, rows: list[int], rehearsed: rehearsal.Rehearsal) -> bool:
        """Whether members of one class that come one after the other fit on the slot; if so they are there then."""
        asking = self._asking[pod_class]
        said = asking.verdicts(np.array([slot], dtype=np.intp), rehearsed)
        if said.index[0] != interfaces.PASSES or (said.capacity is not None and said.capacity[0] < len(rows)):
            return False
        rehearsed.restore(np.array(rows, dtype=np.intp))
        return True


def _runs(members: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Class, slot and rows of members in a row that are of one class and on one slot."""
    for (pod_class, slot), run in groupby(members, key=lambda member: member[:2]):
        yield pod_class, slot, [row for _, _, row in run]


def _never(member: filter_pb2.PodGroupMember, snap: snapshot.Snapshot) -> bool:
    pod_class = snap.classes.get(member.pod_class)
    return pod_class is not None and pod_class.pod.spec.preemption_policy == "Never"


def _under_way(
    request: filter_pb2.PodGroupPostFilterRequest, snap: snapshot.Snapshot, by_class: arrays.Int64Array
) -> bool:
    """Whether a pod that is less important than the group is being deleted from a node that a member is promised."""
    promised = {member.nominated_node for member in request.members} - {""}
    slots = [snap.nodes.slots[name] for name in promised if name in snap.nodes.slots]
    table = snap.pods
    there = np.isin(table.slot[: table.size], slots)
    lesser = by_class[table.pod_class[: table.size]] < request.priority
    return bool((there & lesser & ((table.flags[: table.size] & pods.PREEMPTED) != 0)).any())


def _group_of(number: int, snap: snapshot.Snapshot) -> tuple[str, str] | None:
    pod_class = snap.classes[number]
    name = pod_class.pod.spec.scheduling_group.pod_group_name
    return (pod_class.namespace, name) if name else None


def _priorities(snap: snapshot.Snapshot) -> arrays.Int64Array:
    """The priority of each class: of a group's pods that of the group. Shape: (class,)."""
    out = preemption_victims.priorities(snap).copy()
    for number in snap.classes:
        key = _group_of(number, snap)
        group = snap.objects.get("pod_group", *key) if key is not None else None
        if group is not None:
            out[number] = group.spec.priority
    return out


def _units(snap: snapshot.Snapshot, by_class: arrays.Int64Array, priority: int) -> Iterator[_Unit]:
    table = snap.pods
    rows = np.flatnonzero(table.slot[: table.size] >= 0)
    rows = rows[by_class[table.pod_class[rows]] < priority]
    start = np.where(table.start[rows] == 0, preemption_victims.NOT_STARTED, table.start[rows])
    together: dict[tuple[str, str], list[int]] = {}
    whole = {number: _disrupted_as_one(number, snap) for number in np.unique(table.pod_class[rows]).tolist()}
    for at, row in enumerate(rows.tolist()):
        number = int(table.pod_class[row])
        key = whole[number]
        if key is None:
            yield _Unit((row,), int(by_class[number]), False, int(start[at]))
        else:
            together.setdefault(key, []).append(at)
    for positions in together.values():
        number = int(table.pod_class[rows[positions[0]]])
        yield _Unit(tuple(rows[positions].tolist()), int(by_class[number]), True, int(start[positions].min()))


def _disrupted_as_one(number: int, snap: snapshot.Snapshot) -> tuple[str, str] | None:
    """The group that all pods of the class go with, if they do."""
    key = _group_of(number, snap)
    group = snap.objects.get("pod_group", *key) if key is not None else None
    return key if group is not None and group.spec.disruption_mode.HasField("all") else None


def _victim(unit: _Unit, snap: snapshot.Snapshot, violates: bool) -> filter_pb2.Victim:
    out = filter_pb2.Victim(violates=violates)
    table = snap.pods
    for row in unit.rows:
        number = int(table.pod_class[row])
        identity = cycle_pb2.PodIdentity(
            namespace=snap.classes[number].namespace, name=table.names[row], uid=table.uids[row]
        )
        terminating = bool(table.flags[row] & pods.TERMINATING)
        out.pods.add(pod=identity, pod_class=number, slot=int(table.slot[row]), terminating=terminating)
    return out


def _answer(said: status.Status) -> filter_pb2.PodGroupPostFilterResponse:
    prefixed = status.Status(said.code, said.plugin, tuple(_PREFIX + text for text in said.messages))
    return filter_pb2.PodGroupPostFilterResponse(status=wire_status.to_message(prefixed))
