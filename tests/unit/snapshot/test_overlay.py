"""Overlays: the snapshot as if pods were gone or there, while the snapshot itself stays as it is."""

import copy
from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting, view
from trireme.snapshot import class_counters, classes, overlay, pods, snapshot, snapshot_view
from trireme.v1 import snapshot_pb2

GPU = {"example.com/gpu": "1"}
SLOTS = np.arange(3)


def _cluster() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name in ("a", "b", "c"):
        builder.set_node(name, allocatable={"cpu": "8", "example.com/gpu": "4", "pods": "10"})
    builder.add_class(1, pod_of(requesting(cpu="1"), labels={"app": "x"}))
    builder.add_class(2, pod_of(requesting(cpu="2", **GPU), labels={"app": "x"}))
    builder.place(1, "a", "a", "b")
    builder.place(2, "a", "c", flags=pods.TERMINATING)
    return builder


def _over(
    builder: SnapshotBuilder, semantics: overlay.Semantics = overlay.Semantics.DRY_RUN
) -> overlay.SnapshotOverlay:
    return overlay.SnapshotOverlay(builder.snap, semantics)


def _add(over: overlay.SnapshotOverlay, *pairs: tuple[int, int]) -> None:
    columns = np.array(pairs, dtype=np.int32)
    over.add(columns[:, 0], columns[:, 1])


def _state(builder: SnapshotBuilder) -> Any:
    snap = builder.snap
    columns = [column.tolist() for column in (snap.nodes.requested, snap.nodes.nonzero, snap.nodes.pod_count)]
    return copy.deepcopy((view(snap), columns, snap.pods.size, snap.generation))


def _counter(seen: snapshot_view.SnapshotView, *, live_only: bool = False) -> list[int]:
    def weigh(pod_class: classes.PodClass) -> dict[str, int]:
        return {"": 1 if pod_class.id == 1 else 10}

    counter = class_counters.class_counter(seen, ("test", live_only), weigh, live_only=live_only)
    return counter.at_slots("", seen.nodes.size).tolist()


def test_an_overlay_answers_for_its_changes_and_the_snapshot_stays_as_it_is() -> None:
    """A trace left in the snapshot would corrupt every answer."""
    builder = _cluster()
    snap = builder.snap
    before = _state(builder)
    with _over(builder) as over:
        over.remove(np.array([0, 3]))
        _add(over, (2, 1))
        assert over.requested(0, SLOTS).tolist() == [1000, 3000, 2000]
        assert over.requested(3, SLOTS).tolist() == [0, 1, 1]
        assert over.pod_count(SLOTS).tolist() == [1, 2, 1]
        assert over.count_pods(snap.class_mask([1])).tolist() == [1, 1, 0]
        assert sorted(over.placed_pods(snap.class_mask([2]))[1].tolist()) == [1, 2]
        assert over.class_of_pod("uid-3", 0) is None
        assert over.class_of_pod("uid-4", 2) == 2
        assert _state(builder) == before
        over.restore(np.array([3]))
        assert over.requested(0, SLOTS).tolist() == [3000, 3000, 2000]
        assert over.overlaid_pods.slots.tolist() == [0, 1]
    assert _state(builder) == before


def test_overlays_do_not_see_each_other_nor_what_earlier_ones_changed() -> None:
    """Buffers are used again: what is left in one would count pods that are not there."""
    builder = _cluster()
    for _ in range(3):
        with _over(builder) as one, _over(builder) as other:
            one.remove(np.array([0]))
            _add(other, *[(1, 1)] * 40)
            assert one.requested(0, SLOTS).tolist() == [3000, 1000, 2000]
            assert other.requested(0, SLOTS).tolist() == [4000, 41000, 2000]
    for _ in range(2):  # slot by slot
        with _over(builder) as over:
            _add(over, (1, 2))
            assert over.requested(0, SLOTS).tolist() == [4000, 1000, 3000]
            _add(over, (2, 0), (2, 1))
            over.remove(np.array([0]))
            assert over.requested(0, SLOTS).tolist() == [5000, 3000, 3000]
            assert over.requested(3, SLOTS).tolist() == [2, 1, 1]


