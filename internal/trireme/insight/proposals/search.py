"""The search for proposals: candidates of each kind are simulated one by one, and those that work are ordered.

Simulations take time, so their number is bounded: by kind, and by the time after which no further one begins. What was
not tried is reported. Between two of them other calls are answered.

Also change: console/src/views/proposals.tsx, internal/trireme/cli/proposals_display.py,
tests/helpers/proposed_changes.py (kinds of changes and their words).
Also change: protos/trireme/v1/insight.proto (the messages).

Tests: tests/unit/insight/test_proposals.py, tests/unit/insight/test_proposals_work.py,
tests/unit/insight/test_label_proposals.py.
"""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import engine
from trireme.evaluation.filtering import filter_chain
from trireme.insight.proposals import (
    bound_volumes,
    node_labels,
    node_shapes,
    pod_changes,
    request_changes,
    simulated_cluster,
    victims,
)
from trireme.plugin_api import interfaces
from trireme.simulation import node_copies
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2

#: Implementers: trireme.insight.simulations.group_proposals.GroupCheck.
Works = Callable[[snapshot.Snapshot, insight_pb2.Proposal, core_pb2.Pod | None], Awaitable[bool]]
"""Whether filter accepts a proposal on this cluster.

With the changed pod, None where the cluster is changed. For pods of groups
`insight.simulations.group_proposals.GroupCheck` answers, which makes the changes of the cluster itself.
"""

# After so long no further simulation begins; one with remote plugins may end later.
SECONDS = 2.0

# How many candidates of a kind are simulated.
MAX_CANDIDATES = 16

# For how many shapes of nodes it is proposed to add one, and how many amounts are tried for a request.
_SHAPES = 3
_AMOUNTS = 4
_DELETIONS = 3

# Fields of `Proposal.change`, for which `cli/proposals_display.py` and console/src/views/proposals.tsx have the words.
# Changes of the pod come before changes of the cluster, and these before deletions of other pods.
_KINDS_IN_ORDER = (
    ("lower_request", "tolerate_taints", "drop_constraint"),
    ("label_node",),
    ("add_node",),
    ("delete_pods",),
)


@dataclass(slots=True)
class SearchResult:
    """The proposals, the least change first, and the kinds whose candidates were not all tried."""

    proposals: list[insight_pb2.Proposal] = field(default_factory=list)
    limits: list[insight_pb2.ProposalSearchLimit] = field(default_factory=list)


