"""Topology-aware placement of groups (gate TopologyAwareWorkloadScheduling): all members in one domain, the best one.

Each value of the node label that the PodGroup names is a placement: the group is tried on its nodes alone, as if there
were no others. Of several that it fits in, the plugins at PlacementScore choose; a group without a constraint has one
placement, all nodes. Where members have a node already, only their domain comes in question.

Source: pkg/scheduler/schedule_one_podgroup.go podGroupSchedulingPlacementAlgorithm, …/plugins/topologyaware.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from trireme.config import model
from trireme.framework import status
from trireme.frontend.cluster import cluster_cache
from trireme.frontend.groups import pod_groups
from trireme.frontend.groups.pod_group_trial import (
    UNSCHEDULABLE,
    GroupStatus,
    Placement,
    PodGroupTrials,
    Trial,
    Verdict,
)
from trireme.frontend.queueing import queue_pod
from trireme.frontend.replicas import phases, replicas
from trireme.frontend.serving import metrics_observed
from trireme.v1 import score_pb2
from trireme.wire import status as wire_status

TOPOLOGY = "TopologyPlacementGenerator"


class _NoDomain(Exception):
    """Members that have a node already are in no domain, or in several."""


class PodGroupPlacements:
    """Tries groups, one placement after the other."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        calls: phases.Phases,
        trials: PodGroupTrials,
        publish: Callable[[], int],
        generators: Mapping[str, Sequence[str]],
        scorers: Mapping[str, Sequence[model.Plugin]],
        observed: metrics_observed.Observations,
        random: Callable[[], float],
    ) -> None:
        """`generators` and `scorers` are the plugins at PlacementGenerate and PlacementScore of each profile; `random`
        decides between placements that are equally good.
        """
        self._cache = cache
        self._calls = calls
        self._trials = trials
        self._publish = publish
        self._generators = generators
        self._scorers = scorers
        self._observed = observed
        self._random = random
        observed.make_placement_instruments()

    async def run(
        self,
        group: pod_groups.GroupState,
        members: Sequence[queue_pod.QueuedPod],
        min_count: int,
        scheduled: int,
    ) -> tuple[GroupStatus, list[Trial]]:
        """As a trial on all nodes; on success the members are assumed in the best placement."""
        profile = members[0].record.profile
        placements: Sequence[Placement | None] = (None,)
        key = constraint(group)
        if key and self._generators.get(profile, ())[:1] == (TOPOLOGY,):
            try:
                placements = self._generate(group, key)
            except _NoDomain as error:
                text = f"cannot determine domain for already scheduled pods: {error}"
                return GroupStatus(Verdict.ERROR, (text,)), []
        if not placements:
            return GroupStatus(Verdict.UNSCHEDULABLE, ("no feasible placements found",)), []
        self._observed.generated_placements.add((profile,), len(placements))
        found: list[tuple[Placement | None, list[Trial]]] = []
        first: tuple[GroupStatus, list[Trial]] | None = None
        for placement in placements:
            started = self._observed.clock()
            said, trials = await self._trials.run(members, min_count, scheduled, placement)
            if said.verdict is not Verdict.ERROR:
                succeeded = said.verdict is Verdict.SUCCESS
                self._observed.placement_tried(profile, succeeded, self._observed.clock() - started)
            if said.verdict is Verdict.ERROR or (said.verdict is Verdict.SUCCESS and len(placements) == 1):
                return said, trials
            first = first or (said, trials)
            if said.verdict is Verdict.SUCCESS:
                self._trials.undo(trials)
                found.append((placement, trials))
        if not found and first is not None:
            return _nowhere(len(placements), *first)
        best = await self._best(members[0], found, scheduled)
        if isinstance(best, GroupStatus):
            return best, []
        # It is assumed anew: what was tried after it must not be there.
        return await self._trials.run(members, min_count, scheduled, best)

    def _generate(self, group: pod_groups.GroupState, key: str) -> list[Placement]:
        """One placement for each domain that comes in question."""
        domains: dict[str, list[int]] = {}
        for name in self._cache.node_names():
            node = self._cache.node(name)
            if node is not None and key in node.metadata.labels:
                domains.setdefault(node.metadata.labels[key], []).append(self._cache.slot_of(name))
        required = self._domain_of_scheduled(group, key)
        return [
            Placement(domain, tuple(slots))
            for domain, slots in domains.items()
            if required is None or domain == required
        ]

    def _domain_of_scheduled(self, group: pod_groups.GroupState, key: str) -> str | None:
        """The domain of the members that have a node; None: none has. Raises: _NoDomain."""
        found: str | None = None
        for pod in self._scheduled(group):
            node = self._cache.node(pod.node_name)
            if node is None:
                raise _NoDomain(f"getting node for pod {pod.key}: node {pod.node_name} not found")
            domain = node.metadata.labels.get(key)
            if domain is None:
                raise _NoDomain(f"no topology domain found for pod {pod.key}")
            if found is not None and found != domain:
                raise _NoDomain(f"more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found

    def _scheduled(self, group: pod_groups.GroupState) -> Iterator[cluster_cache.PlacedPod]:
        for uid in (*group.placed, *group.members):
            pod = self._cache.pod(uid)
            if pod is not None:
                yield pod

    async def _best(
        self, first: queue_pod.QueuedPod, found: Sequence[tuple[Placement | None, list[Trial]]], scheduled: int
    ) -> Placement | GroupStatus | None:
        """The placement that the plugins prefer, or what failed. Nothing of any of them is assumed."""
        if len(found) == 1:
            return found[0][0]
        record = first.record
        request = score_pb2.ScorePlacementsRequest(
            cycle=self._calls.cycle(record.profile, record.class_id, self._publish()), scheduled=scheduled
        )
        for plugin in self._scorers.get(record.profile, ()):
            request.plugins.add(plugin=plugin.name, weight=plugin.weight)
        for placement, trials in found:
            slots = placement.slots if placement is not None else ()
            classes = [trial.pod.record.class_id for trial in trials if trial.assumed is not None]
            request.placements.add(slots=slots, pod_classes=classes)
        try:
            response = await self._calls.score_placements(request)
        except (phases.PhaseFault, replicas.PhaseUnavailable) as error:
            return GroupStatus(Verdict.ERROR, (str(error),))
        if wire_status.from_message(response.status).code is not status.Code.SUCCESS:
            return GroupStatus(Verdict.ERROR, tuple(response.status.messages))
        rated = [(total, self._random(), number) for number, total in enumerate(response.totals)]
        return found[max(rated)[2]][0]


def constraint(group: pod_groups.GroupState) -> str:
    """The node label that all members have to agree on; empty: none."""
    if group.pod_group is None or not group.pod_group.spec.scheduling_constraints.topology:
        return ""
    return group.pod_group.spec.scheduling_constraints.topology[0].key


def _nowhere(placements: int, said: GroupStatus, trials: list[Trial]) -> tuple[GroupStatus, list[Trial]]:
    """No placement will do; the first one stands for all of them."""
    why = UNSCHEDULABLE if said.summary else said.message
    text = f"0/{placements} placements are available, first placement status: {why}"
    return GroupStatus(Verdict.UNSCHEDULABLE, (UNSCHEDULABLE, text), summary=True), trials
