"""Each table of a snapshot against plain dictionaries, while forks of it, and forks of these, change by themselves.

A table that forgets an entry, does not own what it changes, or reads what another one has changed answers wrongly here.
"""

import gc
import random
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pytest

from tests.helpers.snapshot_views import node_of
from trireme.snapshot import (
    dictionary,
    forkable_columns,
    images,
    labels,
    nodes,
    nominations,
    objects,
    pods,
    slot_changes,
)
from trireme.v1 import core_pb2, meta_pb2, snapshot_pb2


class _Modelled(Protocol):
    """A table, and dictionaries that say what is in it."""

    def change(self, draw: random.Random, generation: int) -> None:
        """Change the table and the dictionaries alike."""

    def fork(self) -> "_Modelled":
        """Fork the table, and copy the dictionaries."""

    def check(self) -> None:
        """What can be read of the table is in the dictionaries."""


class _Objects:
    """Two kinds in two namespaces; the value of an object is one of its labels."""

    def __init__(self) -> None:
        self.table = objects.ObjectTable()
        self.known: dict[str, dict[tuple[str, str], tuple[str, bool, str]]] = {"service": {}, "namespace": {}}
        self.changes: dict[str, dict[tuple[str, str], int]] = {"service": {}, "namespace": {}}

    def change(self, draw: random.Random, generation: int) -> None:
        kind, key = draw.choice(("service", "namespace")), (draw.choice("xy"), draw.choice("abc"))
        self.changes[kind].pop(key, None)
        self.changes[kind][key] = generation
        if draw.random() < 0.3:
            self.known[kind].pop(key, None)
            self.table.remove(snapshot_pb2.ObjectKey(kind=kind, namespace=key[0], name=key[1]), generation)
            return
        assumed = draw.random() < 0.5
        value = self.known[kind][key] = (f"v{generation}", assumed, draw.choice(("", "g")) if assumed else "")
        self.table.upsert(self._entry(kind, key, value), generation)

    def fork(self) -> "_Objects":
        out = _Objects()
        out.table = self.table.fork()
        out.known = {kind: dict(values) for kind, values in self.known.items()}
        out.changes = {kind: dict(values) for kind, values in self.changes.items()}
        return out

    def check(self) -> None:
        table = self.table
        for kind, known in self.known.items():
            for key in ((namespace, name) for namespace in "xyz" for name in "abc"):
                found, (value, assumed, group) = table.get(kind, *key), known.get(key, ("", False, ""))
                assert (found.metadata.labels["v"] if found is not None else "") == value
                assert (table.is_assumed(kind, *key), table.sharing_group(kind, *key)) == (assumed, group)
            assert [each.metadata.labels["v"] for each in table.all(kind)] == [known[key][0] for key in sorted(known)]
            for namespace in "xyz":
                expected = [known[key][0] for key in sorted(known) if key[0] == namespace]
                assert [each.metadata.labels["v"] for each in table.of_namespace(kind, namespace)] == expected
            self._check_changes(kind)
        everything = [(kind, *key) for kind, known in self.known.items() for key in known]
        assert (sorted(table.keys()), table.count) == (sorted(everything), len(everything))
        entries = [self._entry(kind, key, value) for kind, own in self.known.items() for key, value in own.items()]
        assert sorted(map(str, table.entries())) == sorted(map(str, entries))

    def _check_changes(self, kind: str) -> None:
        changes = self.changes[kind]
        last = max(changes.values(), default=0)
        assert self.table.last_change(kind) == last
        for since in (0, last - 9, last - 2, last - 1, last):
            found = self.table.changed_since(kind, max(since, 0))
            if found is not None:
                assert found == [key for key, when in reversed(changes.items()) if when > max(since, 0)]
            else:
                assert objects._LOG_SLACK == 1
                assert since < last, "a reader that is up to date has nothing to look for"

    def _entry(self, kind: str, key: tuple[str, str], value: tuple[str, bool, str]) -> snapshot_pb2.ClusterObject:
        metadata = meta_pb2.ObjectMeta(namespace=key[0], name=key[1], labels={"v": value[0]})
        made = core_pb2.Service(metadata=metadata) if kind == "service" else core_pb2.Namespace(metadata=metadata)
        return snapshot_pb2.ClusterObject(**{kind: made}, assumed=value[1], open_to_group=value[2])


