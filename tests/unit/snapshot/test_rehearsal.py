"""Rehearsals: the snapshot as if pods were gone or there, and exactly as before at the end."""

import copy
from typing import Any

import numpy as np
import pytest
from snapshot_views import SnapshotBuilder, pod_of, requesting, view

from trireme.snapshot import classes, occupancy, pods, rehearsal


def _cluster() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name in ("a", "b", "c"):
        builder.set_node(name, allocatable={"cpu": "8", "example.com/gpu": "4", "pods": "10"})
    builder.add_class(1, pod_of(requesting(cpu="1"), labels={"app": "x"}))
    builder.add_class(2, pod_of(requesting(**{"cpu": "2", "example.com/gpu": "1"}), labels={"app": "x"}))
    builder.place(1, "a", "a", "b")
    builder.place(2, "a", "c", flags=pods.TERMINATING)
    return builder


def _state(builder: SnapshotBuilder) -> Any:
    snap = builder.snap
    columns = [column.tolist() for column in (snap.nodes.requested, snap.nodes.nonzero, snap.nodes.pod_count)]
    return copy.deepcopy((view(snap), columns, snap.pods.size, snap.generation))


def _tally(builder: SnapshotBuilder, *, live_only: bool = False) -> list[int]:
    def weigh(pod_class: classes.PodClass) -> dict[str, int]:
        return {"": 1 if pod_class.id == 1 else 10}

    key = ("test", live_only)
    tally = builder.snap.derived(key, lambda: occupancy.Tally(weigh, live_only=live_only))
    return tally.at_slots("", builder.snap.nodes.size).tolist()


def test_a_rehearsal_applies_and_reverts_its_changes() -> None:
    """Amounts, pod counts and the pod table change and come back exactly: a trace left would corrupt every answer."""
    builder = _cluster()
    snap = builder.snap
    before = _state(builder)
    with rehearsal.Rehearsal(snap) as rehearsed:
        rehearsed.remove(np.array([0, 3]))
        rehearsed.add(np.array([2], dtype=np.int32), np.array([1], dtype=np.int32))
        assert snap.nodes.requested[0, :3].tolist() == [1000, 3000, 2000]
        assert snap.nodes.pod_count[:3].tolist() == [1, 2, 1]
        assert snap.pods.count_by_slot(snap.class_mask([1]), 3).tolist() == [1, 1, 0]
        rehearsed.restore(np.array([3]))
        assert snap.nodes.requested[0, :3].tolist() == [3000, 3000, 2000]
        assert rehearsed.slots.tolist() == [0, 1]
    assert _state(builder) == before
    assert snap.rehearsal is None


def _rehearse_within(builder: SnapshotBuilder, rehearsed: rehearsal.Rehearsal) -> None:
    rehearsed.remove(np.array([0]))
    with rehearsal.Rehearsal(builder.snap):
        raise AssertionError("not reached")


def test_a_rehearsal_is_reverted_after_an_error() -> None:
    """A plugin that fails must not leave the snapshot rehearsed; and rehearsals do not nest."""
    builder = _cluster()
    before = _state(builder)
    with pytest.raises(RuntimeError, match="within"), rehearsal.Rehearsal(builder.snap) as rehearsed:
        _rehearse_within(builder, rehearsed)
    assert _state(builder) == before


@pytest.mark.parametrize("live_only", [False, True], ids=["all", "live"])
@pytest.mark.parametrize("known", [True, False], ids=["counted-before", "counted-meanwhile"])
def test_tallies_are_adjusted_where_they_are_read(live_only: bool, known: bool) -> None:
    """Counts for affinity and spread follow a rehearsal, and are right after it, whenever they were first made."""
    builder = _cluster()
    truth = [2, 1, 0] if live_only else [12, 1, 10]
    if known:
        assert _tally(builder, live_only=live_only) == truth
    with rehearsal.Rehearsal(builder.snap) as rehearsed:
        rehearsed.remove(np.array([0]))
        assert _tally(builder, live_only=live_only) == [truth[0] - 1, *truth[1:]]
        rehearsed.add(np.array([2], dtype=np.int32), np.array([2], dtype=np.int32))
        assert _tally(builder, live_only=live_only) == [truth[0] - 1, truth[1], truth[2] + 10]
    assert _tally(builder, live_only=live_only) == truth
    builder.place(1, "c")
    assert _tally(builder, live_only=live_only) == [*truth[:2], truth[2] + 1]
