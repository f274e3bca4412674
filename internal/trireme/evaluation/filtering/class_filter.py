"""Brings the columns of a class to the snapshot's generation: PreFilter and Filter for what changed, then combined.

This is the part of an evaluation that does not wait: all plugins answer at once, about one generation. What takes time
was prepared before (`preparing`).

Tests: tests/unit/evaluation/test_filtering.py, tests/unit/evaluation/test_class_families.py,
tests/unit/evaluation/test_kept_verdicts.py, tests/unit/evaluation/test_measured_times.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_column, nominated_filter, pre_filtering
from trireme.framework import domain_rules
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, slot_changes, snapshot

# PreFilter names so few nodes for pods of a DaemonSet, and others that are meant for certain nodes.
_FEW_NODES = 16


@dataclass(frozen=True, slots=True)
class NewClass:
    """What is known of a class that is not evaluated as a whole: what its plugins' PreFilter said, and where it fits.

    Shape: passing (slot,).
    """

    verdicts: class_verdicts.ClassVerdicts
    passing: arrays.BoolArray


class _Family:
    """Which nodes take a pod of a family by all that does not depend on requests, and what is free on them."""

    def __init__(self, snap: snapshot.Snapshot, key: tuple[object, int], passing: arrays.BoolArray) -> None:
        """Shape: passing (live slot,)."""
        self.key = key
        self._snap = snap
        self._slots = snap.nodes.live_slots()
        self._passing = passing
        self._free: dict[str, arrays.Int64Array] = {}

    def slots_with_room(self, demand: Mapping[str, int]) -> arrays.BoolArray:
        """Which slots pass and have these amounts, all above 0, free. Shape: (slot,)."""
        passing = self._passing.copy()
        for name, amount in demand.items():
            passing &= self._free_amounts(name) >= amount
        if self._slots.shape[0] == self._snap.nodes.size:
            return passing
        out = np.zeros(self._snap.nodes.size, dtype=np.bool_)
        out[self._slots] = passing
        return out

    def _free_amounts(self, name: str) -> arrays.Int64Array:
        """What is free of the resource. Shape: (live slot,)."""
        free = self._free.get(name)
        if free is None:
            nodes, number = self._snap.nodes, self._snap.nodes.resource_names.find(name)
            nodes.ensure_resource_rows()
            if number is None:
                free = np.zeros(self._slots.shape[0], dtype=np.int64)
            else:
                where = arrays.slot_index(self._slots)
                free = nodes.allocatable[number, where] - self._snap.requested(number, self._slots)
            self._free[name] = free
        return free


class ClassFilter:
    """Brings a class's filter columns up to date: calls PreFilter and Filter of one profile where something changed."""

    def __init__(
        self, snap: snapshot.Snapshot, chain: filter_chain.FilterChain, nominated: nominated_filter.NominatedPodFilter
    ) -> None:
        self._snap = snap
        self._chain = chain
        self._nominated = nominated
        self._pre_filtering = pre_filtering.PreFiltering(snap, chain)
        self._family: _Family | None = None
        # The last answer of `_passing_beside_node_affinity`, by columns and generation.
        self._named: tuple[tuple[object, int], arrays.BoolArray] | None = None
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
        cached.ensure_capacity(self._snap.nodes.capacity)
        parts, renewed = self._filter_changed_slots(pod_class, cached, self._chain.synchronous, timer)
        for prepared in self._chain.asynchronous:
            column = cached.plugins[prepared.name]
            parts.append(column.changed_since(self._snap.nodes, column.answered_generation))
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

    def refresh_beside_demand(self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts) -> None:
        """Bring to the snapshot's generation what other classes of the family need of this one.

        That is all but the verdicts of the plugin that reads demands, and those of all plugins combined: both are due
        as a whole the next time that this class is refreshed.
        """
        if cached.generation == self._snap.generation:
            return
        self._pre_filtering.refresh(pod_class, cached, plugin_timer.NO_TIMER)
        if cached.refusal is None:
            plugins = [plugin for plugin in self._chain.synchronous if plugin is not self._chain.demanding]
            self._filter_changed_slots(pod_class, cached, plugins, plugin_timer.NO_TIMER)
        cached.generation = -1

    def new_class_beside(
        self, pod_class: classes.PodClass, sibling: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> NewClass | None:
        """Where a class fits that differs from its sibling in requests alone.

        The sibling is up to date, or by `refresh_beside_demand` where no pods are nominated. None: more than free
        resources tells the two apart, nominated pods count, or PreFilter refuses a class or names nodes.
        """
        chain, demanding = self._chain, self._chain.demanding
        if demanding is None or chain.asynchronous or sibling.refusal is not None or sibling.narrowed is not None:
            return None
        if (self._snap.nominations and sibling.nominated.size) or pod_class.resize_deferred:
            return None
        plugins = dict(sibling.plugins)
        demand: Mapping[str, int] | None = None
        started = timer.now()
        for plugin in chain.reading_requests:
            answer = plugin.pre_filter(pod_class, self._snap, sibling.table)
            if plugin is demanding:
                if answer.skip or answer.status is not None or answer.nodes is not None:
                    return None
                plugins[plugin.name] = filter_column.FilterColumn(answer, self._snap.generation)
                demand = demanding.demand(pod_class, answer.state)
            elif not answer.skip or not sibling.plugins[plugin.name].prefilter.skip:
                return None
        timer.record_point("PreFilter", started)
        if demand is None:
            return None
        started = timer.now()
        passing = self._family_of(sibling, demanding.name).slots_with_room(demand)
        self.slots_evaluated += passing.shape[0]
        timer.record_plugin(demanding.name, "Filter", started)
        timer.record_point("Filter", started)
        return NewClass(class_verdicts.ClassVerdicts(sibling.table, plugins, self._snap.generation), passing)

    def new_class_on_named_nodes(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> NewClass | None:
        """Where a class fits for which PreFilter names a few nodes, as for a DaemonSet's pods: only these are filtered.

        Of `cached`, the class's columns, PreFilter's part alone is brought up to date. None: PreFilter names no nodes
        or many, or refuses the class; plugins may take time, as with claims; or nominated pods may count.
        """
        if not self._may_filter_few_nodes(pod_class):
            return None
        self.refresh_pre_filter(pod_class, cached, timer)
        verdicts = class_verdicts.ClassVerdicts(cached.table, cached.plugins, self._snap.generation)
        verdicts.refusal, verdicts.narrowed, verdicts.narrowed_by = cached.refusal, cached.narrowed, cached.narrowed_by
        slots = self._few_named_slots(verdicts)
        if slots is None:
            return None
        fits = np.ones(slots.shape[0], dtype=np.bool_)
        return self._filter_named_slots(pod_class, verdicts, slots, fits, self._chain.synchronous, timer)

    def new_class_on_other_nodes(
        self, pod_class: classes.PodClass, sibling: class_verdicts.ClassVerdicts, timer: plugin_timer.PluginTimer
    ) -> NewClass | None:
        """Where a class fits that differs from its sibling, which is up to date, in the nodes that it names alone.

        Only plugins that read node affinity are asked, about these nodes. None: as `new_class_on_named_nodes`.
        """
        chain = self._chain
        if sibling.refusal is not None or not self._may_filter_few_nodes(pod_class):
            return None
        if not all(sibling.plugins[plugin.name].prefilter.skip for plugin in chain.preparing):
            return None
        plugins = dict(sibling.plugins)
        started = timer.now()
        for plugin in chain.reading_node_affinity:
            answer = self._pre_filtering.call(plugin, pod_class, sibling.table)
            plugins[plugin.name] = filter_column.FilterColumn(answer, self._snap.generation)
        verdicts = class_verdicts.ClassVerdicts(sibling.table, plugins, self._snap.generation)
        self._pre_filtering.merge_answers(verdicts)
        timer.record_point("PreFilter", started)
        slots = self._few_named_slots(verdicts)
        if slots is None:
            return None
        fits = self._passing_beside_node_affinity(sibling)[slots]
        return self._filter_named_slots(pod_class, verdicts, slots, fits, chain.reading_node_affinity, timer)

    def _may_filter_few_nodes(self, pod_class: classes.PodClass) -> bool:
        """Whether a class's verdicts on a few nodes follow from its plugins' calls about these, made at once."""
        waits = self._chain.asynchronous or self._snap.nominations or pod_class.resize_deferred
        return not (waits or pod_class.has_claims)

    def _few_named_slots(self, verdicts: class_verdicts.ClassVerdicts) -> arrays.SlotArray | None:
        """The slots of the nodes that PreFilter names; None: none or many, or it refuses the class."""
        if verdicts.refusal is not None or verdicts.narrowed is None or len(verdicts.narrowed) > _FEW_NODES:
            return None
        known = self._snap.nodes.slot_of_name
        return np.array(sorted(known[name] for name in verdicts.narrowed if name in known), dtype=np.intp)

    def _filter_named_slots(
        self,
        pod_class: classes.PodClass,
        verdicts: class_verdicts.ClassVerdicts,
        slots: arrays.SlotArray,
        fits: arrays.BoolArray,
        plugins: Sequence[interfaces.FilterPlugin],
        timer: plugin_timer.PluginTimer,
    ) -> NewClass:
        """Where the class fits of these slots, `fits` by other plugins. Shapes: slots, fits (n,)."""
        started = timer.now()
        for plugin in plugins:
            prefilter = verdicts.plugins[plugin.name].prefilter
            if not prefilter.skip and slots.size:
                plugin_started = timer.now()
                found = plugin.filter(pod_class, self._snap, prefilter.state, slots, verdicts.table)
                timer.record_plugin(plugin.name, "Filter", plugin_started)
                fits &= found.index == interfaces.PASSES
                if found.capacity is not None:
                    fits &= found.capacity > 0
        self.slots_evaluated += slots.size
        timer.record_point("Filter", started)
        passing = np.zeros(self._snap.nodes.size, dtype=np.bool_)
        passing[slots[fits]] = True
        return NewClass(verdicts, passing)

    def _passing_beside_node_affinity(self, sibling: class_verdicts.ClassVerdicts) -> arrays.BoolArray:
        """Which slots take the sibling by all plugins but those that read node affinity. Shape: (slot,)."""
        if self._named is None or not self.knows_nodes_beside(sibling):
            readers = {plugin.name for plugin in self._chain.reading_node_affinity}
            passing = np.zeros(self._snap.nodes.size, dtype=np.bool_)
            index, capacity = self._merged(sibling, [name for name in self._chain.order if name not in readers])
            passing[self._snap.nodes.live_slots()] = (index == interfaces.PASSES) & (capacity > 0)
            self._named = (sibling.identity, self._snap.generation), passing
        return self._named[1]

    def _merged(
        self, sibling: class_verdicts.ClassVerdicts, plugins: Sequence[str]
    ) -> tuple[arrays.Int16Array, arrays.Int32Array]:
        """What these plugins answer together about the sibling, and how many copies fit. Shapes: (live slot,)."""
        slots = self._snap.nodes.live_slots()
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        sibling.merge_in_order(slots, plugins, self._snap.nodes, index, capacity)
        return index, capacity

    def knows_nodes_beside(self, sibling: class_verdicts.ClassVerdicts) -> bool:
        """Whether another class was filtered on other nodes than the sibling's since the snapshot changed."""
        return self._named is not None and self._named[0] == (sibling.identity, self._snap.generation)

    def knows_family_of(self, sibling: class_verdicts.ClassVerdicts) -> bool:
        """Whether another class was filtered beside the sibling since the snapshot changed."""
        return self._family is not None and self._family.key == (sibling.identity, self._snap.generation)

    def _family_of(self, sibling: class_verdicts.ClassVerdicts, demanding: str) -> _Family:
        """What all plugins but one answer about the sibling's family, as the snapshot is now, and room for a pod."""
        if self._family is None or not self.knows_family_of(sibling):
            nodes, slots = self._snap.nodes, self._snap.nodes.live_slots()
            index, capacity = self._merged(sibling, [name for name in self._chain.order if name != demanding])
            room = nodes.allowed_pods[arrays.slot_index(slots)] - self._snap.pod_count(slots)
            passing = (index == interfaces.PASSES) & (capacity > 0) & (room > 0)
            self._family = _Family(self._snap, (sibling.identity, self._snap.generation), passing)
        return self._family

    def constraints(
        self, pod_class: classes.PodClass, cached: class_verdicts.ClassVerdicts
    ) -> Iterator[domain_rules.DomainConstraint]:
        """How placements of the class change other nodes, plugin by plugin."""
        for name, plugin in self._chain.by_domain.items():
            prefilter = cached.plugins[name].prefilter
            if not prefilter.skip:
                yield from plugin.constraints(pod_class, self._snap, prefilter.state)

    def _filter_changed_slots(
        self,
        pod_class: classes.PodClass,
        cached: class_verdicts.ClassVerdicts,
        plugins: Sequence[interfaces.FilterPlugin],
        timer: plugin_timer.PluginTimer,
    ) -> tuple[list[arrays.SlotArray], bool]:
        """Call Filter of these plugins about what changed.

        Returns the slots on which one says something else than in the combined verdicts, and whether a plugin was
        called about all nodes because nothing was known of any.
        """
        renewed = False
        live = self._snap.nodes.alive[: self._snap.nodes.size]
        parts = cached.uncombined
        cached.uncombined = []
        for plugin in plugins:
            column = cached.plugins[plugin.name]
            if not column.prefilter.skip:
                renewed |= column.generation < 0
                slots = column.due_slots(plugin, self._snap, live)
                started = timer.now()
                parts.append(self._call_filter(plugin, pod_class, column, slots, cached.table))
                timer.record_plugin(plugin.name, "Filter", started)
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