class _Images:
    """Images by slot: some beyond the first bitmap, and on so many nodes that there is one."""

    SLOTS = (0, 1, 7, 8, 9, 63, 511, 512, 600, 5000)
    NAMES = ("a:1", "b:1", "c:1")

    def __init__(self) -> None:
        self.table = images.ImageIndex()
        self.known: dict[int, dict[str, int]] = {}
        self.generation = 0

    def change(self, draw: random.Random, generation: int) -> None:
        slot = draw.choice(self.SLOTS)
        before = self.known.get(slot, {})
        listed = {name: draw.choice((10, 20, 30)) for name in draw.sample(self.NAMES, draw.randint(0, 3))}
        self.known[slot] = listed
        self.generation = generation if listed != before else self.generation
        named = [core_pb2.ContainerImage(names=[name], size_bytes=size) for name, size in listed.items()]
        self.table.replace(slot, named, generation)

    def fork(self) -> "_Images":
        out = _Images()
        out.table, out.known, out.generation = self.table.fork(), dict(self.known), self.generation
        return out

    def check(self) -> None:
        assert self.table.generation == self.generation
        everywhere = np.array([*self.SLOTS, 2, 10, 100_000])
        for name in self.NAMES:
            sizes = {slot: listed[name] for slot, listed in self.known.items() if name in listed}
            found = self.table.find(name)
            assert (found is None) == (not sizes)
            if found is not None:
                counts = list(sizes.values())
                assert found.size == min(counts, key=lambda size: (-counts.count(size), size))
                assert found.count == len(sizes)
                assert set(everywhere[found.has(everywhere)].tolist()) == set(sizes)
        for slot in self.SLOTS:
            assert list(self.table.images_of(slot)) == sorted(self.known.get(slot, {}).items())
        lists = {tuple(sorted(listed.items())) for listed in self.known.values() if listed}
        assert (set(self.table._lists), set(self.table._images)) == (lists, {each for one in lists for each in one})


class _Labels:
    """Labels by slot: a key that most nodes have, one that few have, values that go out of use."""

    SLOTS = range(12)
    KEYS = ("zone", "disk", "rare")

    def __init__(self) -> None:
        self.table = labels.LabelColumns()
        self.known: dict[int, dict[str, str]] = {}
        self.capacity = 12

    def change(self, draw: random.Random, generation: int) -> None:
        slot = draw.choice(self.SLOTS)
        keys = [key for key in self.KEYS if draw.random() < (0.1 if key == "rare" else 0.7)]
        self.known[slot] = {key: draw.choice(("x", "5", str(generation))) for key in keys}
        self.capacity += draw.choice((0, 0, 20))
        self.table.replace(slot, self.known[slot], self.capacity)

    def fork(self) -> "_Labels":
        out = _Labels()
        out.table, out.known, out.capacity = self.table.fork(), dict(self.known), self.capacity
        return out

    def check(self) -> None:
        some, none = np.array([3, 0, 11, 400]), np.array([], dtype=np.intp)
        for key in (*self.KEYS, "unknown"):
            column = self.table.column(key)
            expected = [self.known.get(slot, {}).get(key) for slot in self.SLOTS]
            assert [column.value_at(slot) for slot in self.SLOTS] == expected
            numbers = [dictionary.ABSENT if value is None else column.dictionary.find(value) for value in expected]
            assert column.values(12).tolist() == numbers
            assert column.values(7).tolist() == numbers[:7]
            assert column.at(some).tolist() == [numbers[3], numbers[0], numbers[11], dictionary.ABSENT]
            assert column.at(none).tolist() == []
            assert column.values(600).tolist() == numbers + [dictionary.ABSENT] * 588
            integers, readable = column.integers()
            read = [int(integers[number]) if readable[number] else None for number in numbers]
            assert read == [int(value) if value not in (None, "x") else None for value in expected]
        for slot in self.SLOTS:
            assert self.table.labels_of(slot) == self.known.get(slot, {})


