"""Which nodes a volume, or free storage, can be reached from, and what drivers nodes have: as columns over slots.

`ReachableSlots` finds the slots that match a selector and caches them: thousands of local volumes differ only in the
one node that each names, and a node that changes is looked at again by itself. `CsiColumns` spreads CSINode objects,
which exist beside the nodes under the same name, over slots.

Tests: tests/unit/plugin_kit/test_volumes_matching.py, tests/conformance/test_decisions.py.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from trireme.framework import selectors
from trireme.snapshot import arrays, node_selection, nodes, snapshot
from trireme.v1 import core_pb2, storage_pb2

CSI_NODE = "csi_node"

#: The annotation of a CSINode that names the in-tree plugins that drivers replace there.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

# Answers kept; beyond it all are forgotten. A cluster has about as many as it has nodes and zones.
_MAX_CACHED = 100_000

NO_LIMIT = -1

Terms = tuple[selectors.NodeTerm, ...]


def volume_terms(affinity: core_pb2.VolumeNodeAffinity | None) -> Terms | None:
    """The terms of a volume's node affinity, None where there is none.

    A volume's terms are matched against a node's labels alone: their fields are passed over, so that a term with fields
    alone matches every node. Source: component-helpers, nodeaffinity (nodeSelectorTerm.match).
    """
    if affinity is None or not affinity.HasField("required"):
        return None
    parsed = selectors.parse_terms(affinity.required.node_selector_terms)
    return tuple(selectors.NodeTerm(term.requirements) for term in parsed)


def allowed_terms(stated: Sequence[core_pb2.TopologySelectorTerm]) -> Terms | None:
    """The topologies that a storage class allows, as node terms; None: any."""
    if not stated:
        return None
    out = []
    for term in stated:
        parsed = [
            selectors.make_requirement(expression.key, selectors.IN, expression.values)
            for expression in term.match_label_expressions
        ]
        if parsed and all(entry is not None for entry in parsed):
            out.append(selectors.NodeTerm(tuple(entry for entry in parsed if entry is not None)))
    return tuple(out)


class ReachableSlots:
    """Slots by what matches them. A key must stand for one selector forever."""

    def __init__(self, table: nodes.NodeTable) -> None:
        self._table = table
        self._cached: dict[Hashable, tuple[int, arrays.SlotArray]] = {}

    def of_terms(self, key: Hashable, terms: Terms, generation: int) -> arrays.SlotArray:
        """The live slots that match any of the terms, ascending; `generation` is the snapshot's."""
        return self._cached_slots(key, lambda slots: node_selection.matches_any(self._table, terms, slots), generation)

    def of_many(self, selectors_of: Iterable[tuple[Hashable, Terms | None]], generation: int) -> list[arrays.SlotArray]:
        """As of_terms, for many; all live slots where the terms are None."""
        live = self._table.live_slots()
        out = []
        cached, newest = self._cached, self._table.object_changes.latest
        for key, terms in selectors_of:
            if terms is None:
                out.append(live)
                continue
            known = cached.get(key)
            out.append(known[1] if known is not None and known[0] >= newest else self.of_terms(key, terms, generation))
        return out

    def _cached_slots(
        self, key: Hashable, matches: Callable[[arrays.SlotArray], arrays.BoolArray], generation: int
    ) -> arrays.SlotArray:
        """Return the slots that match, cached under `key`; only nodes that changed since are matched again."""
        seen, slots = self._cached.get(key, (-1, None))
        if slots is None:
            live = self._table.live_slots()
            slots = live[matches(live)]
        elif seen < self._table.object_changes.latest:
            changed = self._table.changed_since(seen, pods=False)
            again = changed[self._table.alive[changed]]
            slots = np.union1d(np.setdiff1d(slots, changed, assume_unique=True), again[matches(again)])
        else:
            return slots
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[key] = (generation, slots)
        return slots


