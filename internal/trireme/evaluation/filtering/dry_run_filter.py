"""Verdicts about a class on some slots over an overlay: with pods removed or added.

The columns of the class hold the verdicts on the snapshot. What pods cannot change (verdicts that depend on the node
alone, and PreFilter's decisions: which plugins are skipped, which nodes are left) is taken from the columns. Everything
else is evaluated by the plugins over the overlay, with PreFilter again for those that depend on the whole cluster. Such
a plugin would see the changes to all slots at once; where a plugin cannot tell them apart, slots are evaluated one at a
time.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import numpy as np

from trireme.evaluation.filtering import columns, nominated_pods
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, overlay, snapshot


class Chain(Protocol):
    """The filter plugins of a profile: all names in order, and the plugins that run in this process."""

    @property
    def order(self) -> Sequence[str]:
        """The names of all plugins."""
        ...

    @property
    def local(self) -> Sequence[interfaces.FilterPlugin]:
        """The plugins of this process."""
        ...


@functools.cache
def _is_isolated(kind: type) -> bool:
    # An isinstance check against a protocol takes microseconds, for each plugin and preemptor.
    return issubclass(kind, interfaces.IsolatedFilter)


class DryRunFilter:
    """Filters for one class; `cached` are its columns at the snapshot's generation."""

    def __init__(
        self,
        chain: Chain,
        cached: columns.ClassColumns,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        nominees: nominated_pods.Nominees,
        excluded: frozenset[str] = frozenset(),
        *,
        isolated: bool = True,
    ) -> None:
        """`excluded` are plugins that the caller evaluates itself; the columns of other services are believed.
        `isolated`: each slot is evaluated as if it alone were changed; otherwise all changes count everywhere.
        """
        self._cached = cached
        self._class = pod_class
        self._snap = snap
        self._nominees = nominees
        local = {plugin.name: plugin for plugin in chain.local}
        names = [name for name in chain.order if name in cached.plugins and not cached.plugins[name].prefilter.skip]
        self._plugins: Sequence[tuple[str, interfaces.FilterPlugin | None, columns.PluginColumn]] = [
            (name, local.get(name), cached.plugins[name]) for name in names if name not in excluded
        ]
        self._isolated = {
            plugin.name: cast(interfaces.IsolatedFilter, plugin)
            for _, plugin, _ in self._plugins
            if isolated and plugin is not None and _is_isolated(type(plugin))
        }
        self._single = any(
            plugin is not None
            and plugin.depends_on == interfaces.Dependency.CLUSTER
            and plugin.name not in self._isolated
            for _, plugin, _ in self._plugins
        )
        self._nominated = np.zeros(snap.nodes.size, dtype=np.bool_)
        self._nominated[nominees.slots] = True

    @property
    def by_slot(self) -> bool:
        """The verdict on a slot follows from its node, the pods there and those that are nominated to it."""
        return all(
            plugin is None or plugin.depends_on != interfaces.Dependency.CLUSTER for _, plugin, _ in self._plugins
        )

    @property
    def counts_copies(self) -> bool:
        """The capacity of a slot is the same as filtering for one pod of the class after the other."""
        return self.by_slot and not any(column.prefilter.max_batch for column in self._cached.plugins.values())

    @property
    def one_by_one(self) -> bool:
        """A change on one slot may change the verdict on another."""
        return self._single

    def parts(self, slots: arrays.SlotArray) -> Iterator[arrays.SlotArray]:
        """The slots in parts that one overlay may change together."""
        return iter(slots[:, None]) if self._single else iter((slots,))

    def filter(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        """Verdicts with the nominated pods there and, if they pass, without them: both must pass.

        The slots are one of `parts`.
        """
        out = self._filter(slots, over)
        at = np.flatnonzero(self._nominated[slots])
        if not at.size:
            return out
        beside = self._filter_with_nominees(slots[at], over)
        assert out.capacity is not None
        assert beside.capacity is not None
        out.index[at] = np.where(beside.index != interfaces.PASSES, beside.index, out.index[at])
        out.capacity[at] = np.minimum(out.capacity[at], beside.capacity)
        return out

    def filter_with_nominees(self, slots: arrays.SlotArray) -> Iterator[tuple[arrays.SlotArray, interfaces.Verdicts]]:
        """Verdicts on these slots, which all have nominated pods, with those pods there, in parts."""
        for part in self.parts(slots):
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                yield part, self._filter_with_nominees(part, over)

    def _filter_with_nominees(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        there = self._nominees.on(slots, self._snap.nodes.size)
        mark = over.mark
        over.add(there.class_ids, there.slots)
        out = self._filter(slots, over)
        over.drop_added(mark)
        return out

    def _filter(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        for name, plugin, column in self._plugins:
            if plugin is None:
                verdicts = self._verdicts_of_service(name, column, slots)
            else:
                verdicts = self._verdicts_of_plugin(plugin, column, slots, over)
            np.copyto(index, verdicts.index, where=index == interfaces.PASSES)
            capacity[verdicts.index != interfaces.PASSES] = 0
            if verdicts.capacity is not None:
                np.minimum(capacity, verdicts.capacity, out=capacity)
            if (index != interfaces.PASSES).all():
                # The first refusal counts.
                capacity[:] = 0
                break
        return interfaces.Verdicts(index, capacity)

    def _verdicts_of_plugin(
        self,
        plugin: interfaces.FilterPlugin,
        column: columns.PluginColumn,
        slots: arrays.SlotArray,
        over: overlay.SnapshotOverlay,
    ) -> interfaces.Verdicts:
        current = column.generation == self._snap.generation
        if plugin.depends_on == interfaces.Dependency.NODE and current:
            if column.index.shape[0] < self._snap.nodes.size:
                return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
            return interfaces.Verdicts(column.index[slots])
        table, state = self._cached.table, column.prefilter.state
        isolated = self._isolated.get(plugin.name)
        if isolated is not None:
            return isolated.filter_isolated(self._class, over, slots, table)
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            result = plugin.pre_filter(self._class, over, table)
            if result.status is not None:
                return interfaces.Verdicts(np.full(slots.shape[0], table.intern(result.status), dtype=np.int16))
            if result.skip:
                return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
            state = result.state
        return plugin.filter(self._class, over, state, slots, table)

    def _verdicts_of_service(
        self, name: str, column: columns.PluginColumn, slots: arrays.SlotArray
    ) -> interfaces.Verdicts:
        """The verdicts in a service's column; slots that changed since it answered are refused."""
        column.reserve(self._snap.nodes.capacity)
        index = column.index[slots]
        stale = column.unanswered(self._snap.nodes, slots)
        if stale is not None:
            index[stale] = self._cached.unanswered_status(name)
        return interfaces.Verdicts(index)
