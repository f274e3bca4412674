"""Counters of pods by class against one that counts anew, while pods, classes and nodes come, change and go."""

import random

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.snapshot import arrays, class_counters, classes, overlay, placement_log, pods, snapshot, snapshot_view
from trireme.v1 import snapshot_pb2

# By number of a class, its weights by key; most classes have none.
_WEIGHTS = ({"a": 1}, {}, {"a": 2, "b": -1}, {}, {"b": 3}, {}, {})
_ZONES = 3


def _weigh(pod_class: classes.PodClass) -> dict[str, int]:
    return dict(_WEIGHTS[pod_class.id % len(_WEIGHTS)])


class _Cluster(SnapshotBuilder):
    """Six nodes in zones, or in none, and changes at random."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self.draw = draw
        self.number = 0
        self.zones: dict[str, int] = {}
        self.placed: dict[int, tuple[int, str]] = {}
        for _ in range(4):
            self.relabel()
            self.add()

    def add(self) -> None:
        self.number += 1
        extra = {f"example.com/r{self.number % 3}": "1"} if self.number % 2 else {}
        self.add_class(self.number, pod_of(requesting(cpu=f"{self.number}m", **extra)))

    def relabel(self) -> None:
        name = f"n{self.draw.randrange(6)}"
        self.zones[name] = self.draw.randint(-1, _ZONES - 1)
        self.set_node(name, labels={"zone": str(self.zones[name])})

    def put(self) -> None:
        number, count = self.draw.choice(list(self.snap.classes)), self.draw.choice((1, 1, 3, 20))
        where = [self.draw.choice(list(self.zones)) for _ in range(count)]
        rows = self.place(number, *where, flags=self.draw.choice((0, 0, pods.TERMINATING)))
        self.placed |= {row: (number, node) for row, node in zip(rows, where, strict=True)}

    def change_pod(self) -> None:
        if self.placed:
            row = self.draw.choice(list(self.placed))
            number, node = self.draw.choice(list(self.snap.classes)), self.placed[row][1]
            self.placed[row] = number, node
            flags = self.draw.choice((0, pods.TERMINATING))
            columns = snapshot_pb2.PodColumns(
                row=[row], pod_class=[number], slot=[self.snap.nodes.slot_of_name[node]], flags=[flags],
                uid=[""], name=[""], start_time_s=[0],
            )  # fmt: skip
            self.apply(pods=columns)

    def drop(self) -> None:
        rows = self.draw.sample(list(self.placed), min(len(self.placed), self.draw.choice((1, 5))))
        for row in rows:
            del self.placed[row]
        self.remove(*rows)

    def remove_class(self) -> None:
        if len(self.snap.classes) > 2:
            number = self.draw.choice(list(self.snap.classes))
            rows = [row for row, (of, _) in self.placed.items() if of == number]
            for row in rows:
                del self.placed[row]
            self.apply(removed_pods=rows, removed_classes=[number])

    def step(self) -> None:
        """Something changes."""
        changes = [self.put, self.put, self.put, self.change_pod, self.drop, self.add, self.remove_class, self.relabel]
        self.draw.choice(changes)()

    def domains(self) -> arrays.Int32Array:
        """The zone of each slot."""
        nodes = self.snap.nodes
        return np.array([self.zones.get(name, -1) for name in nodes.names], dtype=np.int32)


def _counted(snap: snapshot.Snapshot, key: str, live_only: bool) -> list[int]:
    """The sums by slot, pod by pod."""
    out = [0] * snap.nodes.size
    for row in np.flatnonzero(snap.pods.slot[: snap.pods.size] >= 0).tolist():
        if not (live_only and snap.pods.flags[row] & pods.TERMINATING):
            pod_class = snap.classes[int(snap.pods.pod_class[row])]
            out[int(snap.pods.slot[row])] += _weigh(pod_class).get(key, 0)
    return out


def _by_zone(cluster: _Cluster, sums: list[int]) -> list[int]:
    out = [0] * _ZONES
    for zone, count in zip(cluster.domains().tolist(), sums, strict=True):
        if zone >= 0:
            out[zone] += count
    return out


@pytest.mark.parametrize("live_only", [False, True], ids=["all", "live"])
@pytest.mark.parametrize("log", [6, placement_log.LOG_ENTRIES], ids=["short-log", "long-log"])
@pytest.mark.parametrize("seed", range(5))
def test_a_counter_is_what_counting_anew_gives(
    monkeypatch: pytest.MonkeyPatch, seed: int, log: int, live_only: bool
) -> None:
    """A pod that is counted twice, or no more, keeps others from a node forever."""
    monkeypatch.setattr(snapshot, "SPARE_CLASSES", 0)
    draw = random.Random(seed)
    cluster = _Cluster(draw)
    snap = cluster.snap
    snap.placements = placement_log.PlacementLog(log)
    snap.placements.floor = snap.generation
    counter = class_counters.ClassCounter(_weigh, live_only=live_only)
    seen: dict[str, tuple[class_counters.DomainSums, list[int], int]] = {}
    for _ in range(80):
        cluster.step()
        if draw.random() < 0.5:
            continue
        counter.refresh(snap)
        for key in ("a", "b", "unknown"):
            expected = _counted(snap, key, live_only)
            assert counter.at_slots(key, snap.nodes.size).tolist() == expected
            assert counter.at_slots(key, 200).tolist() == expected + [0] * (200 - snap.nodes.size)
            _check_zones(cluster, counter, key, seen)
        assert counter.nbytes == sum(
            each.nbytes for own in (counter._weights, counter._sums, counter._domains) for each in own.values()
        )


def _check_zones(
    cluster: _Cluster,
    counter: class_counters.ClassCounter,
    key: str,
    seen: dict[str, tuple[class_counters.DomainSums, list[int], int]],
) -> None:
    snap = cluster.snap
    sums = counter.by_domain("zone", cluster.domains, _ZONES, key, snap)
    expected = _by_zone(cluster, _counted(snap, key, counter.live_only))
    assert sums.sums.tolist() == expected
    assert sums.nbytes >= sums.sums.nbytes + sums.flips.at.nbytes
    assert sums.counted == sum(count != 0 for count in expected[1:])
    before = seen.get(key)
    if before is not None and before[0] is sums:
        flipped = {zone for zone in range(_ZONES) if (before[1][zone] != 0) != (expected[zone] != 0)}
        assert set(sums.flips.since(before[2], _ZONES).tolist()) >= flipped
        assert not sums.flips.since(snap.generation, _ZONES).size
    seen[key] = sums, expected, snap.generation


def test_sums_by_zone_are_made_once_until_a_node_changes_and_few_are_kept() -> None:
    """To make them takes as long as the cluster is large, and each takes memory."""
    cluster = _Cluster(random.Random(1))
    snap, made = cluster.snap, list[int]()

    def numbers() -> arrays.Int32Array:
        made.append(snap.generation)
        return cluster.domains()

    counter = class_counters.ClassCounter(_weigh)
    for _ in range(30):
        cluster.put()
        counter.refresh(snap)
        first = counter.by_domain("zone", numbers, _ZONES, "a", snap)
        assert counter.by_domain("zone", numbers, _ZONES, "a", snap) is first
    # The first pods with a weight under the key drop them once.
    assert len(made) <= 2
    del made[:]
    cluster.relabel()
    counter.refresh(snap)
    assert counter.by_domain("zone", numbers, _ZONES, "a", snap) is not first
    assert counter.by_domain("zone", numbers, _ZONES + 1, "a", snap).sums.shape == (_ZONES + 1,)
    assert len(made) == 2
    for number in range(50):
        counter.by_domain(number, numbers, _ZONES, "a", snap)
        assert len(counter._domains) <= class_counters.MAX_DOMAIN_SUMS


@pytest.mark.parametrize("live_only", [False, True], ids=["all", "live"])
@pytest.mark.parametrize("seed", range(5))
def test_a_counter_over_an_overlay_is_one_of_the_cluster_with_its_changes(seed: int, live_only: bool) -> None:
    """Preemption would evict pods in vain, or none where it helps."""
    draw = random.Random(seed)
    cluster = _Cluster(draw)
    for _ in range(20):
        cluster.put()
    snap = cluster.snap

    def counter(of: snapshot_view.SnapshotView) -> class_counters.AnyClassCounter:
        return class_counters.class_counter(of, "test", _weigh, live_only=live_only)

    with overlay.SnapshotOverlay(snap, overlay.Semantics.HYPOTHETICAL) as over:
        for _ in range(12):
            rows = sorted(set(cluster.placed) - set(over.overlaid_pods.removed.tolist()))
            gone = over.overlaid_pods.removed
            over.remove(np.array(draw.sample(rows, min(len(rows), 3)), dtype=np.intp))
            over.restore(gone[: draw.randint(0, 2)])
            mark = over.added_mark
            count = draw.choice((3, 20))
            numbers = np.array(draw.choices(list(snap.classes), k=count), dtype=np.int32)
            over.add(numbers, np.array(draw.choices(range(snap.nodes.size), k=count), dtype=np.int32))
            if draw.random() < 0.5:
                over.drop_added(mark + 1)
            truth, adjusted = over.fork(), counter(over)
            assert adjusted.base is counter(snap)
            assert adjusted.keys == adjusted.base.keys
            for key in ("a", "b", "unknown"):
                expected = _counted(truth, key, live_only)
                assert adjusted.at_slots(key, snap.nodes.size).tolist() == expected
                sums = adjusted.by_domain("zone", cluster.domains, _ZONES, key, over)
                assert sums.sums.tolist() == _by_zone(cluster, expected)
            chosen = snap.class_mask(draw.sample(list(snap.classes), 2))
            assert over.count_pods(chosen).tolist() == truth.count_pods(chosen).tolist()
            placed = [
                sorted(zip(*(each.tolist() for each in of.placed_pods(chosen)), strict=True)) for of in (over, truth)
            ]
            assert placed[0] == placed[1]
            slots = np.arange(snap.nodes.size)
            assert over.pod_count(slots).tolist() == truth.pod_count(slots).tolist()
            for resource in range(len(snap.nodes.resource_names)):
                assert over.requested(resource, slots).tolist() == truth.requested(resource, slots).tolist()


def test_pods_on_nodes_that_came_later_are_counted() -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of())
    builder.place(1, "n0")
    counter = class_counters.ClassCounter(lambda _: {"": 1})
    counter.refresh(builder.snap)
    for number in range(1, 2 * arrays.MIN_CAPACITY):
        builder.set_node(f"n{number}")
    builder.place(1, "n0", "n127", "n127")
    counter.refresh(builder.snap)
    assert counter.at_slots("", 128).tolist() == [2, *[0] * 126, 2]


def test_weights_of_many_classes_take_room_for_these_and_little_more() -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    counter = class_counters.ClassCounter(lambda _: {"": 1})
    for number in range(1, 101):
        builder.add_class(number, pod_of())
        counter.refresh(builder.snap)
    weights = counter.weights("")
    assert weights is not None
    assert weights.shape[0] <= builder.snap.class_capacity * 5 // 4