class _Nominations:
    """Nominated pods; `copy` is the fork."""

    def __init__(self) -> None:
        self.table = nominations.Nominations()
        self.known: dict[str, nominations.Nominee] = {}

    def change(self, draw: random.Random, generation: int) -> None:
        for uid in {str(draw.randrange(300)) for _ in range(draw.choice((1, 60)))}:
            if draw.random() < 0.5:
                assert self.table.remove(uid) == self.known.pop(uid, None)
            else:
                self.known[uid] = nominations.Nominee(uid, draw.randint(1, 9), draw.randint(0, 9))
                self.table.put(self.known[uid])

    def fork(self) -> "_Nominations":
        out = _Nominations()
        out.table, out.known = self.table.copy(), dict(self.known)
        return out

    def check(self) -> None:
        table = self.table
        assert dict(table) == self.known
        assert list(table) == list(self.known), "in the order of their first nomination"
        entries = {uid: table.entry_of(uid) for uid in map(str, range(300))}
        assert {uid for uid, entry in entries.items() if entry is not None} == set(self.known)
        for uid, nominee in self.known.items():
            assert (table.slots[entries[uid]], table.class_ids[entries[uid]]) == (nominee.slot, nominee.pod_class)
        assert np.count_nonzero(table.slots != pods.NO_SLOT) == len(self.known) == len(table)
        assert table.slots.shape == table.class_ids.shape <= (2 * 300,)


class _Changes:
    """When slots changed. A fork takes all of them for changed at the latest change before it."""

    SIZE = 20

    def __init__(self) -> None:
        self.table = slot_changes.SlotChanges()
        self.table.ensure_capacity(self.SIZE)
        self.at = [0] * self.SIZE

    def change(self, draw: random.Random, generation: int) -> None:
        slots = [draw.randrange(self.SIZE) for _ in range(draw.randint(0, 3))]
        for slot in slots:
            self.at[slot] = generation
        self.table.touch(np.array(slots, dtype=np.intp), generation)

    def fork(self) -> "_Changes":
        out = _Changes()
        out.table, out.at = self.table.fork(self.SIZE), [self.table.latest] * self.SIZE
        return out

    def check(self) -> None:
        last = max(self.at)
        assert self.table.latest == last
        for since in (0, last - 30, last - 4, last - 1, last):
            expected = [slot for slot, when in enumerate(self.at) if when > max(since, 0)]
            assert self.table.since(max(since, 0), self.SIZE).tolist() == expected


class _Pods:
    """Placed pods by row."""

    def __init__(self) -> None:
        self.table = pods.PodTable()
        self.known: dict[int, tuple[str, str, int, int]] = {}  # by row: UID, name, class, slot
        self.ever: set[str] = set()

    def change(self, draw: random.Random, generation: int) -> None:
        table = self.table
        rows = draw.sample(range(table.size + 4), draw.randint(1, 4))
        if draw.random() < 0.35:
            rows = [row for row in rows if row in self.known]
            table.before_change(np.array(rows, dtype=np.intp))
            table.slot[rows] = pods.NO_SLOT
            table.clear_names(rows)
            for row in rows:
                del self.known[row]
            return
        table.before_change(np.array(rows))
        table.ensure_capacity(max(rows))
        uids = ["" if row in self.known and draw.random() < 0.4 else f"u{generation}-{row}" for row in rows]
        for row, uid in zip(rows, uids, strict=True):
            names = (uid, f"p{uid}") if uid else self.known[row][:2]
            self.known[row] = (*names, draw.randrange(4), draw.randrange(6))
        table.class_index[rows] = table.pod_class[rows] = [self.known[row][2] for row in rows]
        table.slot[rows] = [self.known[row][3] for row in rows]
        table.write_names(rows, uids, [f"p{uid}" for uid in uids])
        self.ever.update(uids)

    def fork(self) -> "_Pods":
        out = _Pods()
        out.table, out.known, out.ever = self.table.fork(), dict(self.known), self.ever
        return out

    def check(self) -> None:
        table, size = self.table, self.table.size
        rows = {uid: row for row, (uid, *_) in self.known.items()}
        assert {uid: table.row_of(uid) for uid in self.ever} == {uid: rows.get(uid) for uid in self.ever}
        texts = [self.known.get(row, ("", ""))[:2] for row in range(size)]
        assert [(table.uids[row], table.names[row]) for row in range(size)] == texts
        assert (list(table.uids), table.names[:]) == ([uid for uid, _ in texts], [name for _, name in texts])
        assert (len(table.uids), [table.names_at(row) for row in range(size)]) == (size, texts)
        slots = [self.known[row][3] if row in self.known else pods.NO_SLOT for row in range(size)]
        assert table.slot[:size].tolist() == slots
        for row, (uid, _, of, slot) in self.known.items():
            assert (table.find(uid, slot), table.find(uid, slot + 1)) == (row, None)
            assert (int(table.class_index[row]), table.uids.index(uid)) == (of, row)
        for end in (size, -1 - size):
            with pytest.raises(IndexError):
                table.uids[end]