class ProposalSearch:
    """Searches for changes that let a pod be scheduled; callers take turns, for each search forks the cluster."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = SECONDS,
        max_candidates: int = MAX_CANDIDATES,
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._max_candidates = max_candidates

    async def search(
        self, evaluating: engine.Engine, cycle: cycle_pb2.Cycle, works: Works | None = None
    ) -> SearchResult:
        """Search on the snapshot as it is now; nothing is found where the pod is feasible somewhere already.

        `works` has the last word on a proposal: for a member of a group it is not enough that nodes take the member.
        Then nothing is found where a proposal without a change works.

        Raises: as FilterEngine.filter, and as `works`.
        """
        deadline = self._clock() + self._seconds
        cluster = simulated_cluster.SimulatedCluster(evaluating.snap, evaluating.filter.profiles, cycle)
        if (await cluster.feasible_slots(cycle.pod_class)).size and (
            works is None or await works(cluster.snap, insight_pb2.Proposal(), None)
        ):
            return SearchResult()
        refused = await cluster.slots_refused_by_plugin()
        return await _SearchOfPod(cluster, refused, works, self._max_candidates, deadline, self._clock).run()


class _SearchOfPod:
    """One search. `cluster` stays as it is: whatever is simulated is simulated on forks of it."""

    def __init__(
        self,
        cluster: simulated_cluster.SimulatedCluster,
        refused: Mapping[str, arrays.BoolArray],
        works: Works | None,
        max_candidates: int,
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        """`refused` has the refused slots by plugin, as far as plugins were called. Shapes: (slot,)."""
        self._cluster = cluster
        self._refused = refused
        self._works = works
        self._max_candidates = max_candidates
        self._deadline = deadline
        self._clock = clock
        self._pod = cluster.snap.classes[cluster.cycle.pod_class].pod
        self._found = SearchResult()

    async def run(self) -> SearchResult:
        """Search by all kinds of changes."""
        await self._change_pod()
        await self._lower_requests()
        await self._label_node()
        await self._add_node()
        await self._delete_pods()
        self._found.proposals = _ordered(_without_needless_tolerations(self._found.proposals))
        return self._found

    @property
    def _chain(self) -> filter_chain.FilterChain:
        """The filter plugins of the pod's profile."""
        return self._cluster.engine.profiles.chains[self._cluster.cycle.profile]

    @property
    def _time_is_up(self) -> bool:
        return self._clock() >= self._deadline

    def _note_untried(self, kind: str, tried: int, candidates: int) -> None:
        """Note that candidates of the kind were not tried, if it is so."""
        if tried < candidates:
            self._found.limits.append(insight_pb2.ProposalSearchLimit(kind=kind, tried=tried, candidates=candidates))

    async def _change_pod(self) -> None:
        """Add tolerations, and drop constraints."""
        by_kind: Mapping[str, Sequence[pod_changes.PodChange]] = {
            "tolerate_taints": pod_changes.tolerations_to_add(
                self._pod, self._cluster.snap, list(self._refused.values())
            ),
            "drop_constraint": [
                *pod_changes.constraints_to_drop(self._pod),
                *bound_volumes.volumes_to_drop(self._pod, self._cluster.snap),
            ],
        }
        tried = {kind: changes[: self._max_candidates] for kind, changes in by_kind.items()}
        cluster = self._cluster.fork()
        pods = {kind: [change.changed_pod() for change in changes] for kind, changes in tried.items()}
        numbers = iter(cluster.add_classes([pod for changed in pods.values() for pod in changed]))
        for kind, changes in tried.items():
            count = 0
            for change, pod, number in zip(changes, pods[kind], numbers, strict=False):
                if self._time_is_up:
                    break
                count += 1
                await self._add(change.proposal, await cluster.feasible_slots(number), cluster, pod)
            self._note_untried(kind, count, len(by_kind[kind]))

    async def _lower_requests(self) -> None:
        """Lower one request, of each resource the largest one whose absence lets some node take the pod."""
        requests = request_changes.requests_of(self._pod)
        cluster = self._cluster.fork()
        numbers = cluster.add_classes([each.lowered(self._pod, 0) for each in requests[: self._max_candidates]])
        count, possible = 0, dict[str, tuple[request_changes.Request, arrays.SlotArray]]()
        for request, number in zip(requests, numbers, strict=False):
            if self._time_is_up:
                break
            count += 1
            if request.resource not in possible:
                slots = await cluster.feasible_slots(number)
                if slots.size:
                    possible[request.resource] = request, slots
        amounts = {
            resource: request_changes.lowered_requests(self._pod, request, self._cluster.snap, slots)
            for resource, (request, slots) in possible.items()
        }
        for _ in range(_AMOUNTS):
            next_amounts = {resource: next(changes, None) for resource, changes in amounts.items()}
            open_changes = {resource: change for resource, change in next_amounts.items() if change is not None}
            works = await self._try_in_new_fork(open_changes.values())
            amounts = {
                resource: amounts[resource]
                for resource, success in zip(open_changes, works, strict=True)
                if not success
            }
            if not amounts or self._time_is_up:
                break
        self._note_untried("lower_request", max(count - len(amounts), 0), len(requests))

    async def _try_in_new_fork(self, changes: Iterable[pod_changes.PodChange]) -> list[bool]:
        """Simulate changes of the pod; return which of them work."""
        tried = list(changes)
        if not tried:
            return []
        cluster = self._cluster.fork()
        pods = [change.changed_pod() for change in tried]
        numbers = cluster.add_classes(pods)
        return [
            await self._add(change.proposal, await cluster.feasible_slots(number), cluster, pod)
            for change, pod, number in zip(tried, pods, numbers, strict=True)
        ]

    async def _label_node(self) -> None:
        """Label one node; not with remote plugins, which know nodes as they are."""
        refused = list(self._refused.values())
        candidates = await node_labels.missing_labels(self._pod, self._cluster.snap, refused, lambda: self._time_is_up)
        every = len(candidates.found) + candidates.others
        if self._chain.asynchronous:
            self._note_untried("label_node", 0, every)
            return
        cluster, count, working = self._cluster.fork(), 0, list[Set[str]]()
        for candidate in candidates.found[: self._max_candidates]:
            # More labels than do are no advice.
            needless = any(keys < candidate.labels.keys() for keys in working)
            works = False if needless else await self._try_labels(candidate, cluster)
            if works is None:
                break
            count += 1
            if works:
                working.append(candidate.labels.keys())
        self._note_untried("label_node", count, every)

    async def _try_labels(
        self, candidate: node_labels.MissingLabels, cluster: simulated_cluster.SimulatedCluster
    ) -> bool | None:
        """Whether the labels work on one of the candidate's nodes; None: the time was up before all were tried."""
        snap = self._cluster.snap
        for slot in candidate.slots:
            if self._time_is_up:
                return None
            cluster.set_node(slot, node_copies.node_with_labels(snap, slot, candidate.labels))
            slots = await cluster.feasible_slots(cluster.cycle.pod_class)
            label = insight_pb2.LabelNode(node_name=snap.nodes.names[slot], labels=candidate.labels)
            works = slot in slots and await self._add(insight_pb2.Proposal(label_node=label), slots, cluster)
            cluster.set_node(slot, node_copies.node_at(snap, slot))
            if works:
                return True
        return False

    async def _add_node(self) -> None:
        """Add one node of the shape of another one; not with remote plugins, which know no node that is not there."""
        chain = self._chain
        of_nodes = {plugin.name for plugin in chain.plugins if plugin.depends_on == interfaces.Dependency.NODE}
        refused = [slots for name, slots in self._refused.items() if name in of_nodes]
        shapes = node_shapes.node_shapes(self._cluster.snap, refused)
        if chain.asynchronous:
            self._note_untried("add_node", 0, len(shapes))
            return
        cluster, count, works = self._cluster.fork(), 0, 0
        slot = cluster.snap.nodes.size
        for shape in shapes[: self._max_candidates]:
            if self._time_is_up or works == _SHAPES:
                break
            count += 1
            cluster.set_node(slot, node_shapes.node_of_shape(self._cluster.snap, shape.slot))
            slots = await cluster.feasible_slots(cluster.cycle.pod_class)
            node = insight_pb2.AddNode(like_node=self._cluster.snap.nodes.names[shape.slot])
            works += await self._add(insight_pb2.Proposal(add_node=node), slots, cluster)
        self._note_untried("add_node", count, len(shapes))

    async def _delete_pods(self) -> None:
        """Delete pods of lower priority on the node where the fewest are in the way."""
        if self._time_is_up:
            self._note_untried("delete_pods", 0, self._cluster.snap.nodes.count)
            return
        preempting = self._cluster.fork()
        (number,) = preempting.add_classes([victims.that_preempts(self._pod)])
        for candidate in (await victims.find_preemption_candidates(preempting, number))[:_DELETIONS]:
            rows = np.array(candidate.rows, dtype=np.intp)
            cluster = self._cluster.fork(rows)
            slots = await cluster.feasible_slots(cluster.cycle.pod_class)
            if await self._add(victims.deletion(self._cluster.snap, candidate), slots, cluster):
                return

    async def _add(
        self,
        proposal: insight_pb2.Proposal,
        slots: arrays.SlotArray,
        cluster: simulated_cluster.SimulatedCluster,
        changed: core_pb2.Pod | None = None,
    ) -> bool:
        """Add the proposal if there are feasible slots in the changed cluster, and it works; return whether.

        `changed` is the changed pod, if the pod is changed. Shape: slots (n,).
        """
        if not slots.size:
            return False
        # On the cluster that the search began with, whatever has become of it since.
        if self._works is not None and not await self._works(self._cluster.snap, proposal, changed):
            return False
        self._found.proposals.append(cluster.with_nodes(proposal, slots))
        return True


