"""A cluster for the cycles of groups: nodes with room for so many pods, and filter and score that know nothing else.

Filter and score are asked as always, but answer from the cluster cache itself: each node takes `room` pods, of whatever
class, and score fills the nodes in their order. So a test can say exactly who fits.

Also change: internal/trireme/scheduling/attempt_reporter.py (the fakes of a cycle).
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.helpers.pod_group_builders import PROFILE, grouping_queue, parsed
from trireme.cache import class_registry, cluster_cache, placed_pod
from trireme.config import gates, scheduler_configuration
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.plugin_api.placements import PlacementGeneratePlugin
from trireme.plugins.topology_placement_generator import placement_generate
from trireme.queueing.groups.queued_group import PodGroupBatch
from trireme.queueing.nominator import NominatedPod, Nominator
from trireme.queueing.pending_pod import PendingPod
from trireme.queueing.pod_info import make_pod_info
from trireme.scheduling import attempt, batch_limit, in_memory, ports, profile_roles, reserve_calls
from trireme.scheduling.assumed_pod import AssumedPod
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups import pod_group_assembly
from trireme.scheduling.groups.placement_feasibility import RemotePlacementFeasible
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    scheduling_pb2,
    score_phase_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

T0 = 1_000_000.0

FULL = status.unschedulable("Fit", "Insufficient room")


class Cluster:
    """The cluster, the queue, and a cycle that runs on them. It stands for filter, score and binding too."""

    #: Whether the messages of conditions are JSON.
    json_conditions = False
    #: Whether groups may have claims.
    group_claims = True
    #: The plugins at PlacementScore.
    scorers: Sequence[scheduler_configuration.Plugin] = (scheduler_configuration.Plugin("PodGroupPodsCount", 1),)

    def __init__(
        self,
        rooms: Sequence[int],
        post_filters: Sequence[str] = (),
        racks: Sequence[str] = (),
        topology: bool = False,
        composite: bool = False,
        asynchronous: bool = True,
        generators: Mapping[str, PlacementGeneratePlugin] = MappingProxyType({}),
        remote_feasible: Mapping[str, RemotePlacementFeasible] = MappingProxyType({}),
    ) -> None:
        topology = topology or composite
        self.registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.room: dict[str, int] = {}
        for number, room in enumerate(rooms):
            node = core_pb2.Node()
            node.metadata.name = f"n{number}"
            if racks and racks[number]:
                node.metadata.labels["rack"] = racks[number]
                node.metadata.labels["zone"] = racks[number][0]
            self.room[node.metadata.name] = room
            self.cache.set_node(node)
        #: The nodes that others see promised to pods, by UID.
        self.promises_seen: dict[str, str] = {}
        self.queue = grouping_queue(composite=composite, nominator=Nominator(on_change=self._mirror))
        assert self.queue.groups is not None
        self.groups = self.queue.groups
        self.failures: dict[str, Failure] = {}
        self.written: list[bind_pb2.Action] = []
        self.started: list[list[str]] = []
        #: Those that are being bound, and what Reserve made of them.
        self.binding: dict[str, AssumedPod] = {}
        self.binding_cycles: list[cycle_pb2.Cycle] = []
        self.preempting: list[bind_pb2.Action] = []
        #: The nodes that a group preempted for.
        self.room_made_on: frozenset[str] = frozenset()
        #: What becomes of evictions that are waited for.
        self.refusal = ""
        #: (what was asked, class, how many) in order.
        self.asked: list[tuple[str, int, int]] = []
        #: Pods that Reserve refuses, and how.
        self.unreservable: set[str] = set()
        self.reserve_code: status_pb2.Code.ValueType = status_pb2.CODE_UNSCHEDULABLE
        self.unreserved: list[str] = []
        #: Of each call of Reserve its generation, and the pods.
        self.reserved_at: list[tuple[int, list[str]]] = []
        #: What Reserve assumes beside each pod.
        self.assuming: list[snapshot_pb2.ClusterObject] = []
        #: What to do when filter is asked.
        self.meanwhile: Callable[[], None] = lambda: None
        #: Who may go for a group, by name; who of them has to, and which claims it may give up.
        self.victims: Sequence[str] = ()
        self.victim_priorities: Mapping[str, int] = {}
        self.reprieve: Callable[
            [filter_phase_pb2.ReprievePodGroupVictimsRequest], filter_phase_pb2.ReprievePodGroupVictimsResponse
        ]
        self.release: Callable[
            [filter_phase_pb2.ListReleasableClaimsRequest], filter_phase_pb2.ListReleasableClaimsResponse
        ]
        #: What filter was asked about groups, and where pods were then.
        self.group_questions: list[Any] = []
        self.placed_then: list[dict[str, int]] = []
        self.fault: Exception | None = None
        self.reserving = False
        #: A class that nothing takes.
        self.hopeless: set[int] = set()
        #: Score's answers about placements, and its requests.
        self.totals: list[int] = []
        self.score_status = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
        self.scored: list[tuple[list[int], int]] = []
        self.scored_by: list[tuple[str, int]] = []
        enabled = {
            "TopologyAwareWorkloadScheduling": topology,
            "SchedulerAsyncPreemption": asynchronous,
            "DRAWorkloadResourceClaims": self.group_claims,
        }
        self.remote_feasible = remote_feasible
        self._make_cycle(post_filters, gates.FeatureGates(values=enabled), generators)

    def _make_cycle(
        self,
        post_filters: Sequence[str],
        features: gates.FeatureGates,
        generators: Mapping[str, PlacementGeneratePlugin],
    ) -> None:
        evaluators: Any = self  # fakes of what the cycle calls, and of no more
        reporter: Any = _Reporter(self)
        preemptions: Any = _Preempting(self)
        binding: Any = _Binding(self)
        self.metrics = scheduler_metrics.SchedulerMetrics(groups=True, placements=True)
        reserved = reserve_calls.ReserveCalls(self.cache, evaluators, lambda changes: None)
        limit = batch_limit.BatchLimit(100)
        self.attempts = attempt.AttemptRunner(
            cache=self.cache,
            nominations=self.queue.nominator,
            evaluators=evaluators,
            reserved=reserved,
            observer=self.metrics,
            log=in_memory.BindingLog(),
            http_extenders=None,
            limit=limit,
            publish=self.publish,
        )
        roles = dataclasses.replace(
            profile_roles.roles_of((), features),
            placement_feasible={PROFILE: ("GangScheduling", *self.remote_feasible)},
            ranking={PROFILE},
            placement_generators={PROFILE: {"TopologyPlacementGenerator": placement_generate.make(), **generators}},
            placement_scorers={PROFILE: tuple(self.scorers)},
            group_post_filters={PROFILE: tuple(post_filters)},
        )
        groups = pod_group_assembly.PodGroupAssembly(
            features,
            in_memory.Events(),
            lambda action, priority: self.written.append(action),
            lambda uid: False,
            ports.Clocks(lambda: T0, lambda: T0, lambda: T0),
            lambda: 0.5,
            roles=roles,
            json_conditions=self.json_conditions,
        )
        self.run_group = groups.make_cycle(
            cache=self.cache,
            queue=self.queue,
            groups=self.groups,
            evaluators=evaluators,
            attempts=self.attempts,
            reporter=reporter,
            reserved=reserved,
            observer=self.metrics,
            limit=limit,
            publish=self.publish,
            execute=lambda instructions: None,
            preemptions=preemptions,
            binding=binding,
            remote_plugins=lambda profile: self.remote_feasible,
        )

    def _mirror(self, pod: NominatedPod, before: str, after: str) -> None:
        assert self.promises_seen.pop(pod.uid, "") == before
        if after:
            self.promises_seen[pod.uid] = after

    # What a test does

    def group(self, group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup) -> None:
        self.groups.set_group(group, T0)

    def add(self, name: str, group: str, kind: str = "", priority: int = 0, now: float = T0, **spec: Any) -> None:
        """A member; those of one kind are of one class."""
        pod = parsed(name, group, priority=priority, nodeSelector={"kind": kind}, **spec)
        base = self.registry.intern_base(pod.base)
        class_id = self.registry.intern(base, pod.labels)
        pending = PendingPod(pod, base, class_id)
        record = make_pod_info(f"ns/{name}", pod.uid, class_id, PROFILE, priority, pod=pending)
        self.queue.add(record, now)

    def occupy(self, name: str, node: str, group: str = "", priority: int = 0) -> None:
        """A pod that is on a node already."""
        pod = core_pb2.Pod(spec=core_pb2.PodSpec(priority=priority, scheduler_name=PROFILE))
        pod.metadata.namespace = "ns"
        if group:
            pod.spec.scheduling_group.pod_group_name = group
        base = self.registry.intern_base(pod.SerializeToString())
        self.cache.assume(f"ns/{name}", f"uid-{name}", node, base, (), self.registry.intern(base, ()))
        if group:
            self.groups.member_placed(f"ns/{group}", f"uid-{name}", T0)

    async def run(self, now: float = T0) -> None:
        """Pop a batch, which must be a group, and run its cycle."""
        batch = self.queue.pop(now, 100)
        assert isinstance(batch, PodGroupBatch)
        await self.run_group(batch)

    @property
    def nodes(self) -> dict[str, str]:
        """Pod to node, of all that the cache has on one, by name."""
        return {pod.key.removeprefix("ns/"): pod.node_name for pod in self.cache.pods()}

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """What was written on PodGroups: status, reason, message."""
        said = [action.set_group_condition.condition for action in self.written]
        return [(each.status, each.reason, each.message) for each in said]

    def text(self, name: str) -> str:
        """Why the pod failed."""
        return self.failures[name].message

    # Standing for filter, score and bind

    def publish(self) -> int:
        self.cache.take_delta()
        return self.cache.generation

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        return cycle_pb2.Cycle(profile=profile, pod_class=class_id, generation=generation)

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        nominated: int = placed_pod.NO_SLOT,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterAnswer:
        self.asked.append(("filter", class_id, count))
        self.meanwhile()
        if self.fault is not None:
            raise self.fault
        used = Counter(pod.slot for pod in self.cache.pods())
        free = np.array([room - used[self.cache.slot_of(name)] for name, room in self.room.items()], dtype=np.int32)
        free = np.zeros_like(free) if class_id in self.hopeless else free.clip(0)
        columns = node_columns.NodeColumns.complete(
            self.cache.generation, (FULL,), np.where(free > 0, 0, 1).astype(np.int16), free
        )
        return FilterAnswer(columns=columns, needs_reserve=self.reserving, evaluated=("Fit",))

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        self.asked.append(("place", class_id, count))
        capacity = filtered.columns.capacity
        return PlaceAnswer(slots=tuple(np.repeat(np.arange(capacity.shape[0]), capacity)[:count].tolist()))

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        self.scored = [(list(each.slots), len(each.pod_classes)) for each in request.placements]
        self.scored_by = [(each.plugin, each.weight) for each in request.plugins]
        return score_phase_pb2.ScorePodGroupPlacementsResponse(status=self.score_status, totals=self.totals)

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        out = filter_pb2.ReserveResponse()
        self.reserved_at.append((cycle.generation, [placement.pod.name for placement in placements]))
        for placement in placements:
            said = out.reservations.add()
            said.status.code = status_pb2.CODE_SUCCESS
            if placement.pod.name in self.unreservable:
                said.status.code, said.status.plugin = self.reserve_code, "Volumes"
                said.status.messages.append("no volume left")
            else:
                said.assumed.extend(self.assuming)
                said.state = placement.pod.name.encode()
        return out

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        self.unreserved += [placement.pod.name for placement in placements]

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        self._asked_about_group(request)
        out = filter_phase_pb2.ListPodGroupVictimsResponse()
        for name in self.victims:
            identity = cycle_pb2.PodIdentity(namespace="ns", name=name, uid=f"uid-{name}")
            there = self.cache.pod(identity.uid)
            assert there is not None
            pod = filter_phase_pb2.VictimPod(pod=identity, slot=there.slot)
            out.victims.add(pods=[pod], priority=self.victim_priorities.get(name, 0))
        return out

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        self._asked_about_group(request)
        return self.reprieve(request)

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        self._asked_about_group(request)
        return self.release(request)

    def _asked_about_group(self, request: Any) -> None:
        self.group_questions.append(request)
        self.placed_then.append({pod.key.removeprefix("ns/"): pod.slot for pod in self.cache.pods()})


class _Reporter:
    """Records failures and requeues the pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def report_failure(self, pod: Any, failure: Failure) -> None:
        self._cluster.failures[pod.key.removeprefix("ns/")] = failure
        self._cluster.queue.requeue(pod, T0, rejectors=failure.rejectors, nominated_node=failure.nominated_node)

    def report_failures(self, pods: Sequence[Any], failure: Failure) -> None:
        for pod in pods:
            self.report_failure(pod, failure)

    def report_skipped(self, pod: Any) -> None:
        self._cluster.queue.done(pod.uid, T0)


class _Binding:
    """Writes down who is bound."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def start(self, cycle: cycle_pb2.Cycle, assumed: Any) -> None:
        self._cluster.binding_cycles.append(cycle)
        self._cluster.started.append([one.pod.key.removeprefix("ns/") for one in assumed])
        self._cluster.binding.update({one.pod.key.removeprefix("ns/"): one for one in assumed})


class _Preempting:
    """Records the victims."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def evict_in_background(
        self, pod: Any, node_name: str, actions: Sequence[bind_pb2.Action], nodes: Collection[str]
    ) -> None:
        self._cluster.preempting.extend(actions)
        self._cluster.room_made_on = frozenset(nodes)

    async def evict(self, pod: Any, node_name: str, actions: Sequence[bind_pb2.Action], nodes: Collection[str]) -> str:
        self._cluster.preempting.extend(actions)
        return self._cluster.refusal

    async def execute(self, actions: Sequence[bind_pb2.Action]) -> str:
        self._cluster.preempting.extend(actions)
        return ""
