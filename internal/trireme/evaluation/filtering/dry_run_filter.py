"""Verdicts about a class on some slots over an overlay: with pods removed or added.

The columns of the class hold the verdicts on the snapshot. What pods cannot change (verdicts that depend on the node
alone, and PreFilter's decisions: which plugins are skipped, which nodes are left) is taken from the columns. Everything
else is evaluated by the plugins over the overlay, with PreFilter again for those that depend on the whole cluster. Such
a plugin would see the changes to all slots at once; where a plugin cannot tell them apart, slots are evaluated one at a
time.

Tests: tests/unit/evaluation/test_isolated_dry_runs.py, tests/unit/evaluation/test_preparing.py.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_column, nominated_pods
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, overlay, snapshot


class DryRunFilter:
    """Filters for one class; `cached` are its columns at the snapshot's generation."""

    def __init__(
        self,
        plugins: filter_chain.FilterChain,
        cached: class_verdicts.ClassVerdicts,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        nominees: nominated_pods.Nominees,
        excluded: frozenset[str] = frozenset(),
        *,
        isolated: bool = True,
    ) -> None:
        """Filter by all plugins but the `excluded` ones, which the caller calls itself.

        What other AsyncFilters prepared is believed.
        `isolated`: each slot is evaluated as if it alone were changed; otherwise all changes count everywhere.
        """
        self._cached = cached
        self._class = pod_class
        self._snap = snap
        self._nominees = nominees
        self._plugins: Sequence[tuple[interfaces.AnyFilterPlugin, filter_column.FilterColumn]] = [
            (plugin, cached.plugins[plugin.name])
            for plugin in plugins.plugins
            if plugin.name not in excluded
            and plugin.name in cached.plugins
            and not cached.plugins[plugin.name].prefilter.skip
        ]
        self._isolated = plugins.isolated if isolated else {}
        by_cluster = [
            plugin.name
            for plugin, column in self._plugins
            if column.asynchronous is None and plugin.depends_on == interfaces.Dependency.CLUSTER
        ]
        self._depends_on_own_slot_only = not by_cluster
        self._slots_affect_each_other = any(name not in self._isolated for name in by_cluster)
        self._nominated = np.zeros(snap.nodes.size, dtype=np.bool_)
        self._nominated[nominees.slots] = True

    @property
    def depends_on_own_slot_only(self) -> bool:
        """Whether the verdict on a slot follows from its node, the pods there and those nominated to it."""
        return self._depends_on_own_slot_only

    @property
    def has_exact_capacities(self) -> bool:
        """Whether a slot's capacity is the number of pods that fit there when filtered for one after the other."""
        return self.depends_on_own_slot_only and not any(
            column.prefilter.max_batch for column in self._cached.plugins.values()
        )

    @property
    def slots_affect_each_other(self) -> bool:
        """Whether a change on one slot may change the verdict on another."""
        return self._slots_affect_each_other

    def split_slots(self, slots: arrays.SlotArray) -> Iterator[arrays.SlotArray]:
        """Split the slots into parts whose changes one overlay may hold together: all, or each alone."""
        return iter(slots[:, None]) if self._slots_affect_each_other else iter((slots,))

    def filter(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        """Return the verdicts on one of the parts of `split_slots`, over the overlay.

        Where pods are nominated, a slot must pass with them there and without them.
        """
        out = self._filter_by_all_plugins(slots, over)
        at = np.flatnonzero(self._nominated[slots])
        if not at.size:
            return out
        with_nominees = self._filter_with_nominees(slots[at], over)
        assert out.capacity is not None
        assert with_nominees.capacity is not None
        out.index[at] = np.where(with_nominees.index != interfaces.PASSES, with_nominees.index, out.index[at])
        out.capacity[at] = np.minimum(out.capacity[at], with_nominees.capacity)
        return out

    def filter_with_nominees(self, slots: arrays.SlotArray) -> Iterator[tuple[arrays.SlotArray, interfaces.Verdicts]]:
        """Verdicts on these slots, which all have nominated pods, with those pods there, in parts."""
        for part in self.split_slots(slots):
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                yield part, self._filter_with_nominees(part, over)

    def _filter_with_nominees(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        """The verdicts on these slots with the pods there that are nominated to them."""
        there = self._nominees.limit_to_slots(slots, self._snap.nodes.size)
        mark = over.added_mark
        over.add(there.class_ids, there.slots)
        out = self._filter_by_all_plugins(slots, over)
        over.drop_added(mark)
        return out

    def _filter_by_all_plugins(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> interfaces.Verdicts:
        """Return the plugins' verdicts on the slots over the overlay: the first refusal, and the least capacity.

        Once all slots are refused, the plugins left are not called.
        """
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        for plugin, column in self._plugins:
            if column.asynchronous is None:
                verdicts = self._filter_synchronous(cast(interfaces.FilterPlugin, plugin), column, slots, over)
            else:
                verdicts = self._filter_prepared(cast(interfaces.AsyncFilter, plugin), column, slots, over)
            np.copyto(index, verdicts.index, where=index == interfaces.PASSES)
            capacity[verdicts.index != interfaces.PASSES] = 0
            if verdicts.capacity is not None:
                np.minimum(capacity, verdicts.capacity, out=capacity)
            if (index != interfaces.PASSES).all():
                # The first refusal counts.
                capacity[:] = 0
                break
        return interfaces.Verdicts(index, capacity)

    def _filter_synchronous(
        self,
        plugin: interfaces.FilterPlugin,
        column: filter_column.FilterColumn,
        slots: arrays.SlotArray,
        over: overlay.SnapshotOverlay,
    ) -> interfaces.Verdicts:
        """One plugin's verdicts on these slots over the overlay, by the cheapest way that the plugin allows.

        A plugin that looks at nodes alone has its cached verdicts. One that looks at the pods of all nodes evaluates
        each slot by itself if it can; if not, its PreFilter is called anew for the overlay.
        """
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

    def _filter_prepared(
        self,
        plugin: interfaces.AsyncFilter,
        column: filter_column.FilterColumn,
        slots: arrays.SlotArray,
        over: overlay.SnapshotOverlay,
    ) -> interfaces.Verdicts:
        """The verdicts that the plugin prepared; slots that changed since are refused."""
        state, table = column.prefilter.state, self._cached.table
        index = plugin.filter(self._class, over, state, slots, table).index
        unanswered = column.unanswered_slots(self._snap.nodes, slots)
        if unanswered is not None:
            index[unanswered] = self._cached.unanswered_status(plugin.name)
        return interfaces.Verdicts(index)
