"""Topology-aware placement of groups (gate TopologyAwareWorkloadScheduling): all members in one domain, the best one.

Each value of the node label that the group names is a placement: the group is tried on its nodes alone, as if there
were no others. Where a profile has several plugins at PlacementGenerate, placements are what theirs have in common.
Among several that it fits in, the plugins at PlacementScore choose; a group without a constraint has
one placement, all nodes. Where members have a node already, only their domain comes in question.

Groups of groups nest: in each placement of one its groups are tried, one after the other, and the placements of those
lie within it. So the topology of a group bounds all groups below it.

Source: pkg/scheduler/schedule_one_podgroup.go podGroupSchedulingPlacementAlgorithm,
compositePodGroupSchedulingPlacementAlgorithm, …/plugins/topologyaware.

Tests: tests/unit/scheduling/test_pod_group_placements.py, tests/unit/scheduling/test_pod_group_trees.py.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from trireme.cache import cluster_cache
from trireme.config import scheduler_configuration
from trireme.framework import status
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import placements
from trireme.queueing.groups import queued_group
from trireme.queueing.groups.forest import GroupNode
from trireme.scheduling import ports
from trireme.scheduling.groups import placement_merging
from trireme.scheduling.groups.placement_feasibility import PlacementFeasibility, TrialStep
from trireme.scheduling.groups.pod_group_results import (
    GroupCode,
    GroupStatus,
    MemberAttempt,
    PodGroupRequest,
    PodGroupResult,
    failed_cause,
    refused_cause,
    unschedulable_if_none_placed,
)
from trireme.scheduling.groups.pod_group_trial import PodGroupTrials
from trireme.scheduling.trial_scope import GroupPlacement
from trireme.v1 import score_phase_pb2
from trireme.wire import status as wire_status

_GENERATE, _SCORE = ExtensionPoint.PLACEMENT_GENERATE.label, ExtensionPoint.PLACEMENT_SCORE.label
_CODES = {GroupCode.UNSCHEDULABLE: status.Code.UNSCHEDULABLE, GroupCode.ERROR: status.Code.ERROR}


class PodGroupPlacements:
    """Tries a tree of groups in each placement (topology domain) that may hold it, and takes the best-scored one."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        trials: PodGroupTrials,
        feasibility: PlacementFeasibility,
        generators: Mapping[str, Mapping[str, placements.PlacementGeneratePlugin]],
        scorers: Mapping[str, Sequence[scheduler_configuration.Plugin]],
        random: ports.Random,
    ) -> None:
        """`generators` and `scorers` are each profile's plugins at PlacementGenerate, and at PlacementScore.

        `random` decides between placements that are equally good.
        """
        self._cache = cache
        self._evaluators = evaluators
        self._publish = publish
        self._observer = observer
        self._trials = trials
        self._feasibility = feasibility
        self._generators = generators
        self._scorers = scorers
        self._random = random

    async def run(self, request: PodGroupRequest) -> PodGroupResult:
        """Try the tree; on success all members that fit are assumed, in the best placement."""
        return unschedulable_if_none_placed(await self._try_group(request, request.tree, None))

    async def _try_group(
        self, request: PodGroupRequest, node: GroupNode, around: GroupPlacement | None
    ) -> PodGroupResult:
        """Try a group of the tree in each of its placements, and assume it in the best; each lies within `around`.

        A group that no plugin restricts is tried in `around` itself (None: on all nodes). An error ends it, and so
        does success if there is only one placement, or in the one that members are nominated to, which is tried first.
        On failure nothing is assumed, and the first placement's status is the result's.
        """
        candidates = self._run_generators(request, node, around)
        if isinstance(candidates, GroupStatus):
            return PodGroupResult(node, candidates)
        self._observer.on_placements_generated(request.profile, node.key.kind, len(candidates))
        nominated = None if node.composite or node is not request.tree else self._nominated(request, candidates)
        found: list[tuple[GroupPlacement | None, PodGroupResult]] = []
        first: PodGroupResult | None = None
        for placement in sorted(candidates, key=lambda each: each is not nominated) if nominated else candidates:
            result = await self._try_placement(request, node, placement)
            if result.status.code is GroupCode.ERROR or (result.succeeded and len(candidates) == 1):
                return result
            first = first or result
            if nominated is not None and placement is nominated and result.succeeded:
                if any(result.placed_members()):
                    return result
                why = "nominated placement is feasible but no pending pod was scheduled"
                result.status = GroupStatus(GroupCode.UNSCHEDULABLE, why, (refused_cause(why, "noPodPlaced"),))
            if result.succeeded:
                self._trials.unassume_all(list(result.placed_members()))
                found.append((placement, result))
        if not found:
            assert first is not None  # there is a placement at least
            first.status = _status_without_feasible_placement(len(candidates), first.status)
            return first
        return await self._reassume_best(request, node, found)

    def _nominated(
        self, request: PodGroupRequest, candidates: Sequence[GroupPlacement | None]
    ) -> GroupPlacement | None:
        """The placement with the nodes that members are nominated to; None: there is none, or more than one."""
        slots = {self._cache.slot_of(pod.record.nominated_node) for pod in request.all_pods()}
        found = [each for each in candidates if each is not None and not slots.isdisjoint(each.slots)]
        return found[0] if len(found) == 1 else None

    async def _try_placement(
        self, request: PodGroupRequest, node: GroupNode, placement: GroupPlacement | None
    ) -> PodGroupResult:
        started = self._observer.clock()
        if node.composite:
            result = await self._try_children(request, node, placement)
        else:
            result = await self._trials.try_pod_group(request, node, placement)
        if result.status.code is not GroupCode.ERROR:
            seconds = self._observer.clock() - started
            self._observer.on_placement_evaluated(request.profile, node.key.kind, result.succeeded, seconds)
        return result

    async def _try_children(
        self, request: PodGroupRequest, node: GroupNode, placement: GroupPlacement | None
    ) -> PodGroupResult:
        """Try the groups of a group, one after the other, until enough of them fit or cannot any more.

        Each sees those before it.
        """
        progress = placements.PlacementProgress(len(node.children), 0, 0)
        result = PodGroupResult(node, await self._evaluate_step(request, node, placement, progress, ()))
        if result.status.ends_trial:
            return result
        prospect = result.status
        try:
            for child in node.children:
                tried = await self._try_group(request, child, placement)
                result.children.append(tried)
                if tried.status.code is GroupCode.ERROR:
                    text = f'evaluation failed due to child "{child.name}" error: {tried.status.message}'
                    text = f'composite pod group "{node.name}" {text}'
                    reason = status.Reason.of("childFailed", {"group": child.name})
                    causes = (status.error("", text, reasons=(reason,)), *tried.status.causes)
                    prospect = GroupStatus(GroupCode.ERROR, text, causes)
                    break
                progress = progress.after(tried.succeeded)
                attempts = [member for each in result.children for member in each.placed_members()]
                prospect = await self._evaluate_step(request, node, placement, progress, attempts)
                if prospect.ends_trial:
                    break
        except BaseException:
            self._undo_results(result.children)
            raise
        result.status = prospect.at_end()
        if not result.succeeded:
            self._undo_results(result.children)
        return result

    def _undo_results(self, results: Sequence[PodGroupResult]) -> None:
        self._trials.unassume_all([member for result in results for member in result.placed_members()])

    async def _evaluate_step(
        self,
        request: PodGroupRequest,
        node: GroupNode,
        placement: GroupPlacement | None,
        progress: placements.PlacementProgress,
        attempts: Sequence[MemberAttempt],
    ) -> GroupStatus:
        """The status of a group of groups by the plugins at PlacementFeasible; `attempts` of the pods that fitted."""
        step = TrialStep(progress, len(attempts))
        (prospect,) = await self._feasibility.evaluate(request, node, placement, attempts, [step])
        return prospect

    def _run_generators(
        self, request: PodGroupRequest, node: GroupNode, around: GroupPlacement | None
    ) -> Sequence[GroupPlacement | None] | GroupStatus:
        """The placements by all plugins at PlacementGenerate, or the status of a group that has none."""
        started = self._observer.clock()
        found = self._generate_placements(request, node, around)
        code = _CODES[found.code] if isinstance(found, GroupStatus) else status.Code.SUCCESS
        self._observer.on_extension_point_run(_GENERATE, code, request.profile, self._observer.clock() - started)
        return found

    def _generate_placements(
        self, request: PodGroupRequest, node: GroupNode, around: GroupPlacement | None
    ) -> Sequence[GroupPlacement | None] | GroupStatus:
        """Run the plugins at PlacementGenerate, each on all nodes of `around`, and intersect what they generate."""
        of_each: list[Sequence[placements.NodesOfDomain]] = []
        for name, generator in self._generators.get(request.profile, {}).items():
            found = self._run_generator(name, generator, request, node, around)
            if isinstance(found, GroupStatus):
                return found
            if found is not None:
                of_each.append(found)
        if not of_each:
            return (around,)
        merged = functools.reduce(placement_merging.intersect, of_each)
        if not merged:
            text = "no feasible merged placements found"
            return GroupStatus(GroupCode.UNSCHEDULABLE, text, (refused_cause(text, "noPlacement"),), no_placement=True)
        return [GroupPlacement(domain, slots) for domain, slots in merged]

    def _run_generator(
        self,
        name: str,
        generator: placements.PlacementGeneratePlugin,
        request: PodGroupRequest,
        node: GroupNode,
        around: GroupPlacement | None,
    ) -> Sequence[placements.NodesOfDomain] | GroupStatus | None:
        """The placements of one plugin, or the status of a group without any; None: it does not restrict the group."""
        started, plugins, wrong = self._observer.clock(), frozenset({name}), ""
        found: Sequence[placements.NodesOfDomain] | None = None
        try:
            found = generator.generate(
                node.topology,
                self._slots_and_labels(around),
                self._scheduled_members(request, node),
                self._labels_of_node,
            )
        except placements.NoPlacementError as error:
            wrong = str(error)
        code = status.Code.ERROR if wrong else status.Code.SUCCESS
        self._observer.on_plugin_run(_GENERATE, name, code, self._observer.clock() - started)
        wrong = wrong or placement_merging.find_wrong_name(found or ())
        if wrong:
            cause = status.error(name, wrong, reasons=(status.Reason("placementInvalid"),))
            return GroupStatus(GroupCode.ERROR, wrong, (cause,), plugins)
        if found is not None and not found:
            text = "no feasible placements found"
            cause = refused_cause(text, "noPlacement", name)
            return GroupStatus(GroupCode.UNSCHEDULABLE, text, (cause,), plugins, no_placement=True)
        return found

    def _slots_and_labels(self, around: GroupPlacement | None) -> Iterator[tuple[int, Mapping[str, str]]]:
        """The slots of all nodes within the placement, with the labels of the nodes."""
        inside = None if around is None else frozenset(around.slots)
        for name in self._cache.node_names():
            entry, slot = self._cache.node(name), self._cache.slot_of(name)
            assert entry is not None  # its name is that of a node
            if inside is None or slot in inside:
                yield slot, entry.metadata.labels

    def _labels_of_node(self, name: str) -> Mapping[str, str] | None:
        """The labels of the node of this name; None: it is gone."""
        entry = self._cache.node(name)
        return None if entry is None else entry.metadata.labels

    def _scheduled_members(self, request: PodGroupRequest, node: GroupNode) -> Iterator[placements.PlacedMember]:
        """The members of the group that have a node."""
        group, names = request.group, {leaf.name for leaf in node.leaves()}
        placed = (uid for uid, name in group.placed.items() if name in names)
        members = (uid for uid, pod in group.members.items() if queued_group.pod_group_name(pod) in names)
        for uid in (*placed, *members):
            pod = self._cache.pod(uid)
            if pod is not None:
                yield placements.PlacedMember(pod.key, pod.node_name)

    async def _reassume_best(
        self, request: PodGroupRequest, node: GroupNode, found: Sequence[tuple[GroupPlacement | None, PodGroupResult]]
    ) -> PodGroupResult:
        """The result in the placement that the plugins prefer, assumed again; or what failed."""
        result: PodGroupResult | GroupStatus = (
            found[0][1] if len(found) == 1 else await self._best_scored_result(request, node, found)
        )
        if isinstance(result, GroupStatus):
            return PodGroupResult(node, result)
        failed = await self._trials.reassume(list(result.placed_members()))
        if failed:
            text = f"failed to assume the subtree: {failed}"
            return PodGroupResult(node, GroupStatus(GroupCode.ERROR, text, (failed_cause(text, "assumeFailed"),)))
        return result

    async def _best_scored_result(
        self, request: PodGroupRequest, node: GroupNode, found: Sequence[tuple[GroupPlacement | None, PodGroupResult]]
    ) -> PodGroupResult | GroupStatus:
        """Score the placements that fitted, and return the best; equals are decided at random. Status: score failed.

        Nothing of any of them is assumed, before or after: the caller assumes the best again.
        """
        record = request.all_pods()[0].record
        message = score_phase_pb2.ScorePodGroupPlacementsRequest(
            cycle=self._evaluators.cycle(record.profile, record.class_id, self._publish()),
            scheduled=sum(request.scheduled.get(leaf.name, 0) for leaf in node.leaves()),
        )
        for plugin in self._scorers.get(record.profile, ()):
            message.plugins.add(plugin=plugin.name, weight=plugin.weight)
        for placement, result in found:
            slots = placement.slots if placement is not None else ()
            message.placements.add(
                slots=slots, pod_classes=[member.pod.record.class_id for member in result.placed_members()]
            )
        started, code = self._observer.clock(), status.Code.ERROR
        try:
            response = await self._evaluators.score_pod_group_placements(message)
            code = wire_status.from_message(response.status).code
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            return GroupStatus(GroupCode.ERROR, str(error), (failed_cause(str(error), "phaseFailed"),))
        finally:
            self._observer.on_extension_point_run(_SCORE, code, record.profile, self._observer.clock() - started)
        if code is not status.Code.SUCCESS:
            text = ", ".join(response.status.messages)
            return GroupStatus(GroupCode.ERROR, text, (failed_cause(text, "scoringFailed", response.status.plugin),))
        rated = [(total, self._random(), number) for number, total in enumerate(response.totals)]
        return found[max(rated)[2]][1]


def _status_without_feasible_placement(count: int, first: GroupStatus) -> GroupStatus:
    """The status of a group that fits in none of `count` placements: their number, and the first one's status."""
    text = f"0/{count} placements are available, first placement status: {first.message}"
    reason = status.Reason.of("noPlacementFits", {"placements": count})
    causes = (status.unschedulable("", text, reasons=(reason,)), *first.causes)
    return GroupStatus(GroupCode.UNSCHEDULABLE, text, causes, first.plugins)
