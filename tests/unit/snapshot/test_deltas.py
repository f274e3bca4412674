"""The snapshot follows deltas: what each part of a delta does, and what one that does not fit leaves behind."""

import random
from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, node_of, node_view, pod_of, requesting, view
from trireme.snapshot import nominations, pods, snapshot
from trireme.v1 import core_pb2, cycle_pb2, meta_pb2, snapshot_pb2


def _cluster() -> SnapshotBuilder:
    """Two nodes, two classes, a pod of the first on n0."""
    builder = SnapshotBuilder()
    builder.set_node("n0", labels={"zone": "a"})
    builder.set_node("n1")
    builder.add_class(1, pod_of(requesting(cpu="500m", memory="1Gi")))
    builder.add_class(2, pod_of(requesting(cpu="2")))
    builder.place(1, "n0")
    return builder


def _changed(builder: SnapshotBuilder, generation: int, *, by_pods: bool) -> list[str]:
    nodes = builder.snap.nodes
    return [nodes.names[slot] for slot in nodes.changed_since(generation, by_pods)]


def test_a_placed_pod_counts_on_its_node_and_nowhere_else() -> None:
    builder = _cluster()
    before = builder.snap.generation
    builder.place(2, "n0", "n1", "n1")
    assert node_view(builder.snap, "n0")["requested"] == {"cpu": 2500, "memory": 1 << 30}
    assert node_view(builder.snap, "n1")["requested"] == {"cpu": 4000}
    assert node_view(builder.snap, "n1")["pods"] == (110, 2)
    assert node_view(builder.snap, "n1")["nonzero"] == [4000, 2 * 200 * 1024 * 1024]
    assert _changed(builder, before, by_pods=True) == ["n0", "n1"]
    assert _changed(builder, before, by_pods=False) == []


def test_a_pod_of_another_class_than_before_counts_as_that() -> None:
    builder = _cluster()
    columns = snapshot_pb2.PodColumns(
        row=[0], pod_class=[2], slot=[0], uid=[""], name=[""], start_time_s=[7], flags=[pods.TERMINATING]
    )
    builder.apply(pods=columns)
    assert node_view(builder.snap, "n0")["requested"] == {"cpu": 2000}
    assert view(builder.snap)["pods"] == {0: ("uid-0", "pod-0", 2, 0, 7, pods.TERMINATING)}
    assert builder.snap.statistics().pods == 1


def test_a_removed_pod_gives_back_what_it_took() -> None:
    builder = _cluster()
    builder.remove(0)
    assert node_view(builder.snap, "n0")["requested"] == {}
    assert node_view(builder.snap, "n0")["pods"] == (110, 0)
    assert view(builder.snap)["pods"] == {}
    assert builder.snap.statistics().pods == 0


def test_the_node_that_takes_over_a_slot_has_nothing_of_the_one_before() -> None:
    builder = _cluster()
    builder.set_node("n1", labels={"disk": "ssd"}, taints=[("k", "v", "NoSchedule")], images={"a:1": 5})
    builder.remove_node("n1")
    assert "n1" not in builder.snap.nodes.slot_of_name
    assert builder.snap.statistics().nodes == 1
    builder.apply(nodes=[snapshot_pb2.NodeEntry(slot=1, node=node_of("n2"))])
    seen = node_view(builder.snap, "n2")
    assert (seen["slot"], seen["labels"], seen["taints"], seen["images"]) == (1, {}, (), {})


def test_a_node_change_is_seen_as_one_and_no_other_slot_changes() -> None:
    builder = _cluster()
    before = builder.snap.generation
    builder.set_node("n1", labels={"zone": "b"})
    assert _changed(builder, before, by_pods=False) == ["n1"]
    assert builder.snap.last_change(("images",)) < before
    builder.set_node("n1", images={"a:1": 5})
    assert builder.snap.last_change(("images",)) == builder.snap.generation


