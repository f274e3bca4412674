"""The usage of nodes beside pods placed in thought is that of a snapshot with these pods."""

import random

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.snapshot import node_usage, overlay, snapshot

GPU = "example.com/gpu"


def _cluster() -> SnapshotBuilder:
    """Five nodes, two with devices, and classes that request more or less; the last one what no node has."""
    builder = SnapshotBuilder()
    for number in range(5):
        devices = {GPU: str(number)} if number % 2 else {}
        builder.set_node(f"n{number}", allocatable={"cpu": str(2 + number), "memory": "4Gi", "pods": "6", **devices})
    specs = ({"cpu": "500m"}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", GPU: "1"}, {}, {"example.com/new": "1"})
    for number, requests in enumerate(specs, start=1):
        builder.add_class(number, pod_of(requesting(**requests)))
    builder.place(1, "n0", "n1", "n1")
    return builder


def _with(snap: snapshot.Snapshot, placed: list[tuple[int, int]]) -> snapshot.Snapshot:
    """The snapshot with the pods that are on its nodes."""
    there = np.array([each for each in placed if each[1] < snap.nodes.size], dtype=np.int32).reshape(-1, 2)
    with overlay.SnapshotOverlay(snap, overlay.Semantics.HYPOTHETICAL) as over:
        over.add(there[:, 0], there[:, 1])
        return over.fork()


def _check(usage: node_usage.UsageWithPods, snap: snapshot.Snapshot, placed: list[tuple[int, int]]) -> None:
    truth, slots = _with(snap, placed), np.arange(snap.nodes.size)
    found = usage.at(slots)
    truth.nodes.ensure_resource_rows()
    assert found.count == snap.nodes.size
    for resource in range(len(snap.nodes.resource_names)):
        assert found.requested(resource).tolist() == truth.nodes.requested[resource, slots].tolist()
        assert found.allocatable(resource).tolist() == truth.nodes.allocatable[resource, slots].tolist()
        assert found.name_of(resource) == snap.nodes.resource_names.names[resource]
        capacity, has = found.capacity(resource), truth.nodes.allocatable[resource, slots]
        assert capacity.amounts[:, 0].tolist() == capacity.floats[:, 0].tolist() == np.maximum(has, 1).tolist()
        marks = [True] * slots.size if capacity.is_there is None else capacity.is_there[:, 0].tolist()
        assert (marks, capacity.largest >= max(has)) == ((has > 0).tolist(), True)
    for resource in (0, 1):
        assert found.requested_nonzero(resource).tolist() == truth.nodes.nonzero[resource, slots].tolist()
    assert usage.slots.tolist() == sorted({slot for _, slot in placed if slot < snap.nodes.size})
    _check_fits(usage, truth)


def _check_fits(usage: node_usage.UsageWithPods, truth: snapshot.Snapshot) -> None:
    """A node has room where no resource is used beyond what it has, and for one pod more."""
    demands = [truth.classes[number].amounts.placed for number in sorted(truth.classes)]
    slots = np.arange(truth.nodes.size)[::-1]
    nodes, names = truth.nodes, truth.nodes.resource_names
    free = dict(zip(names.names, (nodes.allocatable - nodes.requested).tolist(), strict=False))
    none = [0] * nodes.capacity
    expected = [
        [
            bool(nodes.pod_count[slot] < nodes.allowed_pods[slot])
            and all(amount <= free.get(name, none)[slot] for name, amount in demand.items())
            for slot in slots.tolist()
        ]
        for demand in demands
    ]
    assert usage.fits(slots, demands).tolist() == expected


@pytest.mark.parametrize("seed", range(8))
def test_the_usage_is_that_of_a_snapshot_with_the_pods_whatever_happens(seed: int) -> None:
    """Several pods would be placed where only one of them fits."""
    draw, builder = random.Random(seed), _cluster()
    snap = builder.snap
    placed = [(draw.randint(1, 5), draw.randrange(5)) for _ in range(seed % 3)]
    usage = node_usage.UsageWithPods(snap, placed)
    for _ in range(30):
        step = draw.random()
        if step < 0.4:
            # A slot beyond is one of another snapshot.
            beyond = (snap.nodes.size, snap.nodes.capacity, snap.nodes.capacity + 5)
            new = [(draw.randint(1, 5), draw.choice((*range(5), *beyond))) for _ in range(draw.randint(0, 3))]
            usage.add(new)
            placed += new
        elif step < 0.6:
            count = draw.randint(0, min(2, len(placed)))
            usage.remove_last(count)
            del placed[len(placed) - count :]
        elif step < 0.8:
            builder.place(draw.randint(1, 4), f"n{draw.randrange(5)}")
        elif step < 0.9:
            builder.set_node(f"n{draw.randrange(5)}", allocatable={"cpu": str(draw.randint(1, 9)), "pods": "9"})
        else:
            _check(usage, snap, placed)
    _check(usage, snap, placed)


def test_a_resource_that_an_added_pod_is_the_first_to_name_is_counted() -> None:
    snap = _cluster().snap
    usage = node_usage.UsageWithPods(snap, [(1, 0)])
    usage.add([(5, 0)])
    found = usage.at(np.array([0]))
    number = snap.nodes.resource_names.find("example.com/new")
    assert number is not None
    assert found.requested(number).tolist() == [1]


def test_room_is_that_of_the_snapshot_as_it_is_when_asked() -> None:
    """Pods would be placed on a node that has filled up meanwhile."""
    builder = _cluster()
    usage, slots = node_usage.UsageWithPods(builder.snap, [(1, 0)]), np.array([0])
    assert usage.fits(slots, [{"cpu": 500}]).tolist() == [[True]]
    builder.place(2, "n0")
    assert usage.fits(slots, [{"cpu": 500}]).tolist() == [[False]]


@pytest.mark.parametrize("name", ["memory", "example.com/unknown"])
def test_a_node_that_lacks_a_resource_takes_pods_that_do_not_ask_for_it(name: str) -> None:
    usage = node_usage.UsageWithPods(_cluster().snap)
    slots = np.array([0, 1])
    assert usage.fits(slots, [{name: 1 << 40}, {"cpu": 100}, {"cpu": 100, name: 0}]).tolist() == [
        [False, False],
        [True, True],
        [True, True],
    ]


def test_memory_counts_what_nodes_have_as_integers_and_as_floats() -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.set_node("n1")
    column = node_usage._CapacityColumn(0)
    column.refresh(builder.snap)
    assert column.nbytes == 2 * 2 * 8
    builder.set_node("n2")
    column.refresh(builder.snap)
    assert column.of_slots.amounts.tolist() == [[4000]] * 3
