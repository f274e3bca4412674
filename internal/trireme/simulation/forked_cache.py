"""The cluster cache of a simulation: it begins with what a fork of a snapshot has, and makes the fork's deltas.

Its entries are made when the scheduler first looks at them: a cluster has many pods, and few of them matter.

Tests: tests/unit/simulation/test_questions.py.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

from trireme.cache import class_registry, cluster_cache, pod_read_set
from trireme.cache.placed_pod import PlacedPod
from trireme.simulation import known_classes, lazy_table, node_copies
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2

Key = tuple[str, str, str]

# So many rows without a pod are used again, the lowest; then rows are added.
_FREE_ROWS = 256


class _Uids(Collection[str]):
    """The UIDs of a fork's pods."""

    def __init__(self, fork: snapshot.Snapshot) -> None:
        self._pods = fork.pods

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, str) and self._pods.row_of(uid) is not None

    def __iter__(self) -> Iterator[str]:
        return filter(None, self._pods.uids)

    def __len__(self) -> int:
        return self._pods.count


class _Slots(Collection[int]):
    """The slots that hold a node, by the nodes' names, which do not change."""

    def __init__(self, names: list[str], count: int) -> None:
        self._names = names
        self._count = count

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and 0 <= slot < len(self._names) and bool(self._names[slot])

    def __iter__(self) -> Iterator[int]:
        return (slot for slot, name in enumerate(self._names) if name)

    def __len__(self) -> int:
        return self._count


class _ObjectKeys(Collection[Key]):
    """The keys of a fork's objects."""

    def __init__(self, fork: snapshot.Snapshot) -> None:
        self._objects = fork.objects

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._objects.get(*key) is not None

    def __iter__(self) -> Iterator[Key]:
        return self._objects.keys()

    def __len__(self) -> int:
        return self._objects.count


class _PodsOfNode(dict[PlacedPod, None]):
    """The pods of a node: those that came, and once somebody reads all of them, those of the beginning.

    To put a pod on a node, the others need not be known. It is never copied or compared.
    """

    def __init__(self, others: Callable[[], Iterable[PlacedPod]]) -> None:
        """`others` returns the pods of the beginning that are still on the node, perhaps with some that came."""
        super().__init__()
        self._others: Callable[[], Iterable[PlacedPod]] | None = others

    def _complete(self) -> None:
        others, self._others = self._others, None
        if others is not None:
            self.update(dict.fromkeys(others()))

    def __iter__(self) -> Iterator[PlacedPod]:
        self._complete()
        return super().__iter__()

    def __len__(self) -> int:
        self._complete()
        return super().__len__()

    def __bool__(self) -> bool:
        return self._others is not None or super().__len__() > 0

    def __delitem__(self, pod: PlacedPod, /) -> None:
        """Remove a pod. Raises: KeyError: it is not there, as far as that is known."""
        if self._others is None or pod in self:
            super().__delitem__(pod)