class _Nodes:
    """Nodes by slot, the pods on them, and when either changed."""

    SLOTS = (0, 1, 2, 3, 70, 150)

    def __init__(self) -> None:
        self.table = nodes.NodeTable(keep_messages=True, keep_json=True)
        self.known: dict[int, tuple[str, dict[str, int], dict[str, Any]]] = {}  # by slot: name, resources, other fields
        self.pods: dict[tuple[int, int], int] = {}  # by slot and resource
        self.objects_at: dict[int, int] = {}
        self.pods_at: dict[int, int] = {}
        self.counted = 0
        # At a fork the latest change of a node, and of pods: nobody knows what changed before.
        self.before = 0, 0

    def change(self, draw: random.Random, generation: int) -> None:
        slot = draw.choice(self.SLOTS)
        if draw.random() < 0.4 and slot < self.table.size:
            self._add_pods(
                slot, draw.randint(1, 3), f"example.com/r{draw.randrange(3)}", draw.random() < 0.5, generation
            )
        elif draw.random() < 0.3 and slot in self.known:
            del self.known[slot]
            self.counted = self.objects_at[slot] = generation
            self.table.remove(slot, generation)
        else:
            name = self.known[slot][0] if slot in self.known and draw.random() < 0.5 else f"n{generation}"
            self.counted = self.counted if slot in self.known else generation
            self.objects_at[slot] = generation
            fields = {
                "labels": {"zone": draw.choice("ab")},
                "taints": [("t", f"{generation % 7}", "NoSchedule")] * draw.randint(0, 1),
                "features": [f"f{generation % 5}"] * draw.randint(0, 1),
                "unschedulable": draw.random() < 0.5,
            }
            self.known[slot] = name, {"cpu": draw.randint(1, 9), f"example.com/n{draw.randrange(3)}": 2}, fields
            entry = snapshot_pb2.NodeEntry(slot=slot, node=self._node(slot), json=name.encode())
            self.table.upsert([entry], generation)

    def _add_pods(self, slot: int, count: int, name: str, recorded: bool, generation: int) -> None:
        """So many pods come. Each requests one CPU and one of the resource."""
        table, at = self.table, np.array([slot])
        number = table.resource_names.intern(name)
        requests = np.zeros(len(table.resource_names), dtype=np.int64)
        requests[[0, number]] = 1
        table.before_change(at)
        if recorded:
            for _ in range(count):
                table.add_pods(at, 1, requests[:, None], np.array([[3], [7]]), generation)
            self.pods_at[slot] = generation
        else:
            table.add_pods_unrecorded(slot, count, requests, np.array([3, 7]))
        for resource in (0, number):
            self.pods[slot, resource] = self.pods.get((slot, resource), 0) + count

    def fork(self) -> "_Nodes":
        out = _Nodes()
        out.table, out.known, out.counted = self.table.fork(), dict(self.known), self.counted
        out.pods, out.objects_at, out.pods_at = dict(self.pods), dict(self.objects_at), dict(self.pods_at)
        out.before = self.table.object_changes.latest, self.table.pod_changes.latest
        return out

    def check(self) -> None:
        table, size = self.table, self.table.size
        assert table.slot_of_name == {name: slot for slot, (name, *_) in self.known.items()}
        assert list(table.names) == [self.known[slot][0] if slot in self.known else "" for slot in range(size)]
        assert table.live_slots().tolist() == np.flatnonzero(table.alive[:size]).tolist() == sorted(self.known)
        assert (table.count, table.count_generation) == (len(self.known), self.counted)
        stored = {slot: core_pb2.Node.FromString(message) for slot, message in table.messages.items()}
        assert stored == {slot: self._node(slot) for slot in self.known}
        assert table.jsons == {slot: name.encode() for slot, (name, *_) in self.known.items()}
        resources = table.resource_names.names
        for slot in range(size):
            _, has, fields = self.known.get(slot, ("", {}, {}))
            assert int(table.allowed_pods[slot]) == (10 if has else 0)
            units = {"cpu": 1000}
            for number, name in enumerate(resources[: table.allocatable.shape[0]]):
                assert table.allocatable[number, slot] == has.get(name, 0) * units.get(name, 1)
                assert table.requested[number, slot] == self.pods.get((slot, number), 0)
            count = self.pods.get((slot, 0), 0)
            assert (int(table.pod_count[slot]), table.nonzero[:, slot].tolist()) == (count, [3 * count, 7 * count])
            assert table.labels.labels_of(slot) == fields.get("labels", {})
            if fields:
                assert bool(table.unschedulable[slot]) == fields["unschedulable"]
                assert table.taint_sets.value(int(table.taint_set[slot])) == tuple(fields["taints"])
                assert table.feature_sets.value(int(table.feature_set[slot])) == frozenset(fields["features"])
        self._check_changes()

    def _check_changes(self) -> None:
        last = max((*self.objects_at.values(), *self.pods_at.values()), default=0)
        for since in {0, max(last - 7, 0), max(last - 1, 0), last}:
            objects_changed = {slot for slot, when in self.objects_at.items() if when > since}
            pods_changed = {slot for slot, when in self.pods_at.items() if when > since}
            found = self.table.changed_since(since, pods=False).tolist()
            both = self.table.changed_since(since, pods=True).tolist()
            differing = self.table.differing_since(since).tolist()
            assert (sorted(set(found)), sorted(set(both))) == (found, both)
            assert set(found) == objects_changed or (self.before[0] > since and set(found) > objects_changed)
            expected = objects_changed | pods_changed
            assert set(both) == expected or (max(self.before) > since and set(both) > expected)
            assert differing == both, "no pod has started anew"

    def _node(self, slot: int) -> core_pb2.Node:
        name, has, fields = self.known[slot]
        allocatable = {resource: str(amount) for resource, amount in has.items()} | {"pods": "10"}
        return node_of(name, allocatable=allocatable, **fields)


