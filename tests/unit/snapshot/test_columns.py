"""The columns that a snapshot is made of, against dictionaries: labels, images, pods, dictionary numbers."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.framework import selectors
from trireme.snapshot import arrays, images, labels, pods, resources
from trireme.snapshot.dictionary import ABSENT, Dictionary
from trireme.v1 import core_pb2

SLOTS = 120
slots = st.integers(0, SLOTS - 1)


def test_a_dictionary_numbers_values_from_one_and_never_renumbers() -> None:
    values: Dictionary[str] = Dictionary()
    assert [values.intern(text) for text in ("a", "b", "a")] == [1, 2, 1]
    assert (values.find("b"), values.find("c")) == (2, ABSENT)
    assert (values.value(2), values.values_from(2), len(values)) == ("b", ["b"], 3)


@given(st.lists(st.tuples(slots, st.sampled_from([None, "x", "y", "5"])), max_size=200), st.sampled_from([64, 4000]))
def test_a_label_column_is_a_dictionary_of_slots(changes: list[tuple[int, str | None]], capacity: int) -> None:
    column = labels.LabelColumn()
    model: dict[int, str] = {}
    for slot, value in changes:
        capacity = max(capacity, slot + 1)
        column.set(slot, value, capacity)
        model.pop(slot, None)
        if value is not None:
            model[slot] = value
    everything = np.arange(SLOTS)
    numbers = column.at(everything)
    for slot in everything.tolist():
        assert column.value_at(slot) == model.get(slot)
        assert numbers[slot] == (column.dictionary.find(model[slot]) if slot in model else ABSENT)


def test_a_label_that_many_nodes_have_is_dense_and_one_that_few_have_is_not() -> None:
    few, many = labels.LabelColumn(), labels.LabelColumn()
    few.set(7, "x", 10_000)
    for slot in range(1000):
        many.set(slot, "x", 10_000)
    assert few._sparse != {}
    assert few._dense is None
    assert many._sparse == {}
    assert many._dense is not None
    assert many._dense.shape == (10_000,)


@given(st.lists(st.sampled_from(["5", "-3", "+7", "007", "x", "", "9" * 19, "9" * 5000, "1_0", "٣"]), max_size=6))
def test_label_values_are_integers_as_go_reads_them(values: list[str]) -> None:
    column = labels.LabelColumn()
    for slot, value in enumerate(values):
        column.set(slot, value, SLOTS)
        numbers, readable = column.integers()
        number = column.at(np.array([slot]))[0]
        expected = selectors.parse_int64(value)
        assert bool(readable[number]) == (expected is not None)
        if expected is not None:
            assert numbers[number] == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("9223372036854775807", 2**63 - 1, id="largest"),
        pytest.param("-9223372036854775808", -(2**63), id="smallest"),
        pytest.param("9223372036854775808", None, id="too-large"),
        pytest.param("0" * 400 + "12", 12, id="leading-zeros"),
        pytest.param("9" * 5000, None, id="endless"),
        pytest.param("+5", 5, id="plus"),
        pytest.param("--5", None, id="two-signs"),
        pytest.param("1_000", None, id="underscore"),
        pytest.param("٣", None, id="other-digits"),
        pytest.param("", None, id="empty"),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert selectors.parse_int64(text) == number


image_lists = st.lists(
    st.tuples(st.sampled_from(["a:1", "b:1", "c:1", "d:1"]), st.sampled_from([10, 20, 30])), max_size=4
)


def _images(listed: list[tuple[str, int]]) -> list[core_pb2.ContainerImage]:
    return [core_pb2.ContainerImage(names=[name], size_bytes=size) for name, size in listed]


@given(st.lists(st.tuples(slots, image_lists), max_size=150))
def test_the_image_index_is_a_dictionary_of_slots(changes: list[tuple[int, list[tuple[str, int]]]]) -> None:
    index = images.ImageIndex()
    model: dict[int, dict[str, int]] = {}
    for generation, (slot, listed) in enumerate(changes, start=1):
        before = model.get(slot, {})
        # The first size that a node states is the one that counts.
        model[slot] = dict(reversed(listed))
        was = index.generation
        index.replace(slot, _images(listed), generation)
        assert index.generation == (generation if model[slot] != before else was)
    everything = np.arange(SLOTS)
    for name in ("a:1", "b:1", "c:1", "d:1"):
        sizes = {slot: own[name] for slot, own in model.items() if name in own}
        found = index.find(name)
        if not sizes:
            assert found is None
            continue
        assert found is not None
        assert found.count == len(sizes)
        assert set(np.flatnonzero(found.has(everything)).tolist()) == set(sizes)
        reported = list(sizes.values())
        assert found.size == min(reported, key=lambda size: (-reported.count(size), size))


def test_images_that_no_node_has_are_dropped() -> None:
    index = images.ImageIndex()
    for round_ in range(3):
        for slot in range(100):
            index.replace(slot, _images([(f"image-{round_}:{slot % 7}", 10)]), 1)
    assert len(index._by_name) == len(index._images) == len(index._lists) == 7
    for slot in range(100):
        index.replace(slot, (), 1)
    assert not any((index._by_name, index._images, index._lists, index._by_slot))


@given(
    st.dictionaries(st.integers(0, 200), st.tuples(st.integers(1, 5), slots), max_size=60), st.sets(st.integers(1, 5))
)
def test_pods_of_some_classes_are_counted_by_slot(placed: dict[int, tuple[int, int]], chosen: set[int]) -> None:
    table = pods.PodTable()
    for row, (class_id, slot) in placed.items():
        table.ensure_capacity(row)
        table.class_index[row] = class_id
        table.slot[row] = slot
    marks: arrays.BoolArray = np.isin(np.arange(6), list(chosen))
    counts = table.count_by_slot(marks, SLOTS)
    assert counts.shape == (SLOTS,)
    for slot in range(SLOTS):
        assert counts[slot] == sum(class_id in chosen and at == slot for class_id, at in placed.values())
    assert table.rows_of(marks).tolist() == sorted(row for row, (number, _) in placed.items() if number in chosen)


def test_resources_are_numbered_as_they_appear() -> None:
    names = resources.ResourceNames()
    first = names.vector({"cpu": 5, "example.com/gpu": 2})
    second = names.vector({"hugepages-2Mi": 3})
    assert first.tolist() == [5, 0, 0, 2]
    assert second.tolist() == [0, 0, 0, 0, 3]
    assert (names.find("example.com/gpu"), names.find("nobody/asks")) == (3, None)


@pytest.mark.parametrize(("needed", "current"), [(1, 0), (65, 64), (1000, 64), (10, 4000)])
def test_arrays_grow_by_a_part_of_their_size_and_keep_what_they_hold(needed: int, current: int) -> None:
    capacity = arrays.grown_capacity(needed, current)
    assert capacity >= max(needed, current + current // 8)
    grown = arrays.grow_last_axis(np.arange(6).reshape(2, 3), 5)
    assert grown.tolist() == [[0, 1, 2, 0, 0], [3, 4, 5, 0, 0]]


def test_pods_that_came_and_went_take_no_memory_of_the_index_by_uid() -> None:
    """Nobody may look for a pod by its UID again for days."""
    table = pods.PodTable()
    table.ensure_capacity(0)
    table.write_names([0], ["first"], ["p"])
    assert table.row_of("first") == 0
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(5_000):
            table.clear_names([0])
            table.write_names([0], [f"uid-{number}"], ["p"])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000, "a bit more than one pod"
    assert (table.row_of("uid-4999"), table.row_of("uid-4998")) == (0, None)
