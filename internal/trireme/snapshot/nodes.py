"""The node table: everything about nodes as columns over slots.

A slot is a small number that a node keeps while it exists. Used resources are stored here too, because a placed pod
changes only its node's entries. Two generations per slot are the last change of its node object and of its pods; caches
recompute the slots with a newer generation.

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_deltas.py,
tests/unit/snapshot/test_shared_columns.py.
"""

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from trireme.framework import amounts
from trireme.snapshot import arrays, forkable_columns, images, labels, resources, slot_changes
from trireme.snapshot.dictionary import ABSENT, Dictionary
from trireme.v1 import core_pb2, meta_pb2, snapshot_pb2

Taint = tuple[str, str, str]  # key, value, effect
Value = TypeVar("Value", bound=Hashable)

# The number of cached sizes; a cluster has few different ones.
_SIZES = 1024


@functools.lru_cache(maxsize=_SIZES)
def _parse_allocatable(texts: tuple[tuple[str, str], ...]) -> tuple[int, Mapping[str, int]]:
    """Parse allocatable resources: the number of pods, and all other amounts."""
    has = amounts.node_allocatable({name: meta_pb2.Quantity(string=text) for name, text in texts})
    return has.pop(amounts.PODS, 0), has


class NodeTable(forkable_columns.ForkableColumns):
    """Columns over slots. Shapes: (slot,) unless said otherwise; `capacity` entries, `size` of them in use.

    The objects themselves are stored, as bytes, only if a plugin needs them.
    """

    COLUMNS = (
        "alive",
        "allocatable",
        "requested",
        "nonzero",
        "allowed_pods",
        "pod_count",
        "unschedulable",
        "resize_preemption_disabled",
        "taint_set",
        "feature_set",
    )

    def __init__(self, keep_messages: bool = False, keep_json: bool = False) -> None:
        super().__init__()
        self._keep_messages = keep_messages
        self._keep_json = keep_json
        self.messages: dict[int, bytes] = {}  # serialised Node by slot, if a plugin needs it
        self.jsons: dict[int, bytes] = {}  # the API server's JSON by slot, if a plugin needs it
        self.capacity = 0
        self.size = 0  # one past the highest slot that ever held a node
        self.count = 0  # nodes that exist
        self.count_generation = 0  # when count last changed
        # Whether names, slots by name, messages and JSON are those of another table too: copied before a change.
        self._shares_names = False
        self.names: list[str] = []  # by slot; "" where there is no node
        self.slot_of_name: dict[str, int] = {}
        self.resource_names = resources.ResourceNames()
        self.alive = np.zeros(0, dtype=np.bool_)
        # The slots that are alive; None: to be found again.
        self._live: arrays.SlotArray | None = None
        self.allocatable = np.zeros((resources.FIRST_SCALAR, 0), dtype=np.int64)  # (resource, slot)
        self.requested = np.zeros((resources.FIRST_SCALAR, 0), dtype=np.int64)  # (resource, slot)
        self.nonzero = np.zeros((2, 0), dtype=np.int64)  # (cpu | memory, slot): with defaults for absent requests
        self.allowed_pods = np.zeros(0, dtype=np.int64)
        self.pod_count = np.zeros(0, dtype=np.int64)
        self.unschedulable = np.zeros(0, dtype=np.bool_)
        self.resize_preemption_disabled = np.zeros(0, dtype=np.bool_)
        self.taint_set = np.zeros(0, dtype=np.int32)
        self.feature_set = np.zeros(0, dtype=np.int32)
        # When the node object, and when the pods, changed.
        self.object_changes = slot_changes.SlotChanges()
        self.pod_changes = slot_changes.SlotChanges()
        # Last change of a pod's start time, which matters only for the importance of victims.
        self.start_changes = slot_changes.SlotChanges()
        self.taint_sets: Dictionary[tuple[Taint, ...]] = Dictionary()
        self.feature_sets: Dictionary[frozenset[str]] = Dictionary()
        self.labels = labels.LabelColumns()
        self.images = images.ImageIndex()

    def fork(self) -> "NodeTable":
        """The same nodes, which are not changed by changes of this table, nor these by it.

        Dictionaries, in which no number changes, stay shared.
        """
        out = NodeTable(self._keep_messages, self._keep_json)
        self.share(out)
        out.messages, out.jsons = self.messages, self.jsons
        out.names, out.slot_of_name = self.names, self.slot_of_name
        out._shares_names = self._shares_names = True
        out.count, out.count_generation, out._live = self.count, self.count_generation, self.live_slots()
        out.resource_names, out.taint_sets, out.feature_sets = self.resource_names, self.taint_sets, self.feature_sets
        out.object_changes = self.object_changes.fork(self.capacity)
        out.pod_changes = self.pod_changes.fork(self.capacity)
        out.start_changes = self.start_changes.fork(self.capacity)
        out.labels, out.images = self.labels.fork(), self.images.fork()
        return out

    def _own_names(self) -> None:
        """Copy what a fork shares of names and objects, before a change."""
        if self._shares_names:
            self.messages, self.jsons = self.messages.copy(), self.jsons.copy()
            self.names, self.slot_of_name = self.names.copy(), self.slot_of_name.copy()
            self._shares_names = False

    def upsert(self, entries: Sequence[snapshot_pb2.NodeEntry], generation: int) -> None:
        """Add or update the nodes at their slots."""
        if not entries:
            return
        slots = np.array([entry.slot for entry in entries], dtype=np.intp)
        self.before_change(slots)
        for entry in entries:
            self._write_node_columns(entry.slot, entry.node, generation)
            if self._keep_json:
                self._own_names()
                self.jsons[entry.slot] = entry.json
        self.object_changes.touch(slots, generation)

    def _write_node_columns(self, slot: int, node: core_pb2.Node, generation: int) -> None:
        """Write one node's columns; those of its pods stay."""
        self._ensure_capacity(slot)
        name = node.metadata.name
        if not self.alive[slot]:
            self.alive[slot] = True
            self._live = None
            self.count += 1
            self.count_generation = generation
        if self.names[slot] != name:
            self._rename(slot, name)
        self._set_allocatable(slot, node.status.allocatable)
        self.unschedulable[slot] = node.spec.unschedulable
        self.resize_preemption_disabled[slot] = bool(node.spec.pod_preemption_policy.disable_resize_preemption)
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        self.taint_sets = self._without_unused(self.taint_sets, self.taint_set)
        self.taint_set[slot] = self.taint_sets.intern(taints)
        self.feature_sets = self._without_unused(self.feature_sets, self.feature_set)
        self.feature_set[slot] = self.feature_sets.intern(frozenset(node.status.declared_features))
        self.labels.replace(slot, dict(node.metadata.labels), self.capacity)
        self.images.replace(slot, node.status.images, generation)
        if self._keep_messages:
            self._own_names()
            self.messages[slot] = node.SerializeToString()

    def _rename(self, slot: int, name: str) -> None:
        """Have another node at the slot; an empty name: none."""
        self._own_names()
        if self.names[slot]:
            del self.slot_of_name[self.names[slot]]
        self.names[slot] = name
        if name:
            self.slot_of_name[name] = slot

    def _without_unused(self, values: Dictionary[Value], column: arrays.Int32Array) -> Dictionary[Value]:
        """The dictionary; in place of a crowded one another one, by which the column is renumbered. Shape: (slot,)."""
        if not values.is_crowded:
            return values
        self.before_change(np.arange(self.size))
        column[~self.alive] = ABSENT
        values, renumbering = values.without_unused(column)
        column[:] = renumbering[column]
        return values

    def remove(self, slot: int, generation: int) -> None:
        """Remove the node at the slot."""
        if not self.names[slot]:
            raise KeyError(slot)
        self.before_change(np.array([slot], dtype=np.intp))
        self._rename(slot, "")
        self.alive[slot] = False
        self._live = None
        self.count -= 1
        self.count_generation = generation
        self.allocatable[:, slot] = 0
        self.allowed_pods[slot] = 0
        self.labels.replace(slot, {}, self.capacity)
        self.images.replace(slot, (), generation)
        self.object_changes.touch(np.array([slot]), generation)
        self.messages.pop(slot, None)
        self.jsons.pop(slot, None)

    def add_pods(
        self,
        slots: arrays.SlotArray,
        count: int,
        requests: arrays.Int64Array,
        nonzero: arrays.Int64Array,
        generation: int,
    ) -> None:
        """Count one pod more (`count` -1: fewer) on each of the slots, which may repeat.

        Shapes: slots (n,); requests (resource, n), nonzero (2, n), or of one column where all pods are of one class.
        """
        self.ensure_resource_rows()
        for resource in np.flatnonzero(requests.any(axis=1)):
            np.add.at(self.requested[resource], slots, requests[resource] * count)
        for row, used in zip(self.nonzero, nonzero, strict=True):
            np.add.at(row, slots, used * count)
        np.add.at(self.pod_count, slots, count)
        self.pod_changes.touch(slots, generation)

    def add_pods_unrecorded(
        self, slot: int, count: int, requests: arrays.Int64Array, nonzero: arrays.Int64Array
    ) -> None:
        """Add pods on one slot without recording a change."""
        self.ensure_resource_rows()
        self.requested[: requests.shape[0], slot] += requests * count
        self.nonzero[:, slot] += nonzero * count
        self.pod_count[slot] += count

    def live_slots(self) -> arrays.SlotArray:
        """The slots that hold a node, ascending; read-only. Shape: (node,)."""
        if self._live is None:
            self._live = np.flatnonzero(self.alive[: self.size])
            self._live.flags.writeable = False
        return self._live

    def changed_since(self, generation: int, pods: bool) -> arrays.SlotArray:
        """The slots whose node (with `pods`: or pods) changed after `generation`, removed nodes included."""
        objects = self.object_changes.since(generation, self.size)
        if not pods:
            return objects
        changed = self.pod_changes.since(generation, self.size)
        return slot_changes.union([objects, changed], self.size) if objects.shape[0] else changed

    def differing_since(self, generation: int) -> arrays.SlotArray:
        """The slots whose node, pods or pods' start times changed after `generation`, removed nodes included."""
        started = self.start_changes.since(generation, self.size)
        return slot_changes.union([self.changed_since(generation, pods=True), started], self.size)

    def _set_allocatable(self, slot: int, allocatable: Mapping[str, meta_pb2.Quantity]) -> None:
        """Write the slot's allocatable resources, with rows for new ones."""
        allowed_pods, has = _parse_allocatable(tuple([(name, allocatable[name].string) for name in allocatable]))
        self.allowed_pods[slot] = allowed_pods
        vector = self.resource_names.vector(has)
        self.ensure_resource_rows()
        self.allocatable[: vector.shape[0], slot] = vector

    def ensure_resource_rows(self) -> None:
        """Add rows for new resource numbers; call it before indexing rows by them."""
        missing = len(self.resource_names) - self.allocatable.shape[0]
        if missing > 0:
            self.before_change(arrays.no_slots())
            more = np.zeros((missing, self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, more])
            self.requested = np.concatenate([self.requested, more])

    def _ensure_capacity(self, slot: int) -> None:
        """Grow all columns to include the slot."""
        if slot >= self.size:
            self._own_names()
            self.names.extend([""] * (slot + 1 - self.size))
            self.size = slot + 1
        if self.size <= self.capacity:
            return
        self.capacity = arrays.grown_capacity(self.size, self.capacity)
        for column in self.COLUMNS:
            setattr(self, column, arrays.grow_last_axis(getattr(self, column), self.capacity))
        for each in (self.object_changes, self.pod_changes, self.start_changes):
            each.ensure_capacity(self.capacity)