def test_other_objects_are_met_in_the_order_of_their_keys() -> None:
    builder = _cluster()
    for name in ("b", "a", "c"):
        metadata = meta_pb2.ObjectMeta(namespace="x", name=name)
        builder.apply(objects=[snapshot_pb2.ClusterObject(service=core_pb2.Service(metadata=metadata))])
        generation = builder.snap.generation
    builder.apply(removed_objects=[snapshot_pb2.ObjectKey(kind="service", namespace="x", name="c")])
    assert [each.metadata.name for each in builder.snap.objects.all("service")] == ["a", "b"]
    assert builder.snap.objects.get("service", "x", "a").metadata.name == "a"
    assert builder.snap.objects.get("service", "x", "c") is None
    assert builder.snap.last_change(("service", "namespace")) == generation + 1
    assert builder.snap.last_change(("namespace",)) == 0


def test_a_nomination_marks_the_node_that_it_leaves_and_the_one_that_it_goes_to() -> None:
    builder = _cluster()
    identity = cycle_pb2.PodIdentity(namespace="default", name="w", uid="w")
    builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=2, slot=0)])
    before = builder.snap.generation
    builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=2, slot=1)])
    assert _changed(builder, before, by_pods=True) == ["n0", "n1"]
    assert builder.snap.nominations == {"w": nominations.Nominee("w", 2, 1)}
    builder.apply(removed_nominations=["w", "unknown"])
    assert builder.snap.nominations == {}


def test_a_class_that_goes_marks_the_nodes_that_its_pods_are_nominated_to() -> None:
    """What it takes there is no more known: what is kept of the node would go on without that room."""
    builder = _cluster()
    entries = [("w", 2, 0), ("v", 2, 0), ("u", 1, 1), ("gone", 2, 1)]
    builder.apply(
        nominations=[
            snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=uid), pod_class=number, slot=slot)
            for uid, number, slot in entries
        ]
    )
    builder.apply(removed_nominations=["gone"])
    generation = builder.snap.generation
    builder.apply(removed_classes=[2])
    assert _changed(builder, generation, by_pods=True) == [builder.snap.nodes.names[0]]


def test_a_delta_that_does_not_begin_here_changes_nothing() -> None:
    builder = _cluster()
    before = view(builder.snap)
    with pytest.raises(snapshot.OutOfStepError, match="generation"):
        builder.snap.apply(snapshot_pb2.Delta(from_generation=99, to_generation=100, removed_pods=[0]))
    assert view(builder.snap) == before
    assert builder.snap.synced


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param({"removed_slots": [77]}, id="slot"),
        pytest.param({"removed_classes": [77]}, id="class"),
        pytest.param({"pods": snapshot_pb2.PodColumns(row=[5], pod_class=[77], slot=[0])}, id="pod-of-unknown-class"),
        pytest.param({"pods": snapshot_pb2.PodColumns(row=[5], pod_class=[1])}, id="short-column"),
    ],
)
def test_a_delta_that_names_what_is_not_there_leaves_nothing(delta: dict[str, object]) -> None:
    builder = _cluster()
    with pytest.raises(snapshot.OutOfStepError, match="does not fit"):
        builder.apply(**delta)
    assert not builder.snap.synced
    assert (builder.snap.generation, builder.snap.statistics().nodes) == (0, 0)


def test_a_full_sync_is_another_incarnation_and_done_with_its_last_chunk() -> None:
    builder = _cluster()
    before = builder.snap.incarnation
    builder.snap.apply(snapshot_pb2.Delta(reset=True, partial=True, to_generation=3))
    assert builder.snap.incarnation == before + 1
    assert not builder.snap.synced
    assert view(builder.snap)["nodes"] == {}
    builder.snap.apply(snapshot_pb2.Delta(from_generation=3, to_generation=3))
    assert builder.snap.synced
    assert builder.snap.generation == 3