class ForkedCache:
    """The cache over a fork, and what brings the fork up to date with it."""

    def __init__(
        self, fork: snapshot.Snapshot, known: known_classes.KnownClasses, reads: pod_read_set.PodReadSet
    ) -> None:
        """`fork` is changed by `publish` alone. `reads` is what plugins read of pods."""
        self.snap = fork
        self._known = known
        self._made: dict[str, PlacedPod] = {}
        keys = reads.label_keys
        registry = class_registry.ClassRegistry(all_labels=keys is None, rules=fork.amount_rules)
        registry.resume(known.contents(keys or frozenset()))
        self._pods = lazy_table.LazyTable(_Uids(fork), self._make_pod)
        self.cache = _Cache(registry, self._tables(), any(each.labels_projected for each in fork.classes.values()))
        self.cache.resume(fork, self._free_rows())
        for uid, nominee in fork.nominations.items():
            self.cache.set_known_nomination(uid, fork.nodes.names[nominee.slot])

    def publish(self) -> int:
        """Bring the fork up to date; returns its generation. Raises: OutOfStepError."""
        while (delta := self.cache.take_delta()) is not None:
            self.snap.apply(delta)
        return self.cache.generation

    def take_unknown_labels_as_absent(self) -> set[str]:
        """Count pods of the cluster as without label keys that are not recorded; returns the set of such keys."""
        if self.cache.absent_keys is None:
            self.cache.absent_keys = set()
        return self.cache.absent_keys

    def uids_on(self, node_name: str) -> list[str]:
        """The UIDs of the pods on the node, in the order of their rows; none if the fork has no such node."""
        # The fork's, not the cache's, which looks for the pods of a node while it removes it.
        slot = self.snap.nodes.slot_of_name.get(node_name)
        if slot is None:
            return []
        rows = np.flatnonzero(self.snap.pods.slot[: self.snap.pods.size] == slot).tolist()
        return [self.snap.pods.uids[row] for row in rows]

    def _tables(self) -> cluster_cache.CacheTables:
        """All that the fork has."""
        # The fork copies both before it changes them.
        names, by_name = self.snap.nodes.names, self.snap.nodes.slot_of_name
        slots = _Slots(names, len(by_name))
        return cluster_cache.CacheTables(
            slots=lazy_table.LazyTable(by_name, by_name.__getitem__),
            entries=lazy_table.LazyTable(slots, self._node_entry),
            names=lazy_table.LazyTable(slots, lambda slot: (names[slot], 0)),
            pods=self._pods,
            on_node=lazy_table.LazyTable(by_name, self._pods_of_node),
            objects=lazy_table.LazyTable(_ObjectKeys(self.snap), self._object),
            nominations=lazy_table.LazyTable(self.snap.nominations, self._nomination),
        )

    def _free_rows(self) -> list[int]:
        """The first rows that hold no pod; the lowest is last."""
        free = np.flatnonzero(self.snap.pods.slot[: self.snap.pods.size] < 0)
        return list(free[:_FREE_ROWS][::-1].tolist())

    def _node_entry(self, slot: int) -> bytes:
        """The node at the slot, as the cache stores it."""
        entry = snapshot_pb2.NodeEntry(slot=slot, node=node_copies.node_at(self.snap, slot))
        entry.json = self.snap.nodes.jsons.get(slot, b"")
        return entry.SerializeToString(deterministic=True)

    def _make_pod(self, uid: str) -> PlacedPod:
        """The placed pod of the UID; the same one each time."""
        made = self._made.get(uid)
        if made is None:
            pods, row = self.snap.pods, self.snap.pods.row_of(uid)
            assert row is not None
            number = int(pods.pod_class[row])
            labels = self._known.labels_of(number)
            key = f"{self._known.classes[number].namespace}/{pods.names[row]}"
            slot = int(pods.slot[row])
            made = PlacedPod(key, uid, self.snap.nodes.names[slot], self._known.base_of(number), labels, number)
            made.row, made.slot = row, slot
            made.flags, made.start = int(pods.flags[row]), int(pods.start[row])
            self._made[uid] = made
            self.cache.add_label_keys(made)
        return made

    def _pods_of_node(self, name: str) -> _PodsOfNode:
        """The pods of a node, made when they are needed: whether one is on it is said by the cache's own entry."""

        def others() -> Iterator[PlacedPod]:
            # Pods that are hidden while a group is tried are not in the fork; they were made before they were hidden.
            uids = dict.fromkeys((*self.uids_on(name), *self._made))
            found = (self.cache.pod(uid) for uid in uids)
            return (pod for pod in found if pod is not None and pod.node_name == name)

        return _PodsOfNode(others)

    def _object(self, key: Key) -> snapshot_pb2.ClusterObject:
        kind, namespace, name = key
        return snapshot_pb2.ClusterObject(**{kind: self.snap.objects.get(kind, namespace, name)})

    def _nomination(self, uid: str) -> snapshot_pb2.Nomination:
        nominee = self.snap.nominations[uid]
        identity = cycle_pb2.PodIdentity(uid=uid)
        return snapshot_pb2.Nomination(pod=identity, pod_class=nominee.pod_class, slot=nominee.slot)


class _Cache(cluster_cache.ClusterCache):
    """A cluster cache that begins with a cluster."""

    def __init__(
        self, registry: class_registry.ClassRegistry, tables: cluster_cache.CacheTables, labels_unknown: bool
    ) -> None:
        """`labels_unknown`: some pods have unknown labels."""
        super().__init__(registry, tables)
        self._labels_unknown = labels_unknown
        #: Label keys that no pod of the cluster is taken to have; None: which have them has to be known.
        self.absent_keys: set[str] | None = None

    def resume(self, fork: snapshot.Snapshot, free_rows: list[int]) -> None:
        """Go on from the fork's generation. Of free slots the lowest is given first."""
        nodes = fork.nodes
        free_slots = np.flatnonzero(~nodes.alive[: nodes.size])[::-1].tolist()
        self._deltas.resume(
            fork.generation,
            slots=(nodes.size, free_slots),
            rows=(fork.pods.size, free_rows),
            objects=lazy_table.LazySet(_ObjectKeys(fork)),
        )

    def add_label_keys(self, pod: PlacedPod) -> None:
        """Note the label keys of a pod that was there from the beginning."""
        self._label_keys.add(pod.uid, pod.labels)

    def set_known_nomination(self, uid: str, node_name: str) -> None:
        """Note the node of a nomination that was there from the beginning."""
        self._pod_nominations[uid] = (node_name, self._nominations[uid])

    def reclassify(self, keys: frozenset[str]) -> None:
        """Classify pods with these keys again. Raises: UnknownLabelKeyError if nobody knows which have them."""
        if self._labels_unknown and self.absent_keys is None:
            raise known_classes.UnknownLabelKeyError(keys)
        if self._labels_unknown and self.absent_keys is not None:
            self.absent_keys |= keys
        super().reclassify(keys)
