"""Evaluating classes: bring a class's columns to the snapshot's generation by asking again only what changed.

In-tree plugins answer at once and see one generation. A remote plugin's answer takes time, during which the snapshot may
go on; its column then has an older generation than the in-tree ones, and the answer as a whole says the oldest. Nobody is
told less than the generation asked for.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trireme.filter import columns
from trireme.framework import status
from trireme.plugins import interfaces
from trireme.snapshot import arrays, classes, snapshot

# Columns kept at most, in bytes; beyond it the classes that were asked about longest ago are forgotten, but for a few.
COLUMN_BYTES = 64 * 1024 * 1024
COLUMN_BYTES_PER_NODE = 300
MIN_CLASSES = 8


class RemoteFilter(Protocol):
    """A filter plugin that is a service of its own."""

    name: str
    depends_on: interfaces.Dependency

    async def pre_filter(
        self, profile: str, pod_class: classes.PodClass, generation: int
    ) -> interfaces.PreFilterResult:
        """As FilterPlugin.pre_filter. A failure is answered as a status, or skips, by the plugin's policy."""
        ...

    async def filter(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: object,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """Verdicts; a status where the plugin failed and the pod with it; None where the failure is ignored."""
        ...


FilterChain = Sequence[interfaces.FilterPlugin | RemoteFilter]


@dataclass(frozen=True, slots=True)
class EvaluatorStatistics:
    """What the evaluator has done."""

    classes: int  # whose columns are kept
    column_bytes: int
    first_evaluations: int  # of a class from nothing
    slots_evaluated: int  # slots that in-tree plugins were asked about


class Evaluator:
    """Evaluates classes on one snapshot. One chain of plugins a profile, in the profile's order."""

    def __init__(self, snap: snapshot.Snapshot, chains: dict[str, FilterChain]) -> None:
        self._snap = snap
        self._chains = chains
        self._kept: OrderedDict[tuple[str, int], columns.ClassColumns] = OrderedDict()
        self._first_evaluations = 0
        self._slots_evaluated = 0

    def statistics(self) -> EvaluatorStatistics:
        """What it has done so far."""
        nbytes = sum(kept.nbytes for kept in self._kept.values())
        return EvaluatorStatistics(len(self._kept), nbytes, self._first_evaluations, self._slots_evaluated)

    def has_profile(self, profile: str) -> bool:
        """Whether the configuration names the profile."""
        return profile in self._chains

    def remotes(self, profile: str) -> list[RemoteFilter]:
        """The remote plugins of a profile, in order."""
        return [plugin for plugin in self._chains[profile] if _is_remote(plugin)]

    async def evaluate(self, profile: str, pod_class: classes.PodClass) -> columns.ClassColumns:
        """The class's columns, no older than the snapshot was when this was called."""
        kept = self._columns_of(profile, pod_class)
        for remote in self.remotes(profile):
            failed = await self._ask(remote, profile, pod_class, kept)
            if failed is not None:
                kept.refusal = failed
                kept.generation = -1
                return kept
        self.evaluate_now(profile, pod_class)
        return kept

    def evaluate_now(self, profile: str, pod_class: classes.PodClass) -> columns.ClassColumns:
        """As evaluate, with remote plugins' columns as they are."""
        kept = self._columns_of(profile, pod_class)
        generation = self._snap.generation
        remotes = [kept.plugins[r.name].generation for r in self.remotes(profile) if r.name in kept.plugins]
        if kept.generation == generation and all(seen <= kept.generation for seen in remotes):
            return kept
        touched = self._pre_filter(profile, pod_class, kept)
        if kept.refusal is not None:
            kept.generation = generation
            return kept
        size = self._snap.nodes.size
        kept.reserve(max(size, self._snap.nodes.capacity))
        live = self._snap.nodes.alive[:size]
        changed = np.zeros(size, dtype=np.bool_)
        for plugin in self._chains[profile]:
            column = kept.plugins[plugin.name]
            if not _is_remote(plugin) and not column.prefilter.skip:
                slots = self._due(plugin, column, live)
                self._run(plugin, pod_class, column, slots, kept)
                changed[slots] = True
        if kept.generation < 0 or touched or remotes:
            changed[:] = True
        else:
            changed[self._snap.nodes.changed_since(kept.generation, pods=False)] = True
        self._combine(kept, np.flatnonzero(changed & live), generation)
        kept.clear(np.flatnonzero(changed & ~live), generation)
        kept.generation = generation
        return kept

    def _columns_of(self, profile: str, pod_class: classes.PodClass) -> columns.ClassColumns:
        key = (profile, pod_class.id)
        kept = self._kept.get(key)
        if kept is None:
            self._forget_oldest()
            kept = self._kept[key] = columns.ClassColumns()
            self._first_evaluations += 1
        self._kept.move_to_end(key)
        return kept

    def _forget_oldest(self) -> None:
        for key in [key for key in self._kept if key[1] not in self._snap.classes]:
            del self._kept[key]
        limit = max(COLUMN_BYTES, COLUMN_BYTES_PER_NODE * self._snap.nodes.capacity)
        total = sum(kept.nbytes for kept in self._kept.values())
        while total > limit and len(self._kept) > MIN_CLASSES:
            total -= self._kept.popitem(last=False)[1].nbytes

    def _pre_filter(self, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns) -> bool:
        """Run PreFilter where its answer may have changed; whether an answer did, so that all slots are combined anew."""
        touched = False
        kept.refusal = None
        narrowed: frozenset[str] | None = None
        narrowing: list[str] = []
        for plugin in self._chains[profile]:
            column = kept.plugins.get(plugin.name)
            if not _is_remote(plugin) and (column is None or self._stale(plugin, column)):
                answer = plugin.pre_filter(pod_class, self._snap, kept.table)
                touched |= column is None or column.prefilter != answer
                column = kept.plugins[plugin.name] = columns.PluginColumn(answer)
            if column is None:
                continue
            answer = column.prefilter
            if answer.status is not None:
                kept.refusal = answer.status
                if answer.status.code != status.Code.UNSCHEDULABLE:
                    return True
            if answer.nodes is not None:
                narrowed = answer.nodes if narrowed is None else narrowed & answer.nodes
                narrowing.append(plugin.name)
                if not narrowed and kept.refusal is None:
                    kept.refusal = _nothing_left(narrowing)
                    return True
        touched |= kept.narrowed != narrowed
        kept.narrowed = narrowed
        if narrowed is not None:
            kept.plugins = {plugin.name: kept.plugins[plugin.name] for plugin in self._chains[profile]}
            kept.table.intern(outside_status(narrowing))
        return touched

    def _stale(self, plugin: interfaces.FilterPlugin, column: columns.PluginColumn) -> bool:
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            return column.generation != self._snap.generation
        return bool(plugin.reads) and self._snap.changed(plugin.reads) > column.generation

    def _due(
        self, plugin: interfaces.FilterPlugin | RemoteFilter, column: columns.PluginColumn, live: arrays.BoolArray
    ) -> arrays.SlotArray:
        if column.generation < 0 or plugin.depends_on == interfaces.Dependency.CLUSTER:
            return np.flatnonzero(live)
        pods = plugin.depends_on == interfaces.Dependency.NODE_PODS
        changed = self._snap.nodes.changed_since(column.generation, pods)
        return changed[live[changed]]

    def _run(
        self,
        plugin: interfaces.FilterPlugin,
        pod_class: classes.PodClass,
        column: columns.PluginColumn,
        slots: arrays.SlotArray,
        kept: columns.ClassColumns,
    ) -> None:
        if slots.size:
            verdicts = plugin.filter(pod_class, self._snap, column.prefilter.state, slots, kept.table)
            column.write(slots, verdicts, self._snap.nodes.capacity)
            self._slots_evaluated += slots.size
        elif column.index.shape[0] < self._snap.nodes.capacity:
            column.index = arrays.grow_last_axis(column.index, self._snap.nodes.capacity)
        column.generation = self._snap.generation

    def _combine(self, kept: columns.ClassColumns, slots: arrays.SlotArray, generation: int) -> None:
        allowed: arrays.BoolArray | None = None
        outside = interfaces.PASSES
        if kept.narrowed is not None:
            named = [self._snap.nodes.slots[name] for name in kept.narrowed if name in self._snap.nodes.slots]
            allowed = np.isin(slots, named)
            narrowing = [name for name, column in kept.plugins.items() if column.prefilter.nodes is not None]
            outside = kept.table.intern(outside_status(narrowing))
        kept.combine(slots, outside, allowed, generation)

    async def _ask(
        self, remote: RemoteFilter, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns
    ) -> status.Status | None:
        """Bring a remote plugin's column up to date; a status where it failed and the pod with it."""
        generation = self._snap.generation
        column = kept.plugins.get(remote.name)
        if column is None or remote.depends_on == interfaces.Dependency.CLUSTER:
            answer = await remote.pre_filter(profile, pod_class, generation)
            column = columns.PluginColumn(answer)
            if answer.status is not None and answer.status.code == status.Code.ERROR:
                return answer.status
            kept.plugins[remote.name] = column
        if column.prefilter.skip or column.prefilter.status is not None:
            return None
        generation = self._snap.generation
        slots = self._due(remote, column, self._snap.nodes.alive[: self._snap.nodes.size])
        if slots.size:
            verdicts = await remote.filter(profile, pod_class, self._snap, column.prefilter.state, slots, kept.table)
            if isinstance(verdicts, status.Status):
                return verdicts
            if verdicts is None:
                # The failure is ignored for now and asked again next time: the column learns nothing.
                passes = interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
                column.write(slots, passes, self._snap.nodes.capacity)
                return None
            column.write(slots, verdicts, self._snap.nodes.capacity)
        column.generation = generation
        return None


def outside_status(narrowing: Sequence[str]) -> status.Status:
    """The status of nodes that PreFilter left out. Source: pkg/scheduler/framework (FitError)."""
    names = " ".join(sorted(narrowing))
    return status.unresolvable("", f"node(s) didn't satisfy plugin(s) [{names}]")


def _nothing_left(narrowing: Sequence[str]) -> status.Status:
    if len(narrowing) == 1:
        return status.unresolvable("", f"node(s) didn't satisfy plugin {narrowing[0]}")
    names = " ".join(narrowing)
    return status.unresolvable("", f"node(s) didn't satisfy plugin(s) [{names}] simultaneously")


def _is_remote(plugin: interfaces.FilterPlugin | RemoteFilter) -> bool:
    return not hasattr(plugin, "reads")