def test_an_awaited_question_notices_that_the_snapshot_was_replaced() -> None:
    """Slots and classes of the answer would be those of other nodes and pods."""
    builder = _cluster()
    before = builder.snap.incarnation
    builder.place(1, "n1")
    builder.snap.check_incarnation(before)
    builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=3))
    with pytest.raises(snapshot.OutOfStepError, match="replaced"):
        builder.snap.check_incarnation(before)


@pytest.mark.parametrize("kept", [{}, {"messages": True}, {"json": True}], ids=str)
def test_node_objects_are_stored_only_where_they_are_needed(kept: dict[str, bool]) -> None:
    """Of a large cluster they take more memory than all columns."""
    snap = snapshot.Snapshot()
    snap.store_node_objects(**kept)
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1))
    entry = snapshot_pb2.NodeEntry(slot=0, node=node_of("n0"), json=b"{}")
    snap.apply(snapshot_pb2.Delta(from_generation=1, to_generation=2, nodes=[entry]))
    assert (bool(snap.nodes.messages), bool(snap.nodes.jsons)) == ("messages" in kept, "json" in kept)


def test_growing_columns_does_not_mix_slots() -> None:
    builder = SnapshotBuilder()
    builder.add_class(1, pod_of(requesting(cpu="1")))
    generator = np.random.default_rng(5)
    counts = generator.integers(0, 4, size=300).tolist()
    for number, count in enumerate(counts):
        builder.set_node(f"n{number}", allocatable={"cpu": str(number + 1), f"example.com/r{number % 5}": "1"})
        builder.place(1, *[f"n{number}"] * count)
    for number, count in enumerate(counts):
        seen = node_view(builder.snap, f"n{number}")
        assert seen["allocatable"] == {"cpu": 1000 * (number + 1), f"example.com/r{number % 5}": 1}
        assert seen["requested"].get("cpu", 0) == 1000 * count


def test_a_node_that_changes_has_its_new_values_in_every_column() -> None:
    """A cordoned node would take pods, and one that is uncordoned none."""
    builder = SnapshotBuilder()
    for cordoned in (False, True, False):
        node = core_pb2.Node(metadata=meta_pb2.ObjectMeta(name="n0"))
        node.spec.unschedulable = cordoned
        node.spec.pod_preemption_policy.disable_resize_preemption[:] = ["Deferred"] * cordoned
        builder.apply(nodes=[snapshot_pb2.NodeEntry(slot=0, node=node)])
        nodes = builder.snap.nodes
        assert (bool(nodes.unschedulable[0]), bool(nodes.resize_preemption_disabled[0])) == (cordoned, cordoned)


def _columns(pods_at: dict[int, tuple[int, int]]) -> snapshot_pb2.PodColumns:
    """Pods by row, each of a class on a slot."""
    return snapshot_pb2.PodColumns(
        row=list(pods_at),
        pod_class=[pod_class for pod_class, _ in pods_at.values()],
        slot=[slot for _, slot in pods_at.values()],
        uid=[f"u{row}" for row in pods_at],
        name=[f"p{row}" for row in pods_at],
        start_time_s=[0] * len(pods_at),
        flags=[0] * len(pods_at),
    )


def test_many_pods_of_two_classes_may_bring_resources_that_no_node_has() -> None:
    """No replica could follow any more: a full sync would fail as well."""
    builder = _cluster()
    builder.add_class(21, pod_of(requesting(cpu="500m")))
    builder.add_class(22, pod_of(requesting(**{"cpu": "1", "example.com/gpu": "1"})))
    slots = [builder.snap.nodes.slot_of_name[name] for name in sorted(builder.snap.nodes.slot_of_name)][:2]
    before = node_view(builder.snap, builder.snap.nodes.names[slots[1]])["requested"].get("cpu", 0)
    builder.apply(pods=_columns({100 + row: (21 + row % 2, slots[row % 2]) for row in range(40)}))
    after = node_view(builder.snap, builder.snap.nodes.names[slots[1]])["requested"]
    assert (after["cpu"] - before, after["example.com/gpu"]) == (20_000, 20)


