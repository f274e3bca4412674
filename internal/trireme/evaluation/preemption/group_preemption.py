"""DefaultPreemption for a group of pods: who has to go, in the whole cluster, so that all of them fit.

Pods of lower priority may go; those of a group that is disrupted as one are one victim, and a pod that belongs to a
group has the group's priority. The frontend places the preempting group as if all of them were gone (that takes score
too), and asks again: then victims are let back one by one, those first whose going would break a disruption budget, the
more important before the others, and who can stay beside all members where they are stays. Whether a member still fits
is asked of the filter plugins, as each saw the cluster: the members before it there, those after it not. Members of one
class that come one after the other are asked about at once where plugins count how many pods of a class fit on a node.

Members whose own group does not fit, though the tree does, count as well: their places were given up before others were
placed, so they may be in the way of each other, and then nobody can stay.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from trireme.evaluation.filtering import columns, dry_run_filter, filter_chain, nominated_pods
from trireme.evaluation.preemption import dry_run_services, group_victims, preemption_budgets
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, overlay, pods, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_phase_pb2, status_pb2
from trireme.wire import status as wire_status

NAME = "DefaultPreemption"

# The place of a victim that is all over the cluster, as events name it.
_EVERYWHERE = "cluster"
_PREFIX = "pod group preemption: "
# The row of a member that is not in the cluster: its own group does not fit.
_IMAGINED = -1
# Nobody: classes and slots.
_PAIRS = np.zeros((0, 2), dtype=np.int32)


def potential_victims(
    request: filter_phase_pb2.ListPodGroupVictimsRequest, snap: snapshot.Snapshot
) -> filter_phase_pb2.ListPodGroupVictimsResponse:
    """All victims that there could be, or why there are none, or that room is being made already."""
    if any(_never(member, snap) for member in request.members):
        return _no_victims(status.unschedulable(NAME, "not eligible due to preemptionPolicy=Never."))
    if _under_way(request, snap):
        return _no_victims(status.Status(status.Code.SUCCESS, "", ("ongoing preemption on nominated nodes",)))
    units = group_victims.units(snap, request.priority)
    if not units:
        return _no_victims(status.unresolvable(NAME, "No preemption victims found for incoming preemptor"))
    violating = preemption_budgets.Budgets(snap).violating([row for unit in units for row in unit.rows])
    out = filter_phase_pb2.ListPodGroupVictimsResponse()
    out.victims.extend(_victim(unit, snap, len(violating.intersection(unit.rows))) for unit in units)
    return out


async def reprieve_victims(
    request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
    snap: snapshot.Snapshot,
    chain: filter_chain.FilterChain,
    kept: Mapping[int, columns.ClassColumns],
) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
    """The victims that cannot stay beside the members. `kept` are the columns of the members' classes. Raises:
    OutOfStepError where the snapshot moved on while plugins in other processes were asked.
    """
    order = sorted(range(len(request.victims)), key=lambda number: not request.victims[number].violations)
    staying = await _Reprieve(request, snap, chain, kept).staying(order)
    going = [victim for number, victim in enumerate(request.victims) if number not in staying]
    count = sum(len(victim.pods) for victim in going)
    text = f"found a placement for podgroup, preempting {count} victims"
    said = status.Status(status.Code.SUCCESS, "", (text,))
    out = filter_phase_pb2.ReprievePodGroupVictimsResponse(status=_prefixed(said))
    out.disruption.victims = count
    out.disruption.violations = sum(victim.violations for victim in going)
    out.disruption.of_groups = sum(victim.of_group for victim in going)
    preemptor, kind = request.pod_group, "compositepodgroup" if request.composite else "podgroup"
    for pod in (pod for victim in going for pod in victim.pods if not pod.terminating):
        out.actions.add(
            pod=pod.pod,
            evict=bind_pb2.Evict(
                message=f"{request.cycle.profile}: preempting to accommodate a higher priority {kind}",
                preemptor=preemptor,
                node_name=_EVERYWHERE,
            ),
        )
    return out


class _Reprieve:
    """Lets victims back."""

    def __init__(
        self,
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
        snap: snapshot.Snapshot,
        chain: filter_chain.FilterChain,
        kept: Mapping[int, columns.ClassColumns],
    ) -> None:
        self._request = request
        self._snap = snap
        self._dry_runs: dict[int, dry_run_filter.DryRunFilter] = {}
        self._services: dict[int, dry_run_services.DryRunServices] = {}
        nominees = nominated_pods.nominees(snap, request.priority)
        for number, of_class in kept.items():
            pod_class = snap.classes[number]
            asked = dry_run_services.of(chain, of_class, pod_class, snap, nominees)
            if asked is not None:
                self._services[number] = asked
            excluded = asked.names if asked is not None else frozenset[str]()
            self._dry_runs[number] = dry_run_filter.DryRunFilter(
                chain, of_class, pod_class, snap, nominees, excluded, isolated=False
            )
        # Where a member's answer may depend on any other node, all members are asked about for each victim.
        self._everywhere = any(dry_run.one_by_one for dry_run in self._dry_runs.values()) or any(
            asked.one_by_one for asked in self._services.values()
        )
        rows = {snap.pods.uids[row]: row for row in range(snap.pods.size) if snap.pods.slot[row] != pods.NO_SLOT}
        self._members = [
            (member.pod_class, member.slot, rows.get(member.pod.uid, _IMAGINED))
            for member in request.placed
            if snap.nodes.alive[member.slot]
        ]
        self._imagined = any(row == _IMAGINED for _, _, row in self._members)

    async def staying(self, order: Sequence[int]) -> set[int]:
        """The victims (indexes) that can stay, asked about in this order."""
        out: set[int] = set()
        back = _PAIRS
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            # The cluster has room for all who are in it. Besides them there may be too many.
            if self._imagined and not self._fits(self._members, over):
                return out
            for number in order:
                mark = over.mark
                victim = self._request.victims[number]
                pairs = self._pairs(victim)
                over.add(pairs[:, 0], pairs[:, 1])
                members = self._hindered(victim)
                fits = self._fits(members, over)
                if fits and self._services:
                    fits = await self._services_agree(members, np.concatenate([back, pairs]), over)
                if fits:
                    out.add(number)
                    back = np.concatenate([back, pairs]) if self._services else back
                else:
                    over.drop_added(mark)
        return out

    def _pairs(self, victim: filter_phase_pb2.Victim) -> arrays.Int32Array:
        """Class and slot of the victim's pods, where they can be let back to. Shape: (pod, 2)."""
        there = [(pod.pod_class, pod.slot) for pod in victim.pods]
        known = [pair for pair in there if pair[0] in self._snap.classes and self._snap.nodes.alive[pair[1]]]
        return np.array(known, dtype=np.int32).reshape(-1, 2)

    def _hindered(self, victim: filter_phase_pb2.Victim) -> Sequence[tuple[int, int, int]]:
        """The members that the victim may hinder."""
        slots = {pod.slot for pod in victim.pods}
        return [each for each in self._members if self._everywhere or each[1] in slots]

    async def _services_agree(
        self,
        members: Sequence[tuple[int, int, int]],
        back: arrays.Int32Array,
        over: overlay.SnapshotOverlay,
    ) -> bool:
        """Whether plugins in other processes let the members be where they are, with these victims back: each member
        beside those before it.
        """
        wanted: dict[int, list[interfaces.DryRun]] = {number: [] for number in self._services}
        for at, (number, slot, _) in enumerate(members):
            if number in wanted:
                later = [row for _, other, row in members[at:] if other == slot and row != _IMAGINED]
                beside = [of_class for of_class, other, row in members[:at] if other == slot and row == _IMAGINED]
                there = [*back[back[:, 1] == slot, 0].tolist(), *beside]
                wanted[number].append(interfaces.DryRun(slot, later, there))
        fits = True
        for number, runs in wanted.items():
            fits = fits and not (await self._services[number].dry_runs(runs)).any()
        over.check()
        return fits

    def _fits(self, members: Sequence[tuple[int, int, int]], over: overlay.SnapshotOverlay) -> bool:
        """Whether these members fit where they are."""
        rows = np.array([row for _, _, row in members if row != _IMAGINED], dtype=np.intp)
        mark = over.mark
        over.remove(rows)
        fits = all(self._run_fits(*run, over) for run in _runs(members))
        over.drop_added(mark)
        over.restore(rows[np.isin(rows, over.changes.removed)])
        return fits

    def _run_fits(self, pod_class: int, slot: int, rows: list[int], over: overlay.SnapshotOverlay) -> bool:
        """Whether members of one class that come one after the other fit on the slot; if so they are there then."""
        if self._dry_runs[pod_class].counts_copies:
            return self._copies_fit(pod_class, slot, rows, over)
        return all(self._copies_fit(pod_class, slot, [row], over) for row in rows)

    def _copies_fit(self, pod_class: int, slot: int, rows: list[int], over: overlay.SnapshotOverlay) -> bool:
        """As _run_fits, by how many pods of the class the plugins say that there is room for."""
        said = self._dry_runs[pod_class].filter(np.array([slot], dtype=np.intp), over)
        if said.index[0] != interfaces.PASSES or (said.capacity is not None and said.capacity[0] < len(rows)):
            return False
        over.restore(np.array([row for row in rows if row != _IMAGINED], dtype=np.intp))
        imagined = np.full(rows.count(_IMAGINED), slot, dtype=np.int32)
        over.add(np.full(imagined.shape, pod_class, dtype=np.int32), imagined)
        return True


