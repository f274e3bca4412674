"""Evaluates classes: brings the cached columns of a class to the snapshot's generation.

First what takes time is prepared (`preparing`), while the snapshot may go on; then all plugins answer at once, about
one generation (`class_filter`). Nodes that changed under the preparation and have no answer are not feasible.

Also change: internal/trireme/evaluation/scoring/score_evaluator.py (caching of answers is alike).

Tests: tests/unit/evaluation/test_filtering.py, tests/unit/evaluation/test_preparing.py,
tests/unit/insight/history/test_decision_explanations.py.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from trireme.evaluation import column_cache, plugin_timer
from trireme.evaluation.filtering import class_filter, class_verdicts, filter_chain, nominated_filter, preparing
from trireme.framework import domain_rules, status
from trireme.plugin_api import interfaces
from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2

# A table of statuses that classes of a family share has so many at most: with more of them, reasons would be left out.
_SHARED_STATUSES = interfaces.DETAILED_STATUSES // 2

# So many kinds of pods that name their nodes, such as DaemonSets, are remembered.
_MAX_NAMING_NODES = 1024

# How often plugins are prepared for one evaluation while no node passes and some changed under each call.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class FilterEvaluatorStatistics:
    """Counters of the evaluator."""

    classes: int = field(metadata={"help": "Pod classes whose answers are cached."})
    column_bytes: int = field(metadata={"help": "Memory of the cached answers, in bytes."})
    first_evaluations: int = field(metadata={"help": "Evaluations of a class without cached answers.", "total": True})
    slots_evaluated: int = field(
        metadata={"help": "Nodes that in-tree plugins filtered, once for each evaluation.", "total": True}
    )


class _ProfileEvaluation:
    """The steps that evaluate classes under one profile: prepare, filter, and filter with nominated pods."""

    def __init__(self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain) -> None:
        self.chain = chain
        self.preparation = preparing.Preparation(snap, chain)
        self.nominated = nominated_filter.NominatedPodFilter(snap, chain)
        self.filter = class_filter.ClassFilter(snap, chain, self.nominated)


class FilterEvaluator:
    """Evaluates classes on one snapshot, under the plugins of each profile."""

    def __init__(self, snap: snapshot.Snapshot, chains: Mapping[str, filter_chain.FilterChain]) -> None:
        self._snap = snap
        self._profiles = {profile: _ProfileEvaluation(snap, chain) for profile, chain in chains.items()}
        self._cache = column_cache.ColumnCache(snap, class_verdicts.ClassVerdicts)
        # The class that named its nodes last, by profile and what it states beside them.
        self._naming_nodes: dict[tuple[str, bytes], int] = {}

    def statistics(self) -> FilterEvaluatorStatistics:
        """Counters of evaluations and cached columns so far."""
        slots_evaluated = sum(profile.filter.slots_evaluated for profile in self._profiles.values())
        return FilterEvaluatorStatistics(len(self._cache), self._cache.nbytes, self._cache.made, slots_evaluated)

    @property
    def cached_classes(self) -> Container[tuple[str, int]]:
        """The classes (profile, number) that were evaluated lately."""
        return self._cache

    def columns_of(self, profile: str, pod_class: classes.PodClass) -> class_verdicts.ClassVerdicts:
        """The class's cached columns, as of its last evaluation; at first they are what its family knows."""
        columns = self._cache.columns_of(profile, pod_class)
        shared = self._profiles[profile].chain.ignoring_requests
        if not columns.plugins and shared:
            sibling = self._cache.sibling_of(profile, pod_class)
            if sibling is not None and len(sibling[1].table.statuses) <= _SHARED_STATUSES:
                columns.begin_with(sibling[1], shared)
            self._cache.join_family(profile, pod_class)
        return columns

    def skipping_plugins(self, profile: str, class_id: int) -> Sequence[str]:
        """The asynchronous plugins that skip the class, as far as it was evaluated."""
        columns = self.columns_of(profile, self._snap.classes[class_id]).plugins
        names = [plugin.name for plugin in self._profiles[profile].chain.asynchronous]
        return [name for name in names if name in columns and columns[name].prefilter.skip]

    def drop(self, profile: str, class_id: int) -> None:
        """Drop a class's cached columns: its plugins changed for a reason that the snapshot does not show."""
        self._cache.drop(profile, class_id)

    def drop_all(self) -> None:
        """Drop the cached columns of all classes."""
        self._cache.clear()

    async def evaluate(
        self, profile: str, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer | None = None
    ) -> class_verdicts.ClassVerdicts:
        """Return the class's columns, no older than the snapshot was when called. `timer` gets the durations.

        If a remote plugin fails, the columns refuse everywhere by error; so they do if no node passes and nodes change
        faster than the plugin can be called about them. A node that changed while the plugin was called is refused
        without error where another one passes. Raises: OutOfStepError where the snapshot was replaced while plugins
        prepared their answers.
        """
        cached = self.columns_of(profile, pod_class)
        timer = timer or plugin_timer.NO_TIMER
        of_profile = self._profiles[profile]
        plugins = of_profile.chain.asynchronous
        if not plugins:
            await of_profile.preparation.prepare_in_tree(pod_class, cached)
            of_profile.filter.refresh(pod_class, cached, timer)
            return cached
        for attempt in range(ATTEMPTS):
            failed = await of_profile.preparation.prepare_asynchronous(
                pod_class, cached, timer, only_changed=attempt > 0
            )
            if failed is not None:
                return _refuse_class_everywhere(cached, failed)
            await of_profile.preparation.prepare_in_tree(pod_class, cached)
            of_profile.filter.refresh(pod_class, cached, timer)
            if cached.refusal is not None or not cached.only_unanswered_may_pass:
                return cached
        text = f"nodes change faster than {_joined_plugin_names(plugins)} can be called about them"
        reason = status.Reason.of("nodesChange", {"plugins": ",".join(each.name for each in plugins)})
        return _refuse_class_everywhere(cached, status.error("", text, reasons=(reason,)))

    async def evaluate_new(
        self, profile: str, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> class_filter.NewClass | None:
        """Where a class fits that is new, and may never come again: nothing is cached.

        None: it is not new, neither its family nor the nodes that it names tell, or no node takes it. It is to be
        evaluated then.

        Raises: as evaluate.
        """
        if (profile, pod_class.id) in self._cache:
            return None
        # From now on the cache has columns of the class: it is not new the next time.
        self._cache.columns_of(profile, pod_class)
        found = await self._evaluate_on_other_nodes(profile, pod_class, timer) if pod_class.names_nodes else None
        found = found or await self._evaluate_new_alone(profile, pod_class, timer)
        return found if found is not None and found.passing.any() else None

    async def _evaluate_new_alone(
        self, profile: str, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> class_filter.NewClass | None:
        """As `evaluate_new`, by its family, or on the nodes that it names."""
        sibling = self._cache.sibling_of(profile, pod_class)
        of_profile = self._profiles[profile]
        if sibling is not None and sibling[1].narrowed is None:
            return await self._evaluate_beside(profile, pod_class, sibling[0], timer)
        columns = self.columns_of(profile, pod_class)
        await of_profile.preparation.prepare_in_tree(pod_class, columns)
        found = of_profile.filter.new_class_on_named_nodes(pod_class, columns, timer)
        if found is not None:
            if len(self._naming_nodes) >= _MAX_NAMING_NODES:
                self._naming_nodes.clear()
            self._naming_nodes[profile, pod_class.beside_node_affinity] = pod_class.id
        return found

    async def _evaluate_beside(
        self, profile: str, pod_class: classes.PodClass, sibling: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> class_filter.NewClass | None:
        """As `evaluate_new`, by another class of its family."""
        of_profile, known = self._profiles[profile], self.columns_of(profile, sibling)
        if self._snap.nominations:
            known = await self.evaluate(profile, sibling)
        elif not of_profile.filter.knows_family_of(known):
            await of_profile.preparation.prepare_in_tree(sibling, known)
            of_profile.filter.refresh_beside_demand(sibling, known)
        return of_profile.filter.new_class_beside(pod_class, known, timer)

    async def _evaluate_on_other_nodes(
        self, profile: str, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> class_filter.NewClass | None:
        """As `evaluate_new`, by a class that names other nodes and is equal else, as pods of a DaemonSet are."""
        stated = pod_class.beside_node_affinity
        known = self._snap.classes.get(self._naming_nodes.get((profile, stated), -1))
        if known is None or known.beside_node_affinity != stated:
            return None
        of_profile, columns = self._profiles[profile], self.columns_of(profile, known)
        if not of_profile.filter.knows_nodes_beside(columns):
            columns = await self.evaluate(profile, known)
        return of_profile.filter.new_class_on_other_nodes(pod_class, columns, timer)

    async def admit_nominated(
        self, cycle: cycle_pb2.Cycle, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> tuple[class_verdicts.ClassVerdicts, int] | None:
        """The class's columns, and the slot that the cycle's pod is nominated to, if it may run there.

        No other slot is looked at: of the columns only PreFilter's part is up to date. None: look at all nodes.

        Source: pkg/scheduler/schedule_one.go (evaluateNominatedNode).
        Raises: as evaluate.
        """
        of_profile, generation = self._profiles[cycle.profile], self._snap.generation
        own = self._snap.nominations.get(cycle.pod.metadata.uid)
        if own is None or of_profile.chain.asynchronous:
            return None
        cached = self._cache.columns_of(cycle.profile, pod_class)
        if cached.generation != generation:
            await of_profile.preparation.prepare_slot(pod_class, cached, own.slot)
            of_profile.filter.refresh_pre_filter(pod_class, cached, timer)
        started = timer.now()
        verdict = of_profile.nominated.own_nomination_verdict(cycle, cached)
        if verdict is None or not verdict.passes:
            return None
        timer.record_point("Filter", started)
        return cached, verdict.slot

    def slots_of_next_nominees_that_fit(
        self, cycle: cycle_pb2.Cycle, cached: class_verdicts.ClassVerdicts, pods: Sequence[cycle_pb2.PodIdentity]
    ) -> list[int]:
        """Return the nominated slots of the longest prefix of `pods` that may all go there beside the cycle's pod.

        Each of `pods` is nominated to a node of its own; `cached` are the columns that admit_nominated returned.
        """
        return self._profiles[cycle.profile].nominated.slots_of_next_nominees_that_fit(cycle, cached, pods)

    def own_nomination_verdict(
        self, cycle: cycle_pb2.Cycle, cached: class_verdicts.ClassVerdicts
    ) -> nominated_filter.SlotVerdict | None:
        """The verdict on the slot that the cycle's pod is nominated to itself: there it does not count for itself.

        None where it is nominated nowhere, its node is gone or left out by PreFilter, or PreFilter refused the class.
        """
        return self._profiles[cycle.profile].nominated.own_nomination_verdict(cycle, cached)

    def constraints(
        self, profile: str, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> Sequence[domain_rules.DomainConstraint]:
        """How placements of the class change other nodes."""
        return tuple(self._profiles[profile].filter.constraints(pod_class, cached))


def _refuse_class_everywhere(
    cached: class_verdicts.ClassVerdicts, refusal: status.Status
) -> class_verdicts.ClassVerdicts:
    """The columns where a failure refuses the class on all nodes, until it is evaluated again."""
    cached.refusal = refusal
    cached.generation = -1
    return cached


def _joined_plugin_names(plugins: Sequence[interfaces.AsyncFilter]) -> str:
    return "plugin " + " and ".join(plugin.name for plugin in plugins)
