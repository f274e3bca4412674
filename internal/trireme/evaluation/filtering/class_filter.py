"""Brings the columns of a class to the snapshot's generation: PreFilter and Filter for what changed, then combined.

This is the part of an evaluation that does not wait: all plugins answer at once, about one generation. What takes time
was prepared before (`preparing`).

Tests: tests/unit/evaluation/test_filtering.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_column, nominated_filter, pre_filtering
from trireme.framework import domain_rules
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, slot_changes, snapshot


@dataclass(frozen=True, slots=True)
class _OtherVerdicts:
    """What the plugins before one in order, and those after it, answer about a family. Shapes: (live slot,)."""

    key: tuple[object, int]
    before: arrays.Int16Array
    after: arrays.Int16Array
    capacity: arrays.Int32Array

    def with_verdicts(
        self, slots: arrays.SlotArray, verdicts: interfaces.Verdicts, size: int
    ) -> tuple[arrays.Int16Array, arrays.Int32Array]:
        """The statuses' numbers and the capacities with that one's verdicts on these live slots. Shapes: (slot,)."""
        index, capacity = verdicts.index, self.capacity
        if self.after.any():
            index = np.where(index == interfaces.PASSES, self.after, index)
        if self.before.any():
            index = np.where(self.before == interfaces.PASSES, index, self.before)
        if verdicts.capacity is not None:
            capacity = np.minimum(capacity, verdicts.capacity)
        if slots.shape[0] == size:
            return index, capacity
        all_index, all_capacity = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int32)
        all_index[slots], all_capacity[slots] = index, capacity
        return all_index, all_capacity


class ClassFilter:
    """Brings a class's filter columns up to date: calls PreFilter and Filter of one profile where something changed."""

    def __init__(
        self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain, nominated: nominated_filter.NominatedPodFilter
    ) -> None:
        self._snap = snap
        self._chain = chain
        self._nominated = nominated
        self._pre_filtering = pre_filtering.PreFiltering(snap, chain)
        self._others: _OtherVerdicts | None = None
        #: Nodes that synchronous plugins filtered, once for each evaluation.
        self.slots_evaluated = 0

    def refresh(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> None:
        """Bring the class's columns to the snapshot's generation.

        Where PreFilter refuses the class, `cached.refusal` says so; the columns are then incomplete, and are due as a
        whole the next time.
        """
        started = timer.now()
        if cached.generation == self._snap.generation and not cached.uncombined:
            timer.record_point("PreFilter", started)
            timer.record_point("Filter", started)
            return
        changed = self._pre_filtering.refresh(pod_class, cached, timer)
        if cached.refusal is not None:
            timer.record_point("PreFilter", started, cached.refusal.code)
            cached.generation = -1
            self._record_prepared_verdicts(pod_class, cached)
            return
        timer.record_point("PreFilter", started)
        started = timer.now()
        changed |= cached.generation < 0
        cached.ensure_capacity(max(self._snap.nodes.size, self._snap.nodes.capacity))
        parts, renewed = self._filter_changed_slots(pod_class, cached, timer)
        if changed:
            due = arrays.first_slots(self._snap.nodes.size)
        else:
            parts.append(self._snap.nodes.changed_since(cached.generation, pods=False))
            due = slot_changes.union(parts, self._snap.nodes.size)
        self._combine_due_verdicts(pod_class, cached, due, changed or renewed)
        timer.record_point("Filter", started)

    def refresh_pre_filter(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> None:
        """Bring PreFilter's part of the columns to the snapshot's generation, and no other."""
        started = timer.now()
        if self._pre_filtering.refresh(pod_class, cached, timer) or cached.refusal is not None:
            cached.generation = -1
        timer.record_point("PreFilter", started)

    def verdicts_beside(
        self, pod_class: classes.PodClass, sibling: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> class_verdicts.ClassVerdicts | None:
        """The verdicts of a class that differs from its sibling, which is up to date, in requests alone.

        They are not to be brought up to date. None: more than free resources tells the two apart, nominated pods count,
        or PreFilter refuses a class or names nodes.
        """
        chain, demanding = self._chain, self._chain.demanding
        if demanding is None or chain.asynchronous or sibling.refusal is not None or sibling.narrowed is not None:
            return None
        if sibling.nominated.size or pod_class.resize_deferred:
            return None
        started = timer.now()
        plugins = dict(sibling.plugins)
        for plugin in chain.reading_requests:
            answer = plugin.pre_filter(pod_class, self._snap, sibling.table)
            if plugin is demanding:
                if answer.skip or answer.status is not None or answer.nodes is not None:
                    return None
                plugins[plugin.name] = filter_column.FilterColumn(answer, self._snap.generation)
            elif not answer.skip or not sibling.plugins[plugin.name].prefilter.skip:
                return None
        timer.record_point("PreFilter", started)
        started = timer.now()
        others, slots = self._verdicts_of_others(sibling, demanding.name), self._snap.nodes.live_slots()
        verdicts = demanding.filter(
            pod_class, self._snap, plugins[demanding.name].prefilter.state, slots, sibling.table
        )
        self.slots_evaluated += slots.size
        out = class_verdicts.ClassVerdicts(sibling.table, plugins, self._snap.generation)
        out.index, out.capacity = others.with_verdicts(slots, verdicts, self._snap.nodes.size)
        timer.record_point("Filter", started)
        return out

    def _verdicts_of_others(self, sibling: class_verdicts.ClassVerdicts, demanding: str) -> "_OtherVerdicts":
        """What all plugins but one answer about the sibling's family, as the snapshot is now."""
        key = (sibling.identity, self._snap.generation)
        if self._others is None or self._others.key != key:
            slots, nodes, at = self._snap.nodes.live_slots(), self._snap.nodes, self._chain.order.index(demanding)
            capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
            before, after = np.zeros((2, slots.shape[0]), dtype=np.int16)
            sibling.merge_in_order(slots, self._chain.order[:at], nodes, before, capacity)
            sibling.merge_in_order(slots, self._chain.order[at + 1 :], nodes, after, capacity)
            self._others = _OtherVerdicts(key, before, after, capacity)
        return self._others

    def constraints(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> Iterator[domain_rules.DomainConstraint]:
        """How placements of the class change other nodes, plugin by plugin."""
        for name, plugin in self._chain.by_domain.items():
            prefilter = cached.plugins[name].prefilter
            if not prefilter.skip:
                yield from plugin.constraints(pod_class, self._snap, prefilter.state)

    def _filter_changed_slots(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> tuple[list[arrays.SlotArray], bool]:
        """Call Filter of each plugin about what changed.

        Returns, plugin by plugin, the slots on which it says something else than before, and whether a plugin was
        called about all nodes because nothing was known of any.
        """
        nodes, renewed = self._snap.nodes, False
        live = nodes.alive[: nodes.size]
        parts = cached.uncombined
        cached.uncombined = []
        for plugin in self._chain.synchronous:
            column = cached.plugins[plugin.name]
            if not column.prefilter.skip:
                renewed |= column.generation < 0
                slots = column.due_slots(plugin, self._snap, live)
                started = timer.now()
                parts.append(self._call_filter(plugin, pod_class, column, slots, cached.table))
                timer.record_plugin(plugin.name, "Filter", started)
        for prepared in self._chain.asynchronous:
            column = cached.plugins[prepared.name]
            parts.append(column.changed_since(nodes, column.answered_generation))
        return parts, renewed

    def _record_prepared_verdicts(self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts) -> None:
        """Write down what was prepared, though the pod is refused: preemption may ask about it."""
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        for plugin in self._chain.preparing:
            column = cached.plugins[plugin.name]
            if column.prefilter.state is not None:
                self._call_filter(plugin, pod_class, column, column.due_slots(plugin, self._snap, live), cached.table)

    def _call_filter(
        self,
        plugin: interfaces.FilterPlugin,
        pod_class: classes.PodClass,
        column: filter_column.FilterColumn,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> arrays.SlotArray:
        """Call Filter of the plugin about the slots; return those on which its verdict is another one than before."""
        capacity = self._snap.nodes.capacity
        differing = slots
        if slots.size:
            verdicts = plugin.filter(pod_class, self._snap, column.prefilter.state, slots, table)
            self.slots_evaluated += slots.size
            differing = column.changed_slots(slots, verdicts)
            column.write_verdicts(slots, verdicts, capacity)
        elif column.index.shape[0] < capacity:
            column.index = arrays.grow_last_axis(column.index, capacity)
        column.generation = self._snap.generation
        if column.affected is not None:
            column.affected = slot_changes.NO_SLOTS
        return differing

    def _combine_due_verdicts(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, due: arrays.SlotArray, renewed: bool
    ) -> None:
        """Combine the plugins' verdicts on the slots that are due, and mark these as changed at this generation.

        `renewed`: verdicts may have changed on all nodes, so all slots with nominated pods are due as well.
        """
        generation = self._snap.generation
        due, with_nominees = self._nominated.verdicts_with_nominees(pod_class, cached, due, renewed)
        there = arrays.entries_at(self._snap.nodes.alive, due)
        # Bump the stamp so that earlier readers get a patch.
        stamp = max(generation, cached.next_stamp)
        if there.all():
            self._combine_on_live_slots(cached, due, with_nominees, stamp)
        else:
            self._combine_on_live_slots(cached, due[there], with_nominees, stamp)
            cached.clear_slots(due[~there], stamp)
        cached.generation = generation
        cached.next_stamp = generation + 1

    def _combine_on_live_slots(
        self,
        cached: class_verdicts.ClassVerdicts,
        slots: arrays.SlotArray,
        with_nominees: Sequence[tuple[arrays.SlotArray, interfaces.Verdicts]],
        stamp: int,
    ) -> None:
        """Combine the plugins' verdicts on slots that hold nodes. If PreFilter named nodes, it refuses all others.

        `with_nominees` are the verdicts on slots where nominated pods count; both must pass there.
        """
        order = self._chain.order
        allowed: arrays.BoolArray | None = None
        outside = interfaces.PASSES
        if cached.narrowed is not None:
            named = [
                self._snap.nodes.slot_of_name[name] for name in cached.narrowed if name in self._snap.nodes.slot_of_name
            ]
            allowed = np.isin(slots, named)
            narrowing = [name for name in order if cached.plugins[name].prefilter.nodes is not None]
            outside = cached.table.intern(pre_filtering.status_of_left_out_nodes(narrowing))
        cached.combine_verdicts(
            slots,
            order,
            self._snap.nodes,
            allowed=allowed,
            outside=outside,
            with_nominees=with_nominees,
            stamp=stamp,
        )