@pytest.mark.parametrize("seed", range(20))
def test_counting_many_pods_at_once_is_counting_each(seed: int) -> None:
    """With resources that are new, amounts beyond 64 bits, slots that repeat, and pods that go."""
    draw = random.Random(seed)
    together, apart = SnapshotBuilder(), SnapshotBuilder()
    for builder in (together, apart):
        for number in range(7):
            builder.set_node(f"n{number}")
    rows: set[int] = set()
    for pod_class in range(1, 25):
        amounts = {"cpu": f"{draw.randint(1, 900)}m"}
        if draw.random() < 0.4:
            amounts[f"example.com/r{draw.randint(0, 6)}"] = str(draw.randint(0, 3))
        if draw.random() < 0.1:
            amounts["memory"] = str(2**62)
        for builder in (together, apart):
            builder.add_class(pod_class, pod_of(requesting(**amounts)))
        changed = {
            draw.randrange(60): (draw.randint(1, pod_class), draw.randrange(7)) for _ in range(draw.choice([1, 17, 40]))
        }
        gone = [row for row in sorted(rows - changed.keys()) if draw.random() < 0.2]
        together.apply(removed_pods=gone, pods=_columns(changed))
        for row in gone:
            apart.apply(removed_pods=[row])
        for row, at in changed.items():
            apart.apply(pods=_columns({row: at}))
        rows = (rows - set(gone)) | changed.keys()
        for name in together.snap.nodes.slot_of_name:
            assert node_view(together.snap, name) == node_view(apart.snap, name)


_KINDS = ("images", "node_count", "classes", "service", "namespace")


def _stamped(builder: SnapshotBuilder, since: int) -> tuple[set[str], dict[str, list[int]]]:
    """The kinds that changed after a generation, and the slots whose node, pods and starts of pods did."""
    nodes = builder.snap.nodes
    slots = {
        "object": nodes.object_changes.since(since, nodes.size).tolist(),
        "pods": nodes.pod_changes.since(since, nodes.size).tolist(),
        "start": nodes.start_changes.since(since, nodes.size).tolist(),
    }
    kinds = {kind for kind in _KINDS if builder.snap.last_change((kind,)) > since}
    return kinds, {name: found for name, found in slots.items() if found}


def _pod_at(row: int, slot: int, count: int = 1, **changed: int) -> snapshot_pb2.PodColumns:
    """Pods of class 1 in rows from `row` on."""
    fields = {"pod_class": 1, "start_time_s": 0, "flags": 0, **changed}
    columns = snapshot_pb2.PodColumns(row=range(row, row + count), slot=[slot] * count)
    columns.uid[:] = columns.name[:] = [f"again-{each}" for each in columns.row]
    for name, value in fields.items():
        getattr(columns, name)[:] = [value] * count
    return columns


def _nominated(uid: str, slot: int) -> list[snapshot_pb2.Nomination]:
    return [snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=uid), pod_class=2, slot=slot)]


_SERVICE = core_pb2.Service(metadata=meta_pb2.ObjectMeta(namespace="x", name="s"))
_OTHER_SERVICE = snapshot_pb2.ObjectKey(kind="service", namespace="x", name="there")


