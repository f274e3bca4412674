"""DefaultPreemption's PodGroupPostFilter: the pods to evict in the whole cluster so that all pods of a group fit.

The potential victims are pods of lower priority; those of a group that is disrupted as a whole are one victim. The
frontend places the preempting group as if all of them were gone (that takes score too), and calls again: then victims
are reprieved one by one, those first whose eviction would violate a disruption budget, the more important before the
others, and each that can stay beside all placed members stays. The filter plugins say whether a member still fits, in
the cluster as each member found it: with the members before it, and without those after it. Members of one class in a
row are filtered at once where plugins count how many pods of a class fit on a node.

Members whose own group does not fit, though the whole tree of groups does, count as well: their places were given up
before others were placed, so they may be in the way of each other, and then no victim can stay.

Source: pkg/scheduler/framework/preemption/podgrouppreemption.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from trireme.evaluation.filtering import class_verdicts, dry_run_filter, filter_chain, nominated_pods
from trireme.evaluation.preemption import (
    async_dry_runs,
    candidate_selection,
    disruption_budgets,
    post_filter_context,
    victims_with_groups,
)
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.default_preemption.spec import SPEC
from trireme.snapshot import arrays, overlay, pods, snapshot
from trireme.v1 import bind_pb2, filter_phase_pb2, status_pb2
from trireme.wire import status as wire_status

# The node of a victim that is all over the cluster, as events name it.
_EVERYWHERE = "cluster"
# The row of a member that is not in the cluster: its own group does not fit.
_NOT_IN_CLUSTER = -1
# No classes and slots.
_NO_PODS = np.zeros((0, 2), dtype=np.int32)

# A placed member: its class, slot and row.
_Member = tuple[int, int, int]


class PodGroupPreemption:
    """DefaultPreemption at PodGroupPostFilter: preempts in the whole cluster for a group of pods."""

    def list_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest, snap: snapshot.Snapshot
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Return all potential victims of the group; without any, the status says why there are none.

        None are listed if victims of the group are still being deleted (SUCCESS), if a member never preempts, or if
        nothing of lower priority runs.
        """
        if _are_victims_terminating(request, snap):
            return _response_without_victims(
                status.Status(status.Code.SUCCESS, "", ("ongoing preemption on nominated nodes",))
            )
        if any(_never_preempts(member, snap) for member in request.members):
            return _response_without_victims(
                status.unschedulable(
                    SPEC.name,
                    "not eligible due to preemptionPolicy=Never.",
                    reasons=(status.Reason("neverPreempts"),),
                )
            )
        victims = victims_with_groups.victims(snap, request.priority)
        if not victims:
            return _response_without_victims(
                status.unschedulable(
                    SPEC.name,
                    "No preemption victims found for incoming preemptor",
                    reasons=(status.Reason("noVictims"),),
                )
            )
        budgets = disruption_budgets.DisruptionBudgets(snap)
        violating = budgets.violating_rows([row for victim in victims for row in victim.rows])
        out = filter_phase_pb2.ListPodGroupVictimsResponse()
        out.victims.extend(
            _victim_message(victim, snap, len(violating.intersection(victim.rows))) for victim in victims
        )
        return out

    async def reprieve_victims(
        self,
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
        snap: snapshot.Snapshot,
        chain: filter_chain.FilterChain,
        class_columns: Mapping[int, class_verdicts.ClassVerdicts],
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """Return evictions for the victims that cannot stay beside the members, which are assumed on their nodes.

        Victims that would violate a budget are reprieved first. Pods that are terminating already get no eviction, but
        count. `class_columns` are those of the members' classes. Raises: OutOfStepError where the snapshot changed
        while plugins were called.
        """
        order = sorted(range(len(request.victims)), key=lambda number: not request.victims[number].violations)
        staying = await _GroupVictimReprieve(request, snap, chain, class_columns).find_victims_that_stay(order)
        evicted = [victim for number, victim in enumerate(request.victims) if number not in staying]
        count = sum(len(victim.pods) for victim in evicted)
        text = f"found a placement for podgroup, preempting {count} victims"
        out = filter_phase_pb2.ReprievePodGroupVictimsResponse(
            status=_status_with_prefix(status.Status(status.Code.SUCCESS, "", (text,)))
        )
        out.disruption.victims = count
        out.disruption.violations = sum(victim.violations for victim in evicted)
        out.disruption.of_composite_groups = sum(victim.composite for victim in evicted)
        out.disruption.of_groups = sum(victim.of_group and not victim.composite for victim in evicted)
        out.disruption.single_pods = sum(not victim.of_group for victim in evicted)
        kind = "compositepodgroup" if request.composite else "podgroup"
        for pod in (pod for victim in evicted for pod in victim.pods if not pod.terminating):
            out.actions.add(
                pod=pod.pod,
                evict=bind_pb2.Evict(
                    message=f"{request.cycle.profile}: preempting to accommodate a higher priority {kind}",
                    preemptor=request.pod_group,
                    node_name=_EVERYWHERE,
                ),
            )
        return out


class _GroupVictimReprieve:
    """Finds the victims of a group that can stay beside its members, for one request."""

    def __init__(
        self,
        request: filter_phase_pb2.ReprievePodGroupVictimsRequest,
        snap: snapshot.Snapshot,
        chain: filter_chain.FilterChain,
        class_columns: Mapping[int, class_verdicts.ClassVerdicts],
    ) -> None:
        self._request = request
        self._snap = snap
        self._filters: dict[int, dry_run_filter.DryRunFilter] = {}
        self._asynchronous: dict[int, async_dry_runs.AsyncDryRuns] = {}
        nominees = nominated_pods.nominees_of_at_least(snap, request.priority)
        for number, of_class in class_columns.items():
            pod_class = snap.classes[number]
            asynchronous = async_dry_runs.async_dry_runs_of_class(chain, of_class, pod_class, snap, nominees)
            if asynchronous is not None:
                self._asynchronous[number] = asynchronous
            excluded = asynchronous.names if asynchronous is not None else frozenset[str]()
            self._filters[number] = dry_run_filter.DryRunFilter(
                chain, of_class, pod_class, snap, nominees, excluded, isolated=False
            )
        # Where the verdict on a member may depend on any other node, all members are filtered for each victim.
        self._everywhere = any(filters.slots_affect_each_other for filters in self._filters.values()) or any(
            runs.slots_affect_each_other for runs in self._asynchronous.values()
        )
        rows = {snap.pods.uids[row]: row for row in range(snap.pods.size) if snap.pods.slot[row] != pods.NO_SLOT}
        self._members = [
            (member.pod_class, member.slot, rows.get(member.pod.uid, _NOT_IN_CLUSTER))
            for member in request.placed
            if snap.nodes.alive[member.slot]
        ]
        self._some_not_in_cluster = any(row == _NOT_IN_CLUSTER for _, _, row in self._members)

    async def find_victims_that_stay(self, order: Sequence[int]) -> set[int]:
        """Return which victims (indexes into the request's) can stay beside all members.

        The victims are tried one by one in this order. One that can stay counts when the next is tried.
        """
        staying: set[int] = set()
        reprieved = _NO_PODS
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            # Members in the cluster fit without victims: the frontend placed them so. A member that is not in it (its
            # own group does not fit) may be in the way of others; if all do not fit together, no victim can stay.
            if self._some_not_in_cluster and not self._fit_by_synchronous_plugins(self._members, over):
                return staying
            for number in order:
                # Add the victim's pods. They stay in the overlay if the members still fit, and are dropped if not.
                mark = over.added_mark
                victim = self._request.victims[number]
                added = self._pods_of_victim(victim)
                over.add(added[:, 0], added[:, 1])
                members = self._members_affected_by(victim)
                fits = self._fit_by_synchronous_plugins(members, over)
                if fits and self._asynchronous:
                    fits = await self._fit_by_asynchronous_plugins(members, np.concatenate([reprieved, added]), over)
                if fits:
                    staying.add(number)
                    reprieved = np.concatenate([reprieved, added]) if self._asynchronous else reprieved
                else:
                    over.drop_added(mark)
        return staying

    def _pods_of_victim(self, victim: filter_phase_pb2.Victim) -> arrays.Int32Array:
        """Return class and slot of those of the victim's pods whose class and node still exist. Shape: (pod, 2)."""
        found = [
            (pod.pod_class, pod.slot)
            for pod in victim.pods
            if pod.pod_class in self._snap.classes and self._snap.nodes.alive[pod.slot]
        ]
        return np.array(found, dtype=np.int32).reshape(-1, 2)

    def _members_affected_by(self, victim: filter_phase_pb2.Victim) -> Sequence[_Member]:
        """Return the members that may not fit beside the victim: those on its nodes, or all if any node may matter."""
        slots = {pod.slot for pod in victim.pods}
        return [each for each in self._members if self._everywhere or each[1] in slots]

    async def _fit_by_asynchronous_plugins(
        self, members: Sequence[_Member], reprieved: arrays.Int32Array, over: overlay.SnapshotOverlay
    ) -> bool:
        """Return whether the members fit by the asynchronous plugins, each beside the victims and members before it.

        `reprieved` are class and slot of the victims' pods that stay. Raises: OutOfStepError where the snapshot
        changed.
        """
        dry_runs: dict[int, list[interfaces.DryRun]] = {number: [] for number in self._asynchronous}
        for at, (number, slot, _) in enumerate(members):
            if number in dry_runs:
                later = [row for _, other, row in members[at:] if other == slot and row != _NOT_IN_CLUSTER]
                before = [cls for cls, other, row in members[:at] if other == slot and row == _NOT_IN_CLUSTER]
                there = [*reprieved[reprieved[:, 1] == slot, 0].tolist(), *before]
                dry_runs[number].append(interfaces.DryRun(slot, later, there))
        fits = True
        for number, runs in dry_runs.items():
            fits = fits and not (await self._asynchronous[number].run(runs)).any()
        over.check()
        return fits

    def _fit_by_synchronous_plugins(self, members: Sequence[_Member], over: overlay.SnapshotOverlay) -> bool:
        """Return whether the members fit on their nodes, by the synchronous plugins, each beside those before it.

        The members are taken out of the overlay for that; afterwards it is as before.
        """
        rows = np.array([row for _, _, row in members if row != _NOT_IN_CLUSTER], dtype=np.intp)
        mark = over.added_mark
        over.remove(rows)
        fits = all(self._equal_members_fit(*run, over) for run in _consecutive_equal_members(members))
        over.drop_added(mark)
        over.restore(rows[np.isin(rows, over.overlaid_pods.removed)])
        return fits

    def _equal_members_fit(self, pod_class: int, slot: int, rows: list[int], over: overlay.SnapshotOverlay) -> bool:
        """Add members of one class to their slot in the overlay, if they fit; return whether all do.

        `rows` has the row of each member, or _NOT_IN_CLUSTER. At the first that does not fit it ends: the caller undoes
        all.
        """
        if self._filters[pod_class].has_exact_capacities:
            return self._copies_fit(pod_class, slot, rows, over)
        return all(self._copies_fit(pod_class, slot, [row], over) for row in rows)

    def _copies_fit(self, pod_class: int, slot: int, rows: list[int], over: overlay.SnapshotOverlay) -> bool:
        """As `_equal_members_fit`, of as many members at once as the plugins can count: one if they count none."""
        verdict = self._filters[pod_class].filter(np.array([slot], dtype=np.intp), over)
        if verdict.index[0] != interfaces.PASSES:
            return False
        if verdict.capacity is not None and verdict.capacity[0] < len(rows):
            return False
        over.restore(np.array([row for row in rows if row != _NOT_IN_CLUSTER], dtype=np.intp))
        added = np.full(rows.count(_NOT_IN_CLUSTER), slot, dtype=np.int32)
        over.add(np.full(added.shape, pod_class, dtype=np.int32), added)
        return True


def _consecutive_equal_members(members: Sequence[_Member]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield class, slot and rows of members that follow one another and are of one class on one slot."""
    for (pod_class, slot), run in groupby(members, key=lambda member: member[:2]):
        yield pod_class, slot, [row for _, _, row in run]


def _never_preempts(member: filter_phase_pb2.PodGroupMember, snap: snapshot.Snapshot) -> bool:
    """Return whether the member's preemption policy is Never; not if its class is gone."""
    pod_class = snap.classes.get(member.pod_class)
    return pod_class is not None and pod_class.pod.spec.preemption_policy == "Never"


def _are_victims_terminating(request: filter_phase_pb2.ListPodGroupVictimsRequest, snap: snapshot.Snapshot) -> bool:
    """Return whether preempted pods of lower priority are still terminating on a node that a member is nominated to."""
    nominated = {member.nominated_node for member in request.members} - {""}
    slots = [snap.nodes.slot_of_name[name] for name in nominated if name in snap.nodes.slot_of_name]
    table = snap.pods
    there = np.isin(table.slot[: table.size], slots)
    lower = victims_with_groups.group_membership_of(snap).priority[table.class_index[: table.size]] < request.priority
    return bool((there & lower & ((table.flags[: table.size] & pods.PREEMPTED) != 0)).any())


def _victim_message(
    victim: victims_with_groups.Victim, snap: snapshot.Snapshot, violations: int
) -> filter_phase_pb2.Victim:
    """Make the message of a victim: a pod, or all pods of a group, with `violations` of disruption budgets."""
    out = filter_phase_pb2.Victim(
        violations=violations,
        of_group=victim.of_group,
        composite=victim.of_composite_group,
        priority=victim.priority,
    )
    table = snap.pods
    for row in victim.rows:
        out.pods.add(
            pod=candidate_selection.pod_identity(snap, row),
            pod_class=int(table.pod_class[row]),
            slot=int(table.slot[row]),
            terminating=bool(table.flags[row] & pods.TERMINATING),
        )
    return out


def _response_without_victims(entry: status.Status) -> filter_phase_pb2.ListPodGroupVictimsResponse:
    """Make the response that lists no victims and says why, prefixed as kube-scheduler does."""
    return filter_phase_pb2.ListPodGroupVictimsResponse(status=_status_with_prefix(entry))


def _status_with_prefix(entry: status.Status) -> status_pb2.Status:
    """Return the status as a message, the prefix before each of its texts."""
    texts = tuple(post_filter_context.GROUP_TEXT_PREFIX + text for text in entry.messages)
    return wire_status.to_message(status.Status(entry.code, entry.plugin, texts, entry.reasons))


def make(context: plugin_context.PluginContext) -> PodGroupPreemption:
    """Make the plugin for PodGroupPostFilter; it has no arguments."""
    return PodGroupPreemption()