def test_added_pods_are_dropped_down_to_a_mark() -> None:
    """Nominated pods are added for one question: those that were there before it stay."""
    builder = _cluster()
    with _over(builder) as over:
        _add(over, (1, 0))
        mark = over.added_mark
        _add(over, (1, 0), (2, 1))
        over.drop_added(mark)
        assert over.pod_count(SLOTS).tolist() == [4, 1, 1]
        over.drop_added()
        assert over.pod_count(SLOTS).tolist() == [3, 1, 1]


@pytest.mark.parametrize("change", ["delta", "reset"])
def test_an_overlay_is_valid_for_one_generation(change: str) -> None:
    """A task that awaited must not go on with an overlay of a cluster that is another one now."""
    builder = _cluster()
    with _over(builder) as over:
        over.remove(np.array([0]))
        over.check()
        if change == "delta":
            builder.place(1, "c")
        else:
            builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=builder.snap.generation))
        with pytest.raises(snapshot.OutOfStepError, match="the cluster changed"):
            over.check()


def test_a_resource_that_the_cluster_did_not_know_is_counted() -> None:
    """A class may be the first to name a resource, after the overlay was made."""
    builder = _cluster()
    with _over(builder) as over:
        _add(over, (1, 0))
        builder.snap.classes[9] = classes.PodClass(9, pod_of(requesting(cpu="1", **{"example.com/new": "3"})))
        _add(over, (9, 0))
        builder.snap.nodes.ensure_resource_rows()
        number = builder.snap.nodes.resource_names.find("example.com/new")
        assert number is not None
        assert over.requested(number, SLOTS).tolist() == [3, 0, 0]


@pytest.mark.parametrize("live_only", [False, True], ids=["all", "live"])
@pytest.mark.parametrize("known", [True, False], ids=["counted-before", "counted-meanwhile"])
def test_tallies_are_adjusted_where_they_are_read(live_only: bool, known: bool) -> None:
    """Counts for affinity and spread follow an overlay, and are right beside it, whenever they were first made."""
    builder = _cluster()
    snap = builder.snap
    truth = [2, 1, 0] if live_only else [12, 1, 10]
    if known:
        assert _counter(snap, live_only=live_only) == truth
    with _over(builder) as over:
        over.remove(np.array([0]))
        assert _counter(over, live_only=live_only) == [truth[0] - 1, *truth[1:]]
        _add(over, (2, 2))
        assert _counter(over, live_only=live_only) == [truth[0] - 1, truth[1], truth[2] + 10]
        assert _counter(snap, live_only=live_only) == truth
    builder.place(1, "c")
    assert _counter(snap, live_only=live_only) == [*truth[:2], truth[2] + 1]


@pytest.mark.parametrize(
    ("semantics", "counted"),
    [(overlay.Semantics.DRY_RUN, -8), (overlay.Semantics.HYPOTHETICAL, 2)],
    ids=["dry-run", "hypothetical"],
)
def test_a_removed_pod_that_was_not_counted_is_taken_off_in_a_dry_run_alone(
    semantics: overlay.Semantics, counted: int
) -> None:
    """kube-scheduler's RemovePod does not look whether the pod is being deleted, and so was never counted."""
    builder = _cluster()
    with _over(builder, semantics) as over:
        over.remove(np.array([3]))
        assert _counter(over, live_only=True)[0] == counted


def test_an_overlay_that_changes_by_nothing_is_the_same() -> None:
    """What plugins keep of one is made again once its version is another."""
    nothing, nobody = np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)
    with _over(_cluster()) as over:
        over.remove(np.array([0]))
        _add(over, (1, 1))
        before = over.overlaid_pods.version
        over.remove(nothing)
        over.restore(nothing)
        over.add(nobody, nobody)
        over.drop_added(over.added_mark)
        assert over.overlaid_pods.version == before