@pytest.mark.parametrize(
    ("delta", "kinds", "slots"),
    [
        pytest.param({}, [], {}, id="nothing"),
        pytest.param({"classes": [snapshot_pb2.PodClass(id=3, pod=pod_of())]}, ["classes"], {}, id="class"),
        pytest.param({"classes": [snapshot_pb2.PodClass(id=2, pod=pod_of())]}, ["classes"], {}, id="class-again"),
        pytest.param({"removed_classes": [2]}, ["classes"], {"pods": [1]}, id="class-of-a-nominated-pod-gone"),
        pytest.param({"nodes": [(1, {})]}, ["images"], {"object": [1]}, id="node-without-its-images"),
        pytest.param({"nodes": [(1, {"images": {"a:1": 5}})]}, [], {"object": [1]}, id="node-as-it-was"),
        pytest.param({"nodes": [(2, {})]}, ["node_count"], {"object": [2]}, id="new-node"),
        pytest.param({"removed_slots": [0]}, ["node_count"], {"object": [0]}, id="node-gone"),
        pytest.param({"removed_slots": [1]}, ["images", "node_count"], {"object": [1]}, id="node-with-images-gone"),
        pytest.param({"pods": _pod_at(7, 1)}, [], {"pods": [1]}, id="pod"),
        pytest.param({"pods": _pod_at(7, 1, 20)}, [], {"pods": [1]}, id="many-pods"),
        pytest.param({"pods": _pod_at(0, 0)}, [], {}, id="pod-as-it-was"),
        pytest.param({"pods": _pod_at(0, 1)}, [], {"pods": [0, 1]}, id="pod-on-another-node"),
        pytest.param({"pods": _pod_at(0, 0, pod_class=2)}, [], {"pods": [0]}, id="pod-of-another-class"),
        pytest.param({"pods": _pod_at(0, 0, flags=pods.TERMINATING)}, [], {"pods": [0]}, id="pod-being-deleted"),
        pytest.param({"pods": _pod_at(0, 0, start_time_s=9)}, [], {"start": [0]}, id="pod-that-started"),
        pytest.param({"pods": _pod_at(7, 1, start_time_s=9)}, [], {"pods": [1]}, id="new-pod-that-started"),
        pytest.param({"removed_pods": [0]}, [], {"pods": [0]}, id="pod-gone"),
        pytest.param({"nominations": _nominated("new", 0)}, [], {"pods": [0]}, id="nomination"),
        pytest.param(
            {"nominations": [*_nominated("new", 0), *_nominated("another", 1)]},
            [],
            {"pods": [0, 1]},
            id="two-nominations",
        ),
        pytest.param({"nominations": _nominated("there", 0)}, [], {"pods": [0, 1]}, id="nomination-elsewhere"),
        pytest.param({"removed_nominations": ["there"]}, [], {"pods": [1]}, id="nomination-gone"),
        pytest.param({"removed_nominations": ["unknown"]}, [], {}, id="nomination-of-nobody"),
        pytest.param({"objects": [snapshot_pb2.ClusterObject(service=_SERVICE)]}, ["service"], {}, id="object"),
        pytest.param({"objects": [snapshot_pb2.ClusterObject()]}, [], {}, id="object-of-an-unknown-kind"),
        pytest.param({"removed_objects": [_OTHER_SERVICE]}, ["service"], {}, id="object-gone"),
    ],
)
def test_a_delta_stamps_what_it_changes_and_nothing_else(
    delta: dict[str, Any], kinds: list[str], slots: dict[str, list[int]]
) -> None:
    """What is not stamped keeps an old verdict; what is stamped for nothing is evaluated for nothing."""
    builder = _cluster()
    builder.set_node("n1", images={"a:1": 5})
    there = core_pb2.Service(metadata=meta_pb2.ObjectMeta(namespace="x", name="there"))
    builder.apply(objects=[snapshot_pb2.ClusterObject(service=there)], nominations=_nominated("there", 1))
    before = builder.snap.generation
    nodes = [
        snapshot_pb2.NodeEntry(slot=slot, node=node_of(f"n{slot}", **node)) for slot, node in delta.get("nodes", ())
    ]
    builder.apply(**{**delta, "nodes": nodes})
    assert _stamped(builder, before) == (set(kinds), slots)
    assert builder.snap.generation == before + 1
    assert _stamped(builder, before + 1) == (set(), {})