_TABLES = [_Objects, _Images, _Labels, _Nominations, _Changes, _Pods, _Nodes]
# Few entries fill what fills in a large cluster, or what there is room for.
_SMALL = (
    (objects, "_LOG_SLACK", 1),
    (images, "_SET_LIMIT", 3),
    (labels, "_KEY_SETS", 2),
    (dictionary, "SLACK", 1),
    (slot_changes, "LOG_ENTRIES", 4),
)


@pytest.mark.parametrize("small", [False, True], ids=["room", "full"])
@pytest.mark.parametrize("make", _TABLES, ids=lambda each: each.__name__[1:].lower())
@pytest.mark.parametrize("seed", range(6))
def test_a_table_and_its_forks_hold_what_was_put_into_each(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], _Modelled], small: bool, seed: int
) -> None:
    """What one of them loses, or takes over of another, would be a decision on another cluster."""
    if small:
        for module, name, value in _SMALL:
            monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(forkable_columns, "COPIED_PART", 0)
    draw = random.Random(seed)
    branches: list[Any] = [make()]
    for generation in range(1, 120):
        branch, step = draw.choice(branches), draw.random()
        if step < 0.7:
            branch.change(draw, generation)
        elif step < 0.8:
            branches.append(branch.fork())
        elif step < 0.85 and len(branches) > 2:
            branches.remove(branch)
        elif step < 0.9 and isinstance(branch.table, forkable_columns.ForkableColumns):
            draw.choice((branch.table.compact, branch.table.make_independent))()
        else:
            branch.check()
    del branch
    gc.collect()
    for each in draw.sample(branches, len(branches)):
        each.check()
