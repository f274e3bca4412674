"""Evaluating classes: bring a class's columns to the snapshot's generation by asking again only what changed.

First what takes time is prepared (`preparing`), while the snapshot may go on; then all plugins answer at once, about
one generation. Nodes that changed under the preparation and have no answer are not feasible.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import column_cache, plugin_timer
from trireme.evaluation.filtering import columns, dry_run_filter, filter_chain, nominated_pods, preparing
from trireme.framework import domain_rules, status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, changes, classes, nominations, overlay, snapshot
from trireme.v1 import cycle_pb2

# How often plugins are prepared for one evaluation while no node passes and some changed under each call.
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class EvaluatorStatistics:
    """What the evaluator has done."""

    classes: int = field(metadata={"help": "Pod classes whose answers are cached."})
    column_bytes: int = field(metadata={"help": "Memory of the cached answers, in bytes."})
    first_evaluations: int = field(metadata={"help": "Evaluations of a class of which nothing was cached."})
    slots_evaluated: int = field(metadata={"help": "Nodes that in-tree plugins filtered, once for each evaluation."})


class FilterEvaluator:
    """Evaluates classes on one snapshot. One chain of plugins a profile, in the profile's order."""

    def __init__(self, snap: snapshot.Snapshot, chains: Mapping[str, filter_chain.FilterChain]) -> None:
        self._snap = snap
        self._chains = chains
        self._preparations = {profile: preparing.Preparation(snap, each) for profile, each in chains.items()}
        self._cache = column_cache.ColumnCache(snap, columns.ClassColumns)
        self._slots_evaluated = 0

    def statistics(self) -> EvaluatorStatistics:
        """What it has done so far."""
        return EvaluatorStatistics(len(self._cache), self._cache.nbytes, self._cache.made, self._slots_evaluated)

    @property
    def cached_classes(self) -> Container[tuple[str, int]]:
        """The classes (profile, number) that were evaluated lately."""
        return self._cache

    async def evaluate(
        self, profile: str, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer | None = None
    ) -> columns.ClassColumns:
        """The class's columns, no older than the snapshot was when this was called. `timer` gets what took how long.

        Raises: OutOfStepError where the snapshot was replaced while plugins prepared their answers.
        """
        cached = self._cache.of(profile, pod_class)
        timer = timer or plugin_timer.PluginTimer()
        preparation, plugins = self._preparations[profile], self._chains[profile].asynchronous
        if not plugins:
            await preparation.prepare_synchronous(pod_class, cached)
            self._refresh(profile, pod_class, cached, timer)
            return cached
        for attempt in range(ATTEMPTS):
            failed = await preparation.prepare_asynchronous(pod_class, cached, timer, only_changed=attempt > 0)
            if failed is not None:
                cached.refusal = failed
                cached.generation = -1
                return cached
            await preparation.prepare_synchronous(pod_class, cached)
            self._refresh(profile, pod_class, cached, timer)
            if cached.refusal is not None or not cached.undecided:
                return cached
        cached.refusal = status.error("", f"nodes change faster than {_list_names(plugins)} can be called about them")
        cached.generation = -1
        return cached

    async def admits_nominated(
        self, cycle: cycle_pb2.Cycle, pod_class: classes.PodClass, timer: plugin_timer.PluginTimer
    ) -> tuple[columns.ClassColumns, int] | None:
        """The slot that the cycle's pod is nominated to, if it may run there; no other one is looked at. Of the columns
        beside it only PreFilter's part is up to date. None: look at all of them.

        Source: pkg/scheduler/schedule_one.go (evaluateNominatedNode).
        Raises: as evaluate.
        """
        profile, generation = cycle.profile, self._snap.generation
        own = self._snap.nominations.get(cycle.pod.metadata.uid)
        if own is None or self._chains[profile].asynchronous:
            return None
        cached = self._cache.of(profile, pod_class)
        if cached.generation != generation:
            await self._preparations[profile].prepare_slot(pod_class, cached, own.slot)
            started = timer.now()
            if self._pre_filter(profile, pod_class, cached, timer) or cached.refusal is not None:
                cached.generation = -1
            timer.point("PreFilter", started)
        started = timer.now()
        said = self.own_verdict(cycle, cached)
        if said is None or said[1] != interfaces.PASSES or said[2] < 1:
            return None
        timer.point("Filter", started)
        return cached, said[0]

    def admits_beside(
        self, cycle: cycle_pb2.Cycle, cached: columns.ClassColumns, pods: Sequence[cycle_pb2.PodIdentity]
    ) -> list[int]:
        """Where the first of these pods may run, each on the slot that it is nominated to, once the cycle's pod runs
        where it is. It ends before who cannot be told apart from others: two are nominated to one slot, or what is so
        on one slot may change the answer about another.
        """
        own = self._nominee(cycle.pod.metadata.uid, cached)
        if own is None or not pods:
            return []
        taken = {own.slot: own.uid}
        for pod in pods:
            nominee = self._nominee(pod.uid, cached)
            if nominee is None or nominee.slot in taken:
                break
            taken[nominee.slot] = nominee.uid
        dry_run = self._without_nominations(cycle, self._snap.classes[cycle.pod_class], cached, *taken.values())
        slots = np.array(list(taken)[1:], dtype=np.intp)
        if not slots.size or not dry_run.by_slot:
            return []
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            said = dry_run.filter(slots, over)
        assert said.capacity is not None
        refused = np.flatnonzero((said.index != interfaces.PASSES) | (said.capacity < 1))
        admitted: list[int] = slots[: int(refused[0]) if refused.size else slots.size].tolist()
        return admitted

    def _refresh(
        self, profile: str, pod_class: classes.PodClass, cached: columns.ClassColumns, timer: plugin_timer.PluginTimer
    ) -> None:
        """Bring the in-tree plugins' columns to the snapshot's generation, and combine what has changed."""
        generation = self._snap.generation
        started = timer.now()
        if cached.generation == generation and not cached.uncombined:
            timer.point("PreFilter", started)
            timer.point("Filter", started)
            return
        touched = self._pre_filter(profile, pod_class, cached, timer)
        if cached.refusal is not None:
            timer.point("PreFilter", started, cached.refusal.code)
            cached.generation = -1
            self._keep_found(profile, pod_class, cached)
            return
        timer.point("PreFilter", started)
        started = timer.now()
        size = self._snap.nodes.size
        cached.reserve(max(size, self._snap.nodes.capacity))
        live = self._snap.nodes.alive[:size]
        parts = cached.uncombined
        cached.uncombined = []
        renewed = touched or cached.generation < 0
        for plugin in self._chains[profile].synchronous:
            column = cached.plugins[plugin.name]
            if not column.prefilter.skip:
                renewed |= column.generation < 0
                slots = column.due(plugin, self._snap, live)
                asked = timer.now()
                parts.append(self._run(plugin, pod_class, column, slots, cached))
                timer.plugin(plugin.name, "Filter", asked)
        for prepared in self._chains[profile].asynchronous:
            column = cached.plugins[prepared.name]
            column.reserve(self._snap.nodes.capacity)
            parts.append(column.changed_since(self._snap.nodes, column.answered_generation))
        if cached.generation < 0 or touched:
            due = np.arange(size)
        else:
            due = changes.union([*parts, self._snap.nodes.changed_since(cached.generation, pods=False)], size)
        due, beside = self._filter_with_nominees(self._chains[profile], pod_class, cached, due, renewed)
        there = live[due]
        # Whoever was answered at this generation before must see what differs now as newer.
        stamp = max(generation, cached.next_stamp)
        self._combine(profile, cached, due[there], beside, stamp)
        cached.clear(due[~there], stamp)
        cached.generation = generation
        cached.next_stamp = generation + 1
        timer.point("Filter", started)

    def _keep_found(self, profile: str, pod_class: classes.PodClass, cached: columns.ClassColumns) -> None:
        """Write down what was prepared, though the pod is refused: preemption may ask about it."""
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        for plugin in self._chains[profile].preparing:
            column = cached.plugins[plugin.name]
            if column.prefilter.state is not None:
                self._run(plugin, pod_class, column, column.due(plugin, self._snap, live), cached)

    def constraints(
        self, profile: str, pod_class: classes.PodClass, cached: columns.ClassColumns
    ) -> Iterator[domain_rules.DomainConstraint]:
        """How placements of the class change other nodes, plugin by plugin."""
        for name, plugin in self._chains[profile].by_domain.items():
            prefilter = cached.plugins[name].prefilter
            if not prefilter.skip:
                yield from plugin.constraints(pod_class, self._snap, prefilter.state)

    def own_verdict(self, cycle: cycle_pb2.Cycle, cached: columns.ClassColumns) -> tuple[int, int, int] | None:
        """Slot, status and capacity where the cycle's pod is nominated to itself: there it does not count for itself.
        None where it is nominated nowhere, or no pod is named.
        """
        own = self._nominee(cycle.pod.metadata.uid, cached)
        pod_class = self._snap.classes.get(cycle.pod_class)
        if own is None or pod_class is None or cached.refusal is not None:
            return None
        dry_run = self._without_nominations(cycle, pod_class, cached, own.uid)
        with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
            said = dry_run.filter(np.array([own.slot]), over)
        assert said.capacity is not None
        return own.slot, int(said.index[0]), int(said.capacity[0])

    def _nominee(self, uid: str, cached: columns.ClassColumns) -> nominations.Nominee | None:
        """The pod's nomination, where its node is there and PreFilter left it."""
        own = self._snap.nominations.get(uid)
        if own is None or not self._snap.nodes.alive[own.slot]:
            return None
        left = cached.narrowed is None or self._snap.nodes.names[own.slot] in cached.narrowed
        return own if left else None

    def _without_nominations(
        self, cycle: cycle_pb2.Cycle, pod_class: classes.PodClass, cached: columns.ClassColumns, *uids: str
    ) -> dry_run_filter.DryRunFilter:
        """Filters for pods of the class on the slots that they are nominated to: these do not count for themselves."""
        nominees = nominated_pods.nominees(self._snap, pod_class.priority, *uids)
        return dry_run_filter.DryRunFilter(self._chains[cycle.profile], cached, pod_class, self._snap, nominees)

    def _filter_with_nominees(
        self,
        plugins: filter_chain.FilterChain,
        pod_class: classes.PodClass,
        cached: columns.ClassColumns,
        due: arrays.SlotArray,
        renewed: bool,
    ) -> tuple[arrays.SlotArray, list[tuple[arrays.SlotArray, interfaces.Verdicts]]]:
        """The slots that are due, and verdicts on those of them that pods are nominated to which count for the class,
        with those pods there.

        Adds to the slots where such pods came, went, or are to be asked about again: all their slots where an answer
        may have changed though nothing did on the slot itself (`renewed`, or a plugin that looks at other nodes).
        """
        size = self._snap.nodes.size
        nominees = nominated_pods.nominees(self._snap, pod_class.priority)
        before = cached.nominated[cached.nominated < size]
        if not nominees.slots.size and not before.size:
            return due, []
        dry_run = dry_run_filter.DryRunFilter(plugins, cached, pod_class, self._snap, nominees)
        nominated = np.zeros(size, dtype=np.bool_)
        nominated[nominees.slots] = True
        again = nominated.copy()
        again[before] = True
        if not renewed and dry_run.by_slot:
            moved = np.zeros(size, dtype=np.bool_)
            moved[self._snap.nodes.changed_since(cached.generation, pods=True)] = True
            again &= moved
        again[due] = True
        cached.nominated = np.flatnonzero(nominated)
        slots = np.flatnonzero(nominated & again)
        return np.flatnonzero(again), list(dry_run.filter_with_nominees(slots)) if slots.size else []

    def _pre_filter(
        self, profile: str, pod_class: classes.PodClass, cached: columns.ClassColumns, timer: plugin_timer.PluginTimer
    ) -> bool:
        """Run PreFilter where its answer may have changed; whether an answer did, so that all slots are combined
        anew.
        """
        touched = False
        cached.refusal = None
        cached.narrowed_by = ()
        narrowed: frozenset[str] | None = None
        narrowing: list[str] = []
        for plugin in self._chains[profile].synchronous:
            column = cached.plugins.get(plugin.name)
            if column is None or column.is_stale(plugin, self._snap):
                asked = timer.now()
                if self._chains[profile].passes_over(plugin.name, pod_class):
                    answer = interfaces.PreFilterResult(skip=True)
                else:
                    answer = plugin.pre_filter(pod_class, self._snap, cached.table)
                timer.plugin(plugin.name, "PreFilter", asked, _code(answer))
                if column is None:
                    column = cached.plugins[plugin.name] = columns.PluginColumn(answer, self._snap.generation)
                    touched = True
                touched |= answer.skip != column.prefilter.skip
                column.renew(answer, self._snap.generation, self._affected(profile, plugin, column, answer))
        for name in self._chains[profile].order:
            answer = cached.plugins[name].prefilter
            if answer.status is not None:
                cached.refusal = answer.status
                if answer.status.code != status.Code.UNSCHEDULABLE:
                    return True
            if answer.nodes is not None:
                narrowed = answer.nodes if narrowed is None else narrowed & answer.nodes
                narrowing.append(name)
                if not narrowed:
                    cached.refusal = _nothing_left(narrowing)
                    cached.narrowed_by = tuple(narrowing)
                    return True
        touched |= cached.narrowed != narrowed
        cached.narrowed, cached.narrowed_by = narrowed, tuple(narrowing)
        return touched

    def _affected(
        self,
        profile: str,
        plugin: interfaces.FilterPlugin,
        column: columns.PluginColumn,
        answer: interfaces.PreFilterResult,
    ) -> arrays.SlotArray | None:
        """The slots that the plugin's new answer to PreFilter affects; None: all, as far as anybody knows."""
        before = column.prefilter.state
        if column.generation < 0 or before is None or answer.state is None:
            return None
        by_domain = self._chains[profile].by_domain.get(plugin.name)
        if by_domain is None:
            return None
        return by_domain.affected(self._snap, before, answer.state, column.generation)

    def _run(
        self,
        plugin: interfaces.FilterPlugin,
        pod_class: classes.PodClass,
        column: columns.PluginColumn,
        slots: arrays.SlotArray,
        cached: columns.ClassColumns,
    ) -> arrays.SlotArray:
        """Ask the plugin about the slots; those of which it says something else than before."""
        if slots.size:
            verdicts = plugin.filter(pod_class, self._snap, column.prefilter.state, slots, cached.table)
            self._slots_evaluated += slots.size
            asked, slots = slots, column.differing(slots, verdicts)
            column.write(asked, verdicts, self._snap.nodes.capacity)
        elif column.index.shape[0] < self._snap.nodes.capacity:
            column.index = arrays.grow_last_axis(column.index, self._snap.nodes.capacity)
        column.generation = self._snap.generation
        if column.affected is not None:
            column.affected = changes.NO_SLOTS
        return slots

    def _combine(
        self,
        profile: str,
        cached: columns.ClassColumns,
        slots: arrays.SlotArray,
        beside: Sequence[tuple[arrays.SlotArray, interfaces.Verdicts]],
        stamp: int,
    ) -> None:
        order = self._chains[profile].order
        allowed: arrays.BoolArray | None = None
        outside = interfaces.PASSES
        if cached.narrowed is not None:
            named = [self._snap.nodes.slots[name] for name in cached.narrowed if name in self._snap.nodes.slots]
            allowed = np.isin(slots, named)
            narrowing = [name for name in order if cached.plugins[name].prefilter.nodes is not None]
            outside = cached.table.intern(outside_status(narrowing))
        cached.combine(slots, order, outside, allowed, beside, stamp, self._snap.nodes)


def _code(answer: interfaces.PreFilterResult) -> status.Code:
    """How a PreFilter ended, as metrics say it."""
    if answer.status is not None:
        return answer.status.code
    return status.Code.SKIP if answer.skip else status.Code.SUCCESS


def outside_status(narrowing: Sequence[str]) -> status.Status:
    """The status of nodes that PreFilter left out. Source: pkg/scheduler/framework (FitError)."""
    names = " ".join(sorted(narrowing))
    return status.unresolvable("", f"node(s) didn't satisfy plugin(s) [{names}]")


def _list_names(plugins: Sequence[interfaces.AsyncFilter]) -> str:
    return "plugin " + " and ".join(plugin.name for plugin in plugins)


def _nothing_left(narrowing: Sequence[str]) -> status.Status:
    if len(narrowing) == 1:
        return status.unresolvable("", f"node(s) didn't satisfy plugin {narrowing[0]}")
    names = " ".join(narrowing)
    return status.unresolvable("", f"node(s) didn't satisfy plugin(s) [{names}] simultaneously")
