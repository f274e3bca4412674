"""Columns of verdicts: what is written to one, what another class takes over, and what changes for callers."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import node_of
from trireme.cache import class_registry, cluster_cache
from trireme.evaluation.filtering import class_verdicts, filter_column
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, snapshot

UNLIMITED, PASSES = interfaces.UNLIMITED, interfaces.PASSES
NODES = 4


def slots(*numbers: int) -> arrays.SlotArray:
    return np.array(numbers, dtype=np.intp)


def verdicts(index: list[int], capacity: list[int] | None = None, domain: list[bool] | None = None) -> Any:
    return interfaces.Verdicts(
        np.array(index, dtype=np.int16),
        None if capacity is None else np.array(capacity, dtype=np.int32),
        None if domain is None else np.array(domain, dtype=np.bool_),
    )


def column(*answers: tuple[tuple[int, ...], Any]) -> filter_column.FilterColumn:
    made = filter_column.FilterColumn(interfaces.PreFilterResult(), 0, generation=0)
    for at, answer in answers:
        made.write_verdicts(slots(*at), answer, NODES)
    return made


def whole(*answers: Any) -> filter_column.FilterColumn:
    return column(*(((0, 1, 2, 3), each) for each in answers))


def read(of: filter_column.FilterColumn) -> tuple[list[int], list[int] | None, list[bool] | None]:
    """Status, capacity and whether a domain alone refuses, of each slot."""
    index, capacity = of.read(slots(0, 1, 2, 3), interfaces.StatusTable())
    refused = None if of.domain_refused is None else of.domain_refused.tolist()
    return index.tolist(), None if capacity is None else capacity.tolist(), refused


FULL = verdicts([0, 1, 2, 0], [5, 0, 0, 3], [False, True, False, False])


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (verdicts([0, 0]), ([0, 0, 0, 0], [5, UNLIMITED, UNLIMITED, 3], [False] * 4)),
        (verdicts([3, 0], [0, 7]), ([0, 3, 0, 0], [5, 0, 7, 3], [False] * 4)),
        (
            verdicts([1, 1], None, [False, True]),
            ([0, 1, 1, 0], [5, UNLIMITED, UNLIMITED, 3], [False, False, True, False]),
        ),
    ],
)
def test_what_is_written_replaces_all_that_was_said_of_a_slot(then: Any, expected: Any) -> None:
    """An old capacity or a refusal by a domain would stay behind a verdict that says nothing of either."""
    assert read(column(((0, 1, 2, 3), FULL), ((1, 2), then))) == expected


def test_a_slot_that_nobody_limited_is_unlimited() -> None:
    assert read(column(((0, 1), verdicts([0, 0])), ((2,), verdicts([0], [4])))) == (
        [0, 0, 0, 0],
        [UNLIMITED, UNLIMITED, 4, UNLIMITED],
        None,
    )


def test_what_is_written_of_some_slots_leaves_the_others() -> None:
    made = column(
        ((0, 1), verdicts([1, 0], [0, 5], [True, False])),
        ((2,), verdicts([1], [0], [True])),
        ((3,), verdicts([0], [3], [False])),
    )
    assert read(made) == ([1, 0, 1, 0], [0, 5, 0, 3], [True, False, True, False])
    made.write_verdicts(slots(5), verdicts([1], [0], [True]), 6)
    index, capacity = made.read(slots(0, 1, 2, 3, 4, 5), interfaces.StatusTable())
    assert index.tolist() == [1, 0, 1, 0, 0, 1]
    assert capacity is not None
    assert capacity[[0, 1, 2, 3, 5]].tolist() == [0, 5, 0, 3, 0]
    assert made.domain_refused is not None
    assert made.domain_refused.tolist() == [True, False, True, False, False, True]
    made.write_verdicts(slots(6), verdicts([0]), 7)
    assert made.read(slots(5, 6), interfaces.StatusTable())[1] == pytest.approx([0, UNLIMITED])


def test_memory_and_extent_are_those_of_the_verdicts() -> None:
    made = column(((0,), verdicts([1])))
    assert made.nbytes == NODES * 2
    assert (made.has_verdicts(NODES), made.has_verdicts(NODES + 1)) == (True, False)
    made.write_verdicts(slots(1), verdicts([0], [4]), NODES)
    assert made.nbytes == NODES * (2 + 4)
    state: Any = type("State", (), {"nbytes": 77})
    for skip, size in ((False, 77), (True, 0)):
        answer = interfaces.PreFilterResult(state=state, skip=skip)
        far = filter_column.FilterColumn(answer, 0, asynchronous=interfaces.Dependency.NODE)
        assert (far.nbytes, far.has_verdicts(NODES)) == (size, not skip)


def test_a_copy_does_not_change_with_what_it_was_copied_from() -> None:
    """Classes of a family begin with the same verdicts, and go on apart."""
    first = whole(FULL)
    second, third = first.copy(), first.copy()
    second.write_verdicts(slots(0, 1), verdicts([4, 0], [0, 9], [True, False]), NODES)
    assert read(first) == read(third) == ([0, 1, 2, 0], [5, 0, 0, 3], [False, True, False, False])
    assert read(second) == ([4, 0, 2, 0], [0, 9, 0, 3], [True, False, False, False])


@pytest.mark.parametrize(
    ("again", "changed"),
    [
        (FULL, []),
        (verdicts([0, 1, 2, 3], [5, 0, 0, 3], [False, True, False, False]), [3]),
        (verdicts([0, 1, 2, 0], [4, 0, 0, 3], [False, True, False, False]), [0]),
        (verdicts([0, 1, 2, 0], [5, 0, 0, 3], [False, False, False, False]), [1]),
        (verdicts([0, 1, 2, 0], [5, 0, 0, 3]), [0, 1, 2, 3]),
    ],
)
def test_a_slot_has_changed_if_any_of_its_verdict_has(again: Any, changed: list[int]) -> None:
    assert whole(FULL).changed_slots(slots(0, 1, 2, 3), again).tolist() == changed


def test_slots_that_answers_of_pre_filter_affect_add_up_until_filter_is_called() -> None:
    made = whole(FULL)
    made.store_pre_filter(interfaces.PreFilterResult(), 1, slots(1))
    made.store_pre_filter(interfaces.PreFilterResult(), 2, slots(3))
    assert made.affected is not None
    assert (made.affected.tolist(), made.generation, made.prefilter_generation) == ([1, 3], 0, 2)
    made.store_pre_filter(interfaces.PreFilterResult(), 3)
    assert (made.affected, made.generation) == (None, -1)


class Nodes:
    """A snapshot of four nodes that follows changes of them."""

    def __init__(self) -> None:
        self.cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
        self.snap = snapshot.Snapshot()
        for number in range(NODES):
            self.cache.set_node(node_of(f"n{number}"))
        self._apply(self.cache.take_delta())

    def _apply(self, delta: Any) -> None:
        for chunk in self.cache.full_sync():
            self.snap.apply(chunk)

    def change(self, number: int) -> None:
        self.cache.set_node(node_of(f"n{number}", labels={"generation": str(self.snap.generation)}))
        while (delta := self.cache.take_delta()) is not None:
            self.snap.apply(delta)


def test_only_nodes_that_changed_since_the_answer_lack_one() -> None:
    nodes = Nodes()
    made = filter_column.FilterColumn(interfaces.PreFilterResult(), 0, asynchronous=interfaces.Dependency.NODE)
    made.generation = nodes.snap.generation
    everywhere = slots(0, 1, 2, 3)
    assert made.unanswered_slots(nodes.snap.nodes, everywhere) is None
    nodes.change(2)
    lacking = made.unanswered_slots(nodes.snap.nodes, everywhere)
    assert lacking is not None
    assert np.flatnonzero(lacking).tolist() == [2]
    made.unanswered_generation = nodes.snap.generation  # its failure is ignored
    assert made.unanswered_slots(nodes.snap.nodes, everywhere) is None


def test_pre_filter_is_called_again_only_after_a_change_of_what_it_reads() -> None:
    nodes = Nodes()
    plugin: Any = type("Plugin", (), {"depends_on": interfaces.Dependency.NODE, "reads": ("service",)})
    made = filter_column.FilterColumn(interfaces.PreFilterResult(), nodes.snap.last_change(("service",)))
    assert not made.is_stale(plugin, nodes.snap)
    made.prefilter_generation -= 1
    assert made.is_stale(plugin, nodes.snap)


def _combined(
    cached: class_verdicts.ClassVerdicts,
    nodes: Nodes,
    stamp: int,
    *,
    outside: list[int] | None = None,
    nominees: Any = (),
) -> tuple[list[int], list[int], list[int]]:
    """Status and capacity of each slot, and the slots that changed by this stamp."""
    at = slots(0, 1, 2, 3)
    allowed = None if outside is None else np.isin(at, outside, invert=True)
    cached.combine_verdicts(
        at, list(cached.plugins), nodes.snap.nodes, allowed=allowed, outside=9, with_nominees=nominees, stamp=stamp
    )
    changed = cached.changed.since(stamp - 1, NODES).tolist()
    return cached.index.tolist(), cached.capacity.tolist(), changed


def _verdicts_of(**columns: filter_column.FilterColumn) -> class_verdicts.ClassVerdicts:
    cached = class_verdicts.ClassVerdicts()
    cached.plugins.update(columns)
    cached.ensure_capacity(NODES)
    for number in range(9):
        cached.table.intern(status.unschedulable("P", f"status {number}"))
    return cached


def test_the_first_refusal_and_the_least_capacity_count() -> None:
    nodes = Nodes()
    cached = _verdicts_of(
        A=whole(verdicts([0, 1, 0, 0], [5, 5, 8, 8])),
        B=whole(verdicts([0, 2, 3, 0], [7, 7, 7, 7], [False, False, True, False])),
    )
    assert _combined(cached, nodes, 1)[:2] == ([0, 1, 3, 0], [5, 0, 7, 7])
    assert _combined(cached, nodes, 2, outside=[0, 1])[:2] == ([9, 9, 3, 0], [0, 0, 7, 7])


def test_a_slot_changes_for_callers_with_its_status_or_its_capacity() -> None:
    """A patch that lacks a smaller capacity has pods placed where there is no room."""
    nodes = Nodes()
    made = whole(verdicts([0, 0, 1, 0], [5, 5, 0, 5]))
    cached = _verdicts_of(A=made)
    assert _combined(cached, nodes, 1)[2] == [0, 1, 2, 3]
    assert _combined(cached, nodes, 2)[2] == []
    made.write_verdicts(slots(0), verdicts([0], [4]), NODES)
    assert _combined(cached, nodes, 3)[2] == [0]
    made.write_verdicts(slots(2), verdicts([2], [0]), NODES)
    assert _combined(cached, nodes, 4)[2] == [2]


@pytest.mark.parametrize(
    ("index", "capacity", "outside", "expected"),
    [
        (0, 2, None, ([0, 0, 1, 0], [5, 2, 0, 5])),
        (0, 9, None, ([0, 0, 1, 0], [5, 5, 0, 5])),
        (4, 0, None, ([0, 4, 4, 0], [5, 0, 0, 5])),
        (4, 0, [1, 2], ([0, 9, 9, 0], [5, 0, 0, 5])),
        (0, 9, [1, 2], ([0, 9, 9, 0], [5, 0, 0, 5])),
    ],
)
def test_nominated_pods_only_take_room(
    index: int, capacity: int, outside: list[int] | None, expected: tuple[list[int], list[int]]
) -> None:
    """A node that refuses the pod without them does so with them; PreFilter's word counts more."""
    cached = _verdicts_of(A=whole(verdicts([0, 0, 1, 0], [5, 5, 0, 5])))
    nominees = [(slots(1, 2), verdicts([index] * 2, [capacity] * 2))]
    assert _combined(cached, Nodes(), 1, outside=outside, nominees=nominees)[:2] == expected
    # Also where nodes are looked at one by one.
    again = _verdicts_of(A=whole(verdicts([0, 0, 1, 0], [5, 5, 0, 5])))
    nominees = [(slots(slot), verdicts([index], [capacity])) for slot in (1, 2)]
    assert _combined(again, Nodes(), 1, outside=outside, nominees=nominees)[:2] == expected


def test_a_slot_without_its_node_says_nothing_any_more() -> None:
    cached = _verdicts_of(A=whole(verdicts([0, 0, 1, 0], [5, 5, 0, 5])))
    _combined(cached, Nodes(), 1)
    cached.clear_slots(slots(1, 2), 5)
    assert (cached.index.tolist(), cached.capacity.tolist()) == ([0, 0, 0, 0], [5, 0, 0, 5])
    assert cached.changed.since(4, NODES).tolist() == [1, 2]
    cached.clear_slots(slots(1, 2), 6)
    assert cached.changed.since(5, NODES).tolist() == []