def _ordered(proposals: Iterable[insight_pb2.Proposal]) -> list[insight_pb2.Proposal]:
    """The proposals, the least change first; of equal ones that with the most nodes."""
    return sorted(proposals, key=lambda proposal: (_size_of_change(proposal), -proposal.feasible_count))


def _size_of_change(proposal: insight_pb2.Proposal) -> tuple[int, float]:
    """How much a proposal changes: the group of its kind, and a size by which those of one group are compared.

    Half a request counts as much as one toleration or one constraint. A volume, which may have data, is the last of the
    pod's changes; deletions that violate a budget are the last of all.
    """
    kind = proposal.WhichOneof("change")
    group = next(number for number, kinds in enumerate(_KINDS_IN_ORDER) if kind in kinds)
    if kind == "lower_request":
        return group, 2 * request_changes.lowered_share(proposal.lower_request)
    if kind == "tolerate_taints":
        return group, len(proposal.tolerate_taints.taints)
    if kind == "label_node":
        return group, len(proposal.label_node.labels)
    if kind == "drop_constraint" and proposal.drop_constraint.HasField("bound_volume"):
        return group, math.inf
    if kind == "delete_pods":
        return group + bool(proposal.delete_pods.budget_violations), len(proposal.delete_pods.pods)
    return group, 1


def _without_needless_tolerations(proposals: Sequence[insight_pb2.Proposal]) -> list[insight_pb2.Proposal]:
    """The proposals without those to tolerate more taints than another one, and these among them."""
    sets = [
        {taint.SerializeToString(deterministic=True) for taint in proposal.tolerate_taints.taints}
        for proposal in proposals
    ]
    return [
        proposal
        for proposal, taints in zip(proposals, sets, strict=True)
        if not any(other and other < taints for other in sets)
    ]
