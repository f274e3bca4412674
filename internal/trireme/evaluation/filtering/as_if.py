"""Verdicts about a class on some slots as the snapshot is at this moment, a rehearsal included.

The columns of the class say how things are; this says how they would be. What a rehearsal cannot change (answers that
depend on the node alone, and what PreFilter decided: who is skipped, which nodes are left) is taken from the columns.
The rest is asked of the plugins themselves, with PreFilter again for those whose answer depends on the whole cluster.
Such a plugin would see the rehearsals of all slots at once; where one cannot tell them apart, slots are rehearsed one
by one.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.filtering import columns
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, rehearsal, snapshot

if TYPE_CHECKING:
    from trireme.evaluation.filtering import evaluation


@dataclass(frozen=True, slots=True)
class Nominees:
    """Pods that are promised a slot and count there for the class that is asked about. Shapes: both (nominee,)."""

    class_ids: arrays.Int32Array
    slots: arrays.Int32Array

    def on(self, slots: arrays.SlotArray, size: int) -> "Nominees":
        """Those that are promised one of these slots, of so many that there are."""
        there = np.zeros(size, dtype=np.bool_)
        there[slots] = True
        chosen = there[self.slots]
        return Nominees(self.class_ids[chosen], self.slots[chosen])


_NOBODY = Nominees(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


def nominees(snap: snapshot.Snapshot, priority: int, *but: str) -> Nominees:
    """The nominated pods of at least this priority, but for the pods of these UIDs."""
    promised = snap.nominations
    if not len(promised):
        return _NOBODY
    slots, class_ids = promised.slots, promised.class_ids
    by_class = class_priorities.of(snap)
    counting = (slots >= 0) & (class_ids < by_class.shape[0])
    counting &= by_class[np.where(counting, class_ids, 0)] >= priority
    counting &= snap.nodes.alive[slots]
    for uid in but:
        own = promised.entry_of(uid)
        if own is not None:
            counting[own] = False
    return Nominees(class_ids[counting], slots[counting])


@functools.cache
def _judges_apart(kind: type) -> bool:
    # Asking a protocol about an instance takes microseconds, and it is asked of each plugin for each preemptor.
    return issubclass(kind, interfaces.ApartFilter)


class AsIf:
    """Asks about one class; `kept` are its columns at the snapshot's generation."""

    def __init__(
        self,
        chain: "evaluation.Chain",
        kept: columns.ClassColumns,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        counting: Nominees,
        besides: frozenset[str] = frozenset(),
        *,
        apart: bool = True,
    ) -> None:
        """`besides` are plugins that the caller asks itself; of other services the columns are believed. `apart`: each
        slot is asked about as if it alone were rehearsed; otherwise everything that is rehearsed counts everywhere.
        """
        self._kept = kept
        self._class = pod_class
        self._snap = snap
        self._counting = counting
        local = {plugin.name: plugin for plugin in chain.local}
        known = [name for name in chain.order if name in kept.plugins and not kept.plugins[name].prefilter.skip]
        known = [name for name in known if name not in besides]
        self._asked: Sequence[tuple[str, interfaces.FilterPlugin | None, columns.PluginColumn]] = [
            (name, local.get(name), kept.plugins[name]) for name in known
        ]
        self._apart = {
            plugin.name: cast(interfaces.ApartFilter, plugin)
            for _, plugin, _ in self._asked
            if apart and plugin is not None and _judges_apart(type(plugin))
        }
        self._single = any(
            plugin is not None and plugin.depends_on == interfaces.Dependency.CLUSTER and plugin.name not in self._apart
            for _, plugin, _ in self._asked
        )
        self._promised = np.zeros(snap.nodes.size, dtype=np.bool_)
        self._promised[counting.slots] = True

    @property
    def by_slot(self) -> bool:
        """What is said of a slot follows from its node, the pods there and those that are nominated to it."""
        return all(plugin is None or plugin.depends_on != interfaces.Dependency.CLUSTER for _, plugin, _ in self._asked)

    @property
    def counts_copies(self) -> bool:
        """For how many pods of the class there is room on a slot is the same as asking about one after the other."""
        return self.by_slot and not any(column.prefilter.max_batch for column in self._kept.plugins.values())

    @property
    def one_by_one(self) -> bool:
        """What is so on one slot may change the answer about another."""
        return self._single

    def parts(self, slots: arrays.SlotArray) -> Iterator[arrays.SlotArray]:
        """The slots in parts that may be rehearsed together."""
        return iter(slots[:, None]) if self._single else iter((slots,))

    def verdicts(self, slots: arrays.SlotArray, rehearsed: rehearsal.Rehearsal) -> interfaces.Verdicts:
        """Verdicts with the nominated pods there and, where they pass, without them: both must pass.

        The slots are one of `parts`.
        """
        out = self._plainly(slots)
        at = np.flatnonzero(self._promised[slots])
        if not at.size:
            return out
        beside = self._beside(slots[at], rehearsed)
        assert out.capacity is not None
        assert beside.capacity is not None
        out.index[at] = np.where(beside.index != interfaces.PASSES, beside.index, out.index[at])
        out.capacity[at] = np.minimum(out.capacity[at], beside.capacity)
        return out

    def beside_nominees(self, slots: arrays.SlotArray) -> Iterator[tuple[arrays.SlotArray, interfaces.Verdicts]]:
        """Verdicts on these slots, which all have nominated pods, with those pods there, in parts."""
        for part in self.parts(slots):
            with rehearsal.Rehearsal(self._snap) as rehearsed:
                yield part, self._beside(part, rehearsed)

    def _beside(self, slots: arrays.SlotArray, rehearsed: rehearsal.Rehearsal) -> interfaces.Verdicts:
        there = self._counting.on(slots, self._snap.nodes.size)
        mark = rehearsed.mark
        rehearsed.add(there.class_ids, there.slots)
        out = self._plainly(slots)
        rehearsed.clear_added(mark)
        return out

    def _plainly(self, slots: arrays.SlotArray) -> interfaces.Verdicts:
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        for name, plugin, column in self._asked:
            if plugin is None:
                said = self._of_service(name, column, slots)
            else:
                said = self._ask(plugin, column, slots)
            np.copyto(index, said.index, where=index == interfaces.PASSES)
            capacity[said.index != interfaces.PASSES] = 0
            if said.capacity is not None:
                np.minimum(capacity, said.capacity, out=capacity)
            if (index != interfaces.PASSES).all():
                # The first refusal is what counts.
                capacity[:] = 0
                break
        return interfaces.Verdicts(index, capacity)

    def _ask(
        self, plugin: interfaces.FilterPlugin, column: columns.PluginColumn, slots: arrays.SlotArray
    ) -> interfaces.Verdicts:
        current = column.generation == self._snap.generation
        if plugin.depends_on == interfaces.Dependency.NODE and current:
            if column.index.shape[0] < self._snap.nodes.size:
                return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
            return interfaces.Verdicts(column.index[slots])
        table, state = self._kept.table, column.prefilter.state
        apart = self._apart.get(plugin.name)
        if apart is not None:
            return apart.filter_apart(self._class, self._snap, slots, table)
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            said = plugin.pre_filter(self._class, self._snap, table)
            if said.status is not None:
                return interfaces.Verdicts(np.full(slots.shape[0], table.intern(said.status), dtype=np.int16))
            if said.skip:
                return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
            state = said.state
        return plugin.filter(self._class, self._snap, state, slots, table)

    def _of_service(self, name: str, column: columns.PluginColumn, slots: arrays.SlotArray) -> interfaces.Verdicts:
        """What a service has said of the slots; those that it has not seen as they are now are refused."""
        column.reserve(self._snap.nodes.capacity)
        index = column.index[slots]
        stale = column.unanswered(self._snap.nodes, slots)
        if stale is not None:
            index[stale] = self._kept.unanswered_status(name)
        return interfaces.Verdicts(index)