def _runs(members: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Class, slot and rows of members in a row that are of one class and on one slot."""
    for (pod_class, slot), run in groupby(members, key=lambda member: member[:2]):
        yield pod_class, slot, [row for _, _, row in run]


def _never(member: filter_phase_pb2.PodGroupMember, snap: snapshot.Snapshot) -> bool:
    pod_class = snap.classes.get(member.pod_class)
    return pod_class is not None and pod_class.pod.spec.preemption_policy == "Never"


def _under_way(request: filter_phase_pb2.ListPodGroupVictimsRequest, snap: snapshot.Snapshot) -> bool:
    """Whether a pod that is less important than the group is being deleted from a node that a member is promised."""
    promised = {member.nominated_node for member in request.members} - {""}
    slots = [snap.nodes.slots[name] for name in promised if name in snap.nodes.slots]
    table = snap.pods
    there = np.isin(table.slot[: table.size], slots)
    lesser = group_victims.membership(snap).priority[table.pod_class[: table.size]] < request.priority
    return bool((there & lesser & ((table.flags[: table.size] & pods.PREEMPTED) != 0)).any())


def _victim(unit: group_victims.Unit, snap: snapshot.Snapshot, violations: int) -> filter_phase_pb2.Victim:
    out = filter_phase_pb2.Victim(violations=violations, of_group=unit.of_group)
    table = snap.pods
    for row in unit.rows:
        number = int(table.pod_class[row])
        identity = cycle_pb2.PodIdentity(
            namespace=snap.classes[number].namespace, name=table.names[row], uid=table.uids[row]
        )
        terminating = bool(table.flags[row] & pods.TERMINATING)
        out.pods.add(pod=identity, pod_class=number, slot=int(table.slot[row]), terminating=terminating)
    return out


def _no_victims(said: status.Status) -> filter_phase_pb2.ListPodGroupVictimsResponse:
    return filter_phase_pb2.ListPodGroupVictimsResponse(status=_prefixed(said))


def _prefixed(said: status.Status) -> status_pb2.Status:
    return wire_status.to_message(
        status.Status(said.code, said.plugin, tuple(_PREFIX + text for text in said.messages))
    )