class CsiColumns:
    """The CSINode objects' data about the nodes. Shapes: (slot,)."""

    def __init__(self) -> None:
        self.generation = -1
        self.present = np.zeros(0, dtype=np.bool_)
        self.limited = np.zeros(0, dtype=np.bool_)  # any driver has a limit
        self._limits: dict[str, arrays.Int64Array] = {}
        self._drivers: dict[str, arrays.BoolArray] = {}
        self._migrated: dict[str, arrays.BoolArray] = {}
        self._named: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # slot → drivers, migrated plugins

    def limits(self, driver: str) -> arrays.Int64Array:
        """How many volumes of the driver each node takes, NO_LIMIT where it does not say."""
        if driver not in self._limits:
            self._limits[driver] = np.full(self.present.shape[0], NO_LIMIT, dtype=np.int64)
        return self._limits[driver]

    def installed(self, driver: str) -> arrays.BoolArray:
        """Which nodes have the driver."""
        return self._get_or_make_flag_column(self._drivers, driver)

    def migrated(self, plugin: str) -> arrays.BoolArray:
        """Which nodes say that this in-tree plugin's volumes are its driver's."""
        return self._get_or_make_flag_column(self._migrated, plugin)

    def refresh(self, snap: snapshot.Snapshot) -> arrays.SlotArray:
        """Come to the snapshot's generation; answers the slots whose CSINode, or node, is another one now."""
        if self.generation == snap.generation:
            return np.zeros(0, dtype=np.intp)
        self._ensure_capacity(snap.nodes.capacity)
        changed = snap.nodes.changed_since(self.generation, pods=False)
        keys = snap.objects.changed_since(CSI_NODE, self.generation)
        if keys is None:
            changed = np.arange(snap.nodes.size)
        else:
            named = [snap.nodes.slot_of_name[name] for _, name in keys if name in snap.nodes.slot_of_name]
            changed = np.union1d(changed, np.array(named, dtype=np.intp))
        for slot in changed.tolist():
            self._set_csi_node(slot, snap.objects.get(CSI_NODE, "", snap.nodes.names[slot]))
        self.generation = snap.generation
        return changed

    def _set_csi_node(self, slot: int, entry: storage_pb2.CSINode | None) -> None:
        """Set what a node's CSINode says in all columns, and clear what it said before; None: there is none."""
        drivers, plugins = self._named.pop(slot, ((), ()))
        for driver in drivers:
            self._limits[driver][slot] = NO_LIMIT
            self._drivers[driver][slot] = False
        for plugin in plugins:
            self._migrated[plugin][slot] = False
        self.present[slot] = entry is not None
        self.limited[slot] = False
        if entry is None:
            return
        for described in entry.spec.drivers:
            self.installed(described.name)[slot] = True
            limits = self.limits(described.name)
            if described.HasField("allocatable") and described.allocatable.HasField("count"):
                limits[slot] = described.allocatable.count
                self.limited[slot] = True
        plugins = tuple(filter(None, entry.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")))
        for plugin in plugins:
            self.migrated(plugin)[slot] = True
        if entry.spec.drivers or plugins:
            self._named[slot] = tuple(described.name for described in entry.spec.drivers), plugins

    def _get_or_make_flag_column(self, columns: dict[str, arrays.BoolArray], name: str) -> arrays.BoolArray:
        """The column of this name, made if it is missing."""
        if name not in columns:
            columns[name] = np.zeros(self.present.shape[0], dtype=np.bool_)
        return columns[name]

    def _ensure_capacity(self, capacity: int) -> None:
        """Grow all columns to that many slots."""
        missing = capacity - self.present.shape[0]
        if missing <= 0:
            return
        self.present = arrays.grow_last_axis(self.present, capacity)
        self.limited = arrays.grow_last_axis(self.limited, capacity)
        for columns in (self._drivers, self._migrated):
            for name in columns:
                columns[name] = arrays.grow_last_axis(columns[name], capacity)
        for name, column in self._limits.items():
            self._limits[name] = np.concatenate([column, np.full(missing, NO_LIMIT, dtype=np.int64)])
