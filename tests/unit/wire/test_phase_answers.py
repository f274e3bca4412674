"""Answers of filter and score: what they come to for one pod, and that each field crosses the wire."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from trireme.framework import status
from trireme.v1 import filter_pb2, filter_phase_pb2, score_phase_pb2, status_pb2
from trireme.wire import node_columns, packing, phase_answers
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

FULL = status.unschedulable("Fit", "Too many pods")
BROKEN = status.error("Devices", "no such key")


@pytest.mark.parametrize(
    ("index", "nominated", "refuses"),
    [
        pytest.param((0, 1), -1, False, id="a node is full, another is not"),
        pytest.param((1, 1), -1, True, id="all are full"),
        pytest.param((0, 2), -1, True, id="a plugin fails for one"),
        pytest.param((0, 2), 0, False, id="it fails for another than what was nominated"),
        pytest.param((0, 2), 1, True, id="it fails for what was nominated"),
        pytest.param((0, 0), -1, False, id="it failed for one before"),
    ],
)
def test_a_failure_for_one_node_is_a_refusal_of_all(index: tuple[int, ...], nominated: int, refuses: bool) -> None:
    verdicts = np.array(index, dtype=np.int16)
    capacity = np.where(verdicts == 0, 1, 0).astype(np.int32)
    columns = node_columns.NodeColumns.complete(1, (FULL, BROKEN), verdicts, capacity)
    filtered = FilterAnswer(columns=columns)
    assert filtered.is_refused_everywhere(nominated) is refuses


COLUMNS = node_columns.NodeColumns.complete(
    7, (FULL,), np.array([0, 1], dtype=np.int16), np.array([3, 0], dtype=np.int32)
)
TIMING = filter_phase_pb2.Timing(plugin="Fit", extension_point="Filter", code=status_pb2.CODE_SUCCESS, duration_us=5)
CONSTRAINT = filter_phase_pb2.DomainConstraint(domain=[0, -1], count=[2], placement_adds=1)

FILTERED = FilterAnswer(
    columns=COLUMNS,
    narrowed=frozenset({"n0", "n1"}),
    narrowed_by=frozenset({"NodeAffinity"}),
    nodes_left=(("NodeAffinity", 2),),
    constraints=[CONSTRAINT],
    max_batch=3,
    needs_reserve=True,
    needs_pre_bind=True,
    evaluated=["Fit"],
    timings=[TIMING],
    post_filter_results=[filter_phase_pb2.PostFilterResult(duration_us=9)],
    demand={"cpu": 100},
    update=node_columns.to_message(COLUMNS),
)
IN_TURN = FilterAnswer(
    columns=node_columns.NodeColumns(7, size=2),
    demand={"cpu": 100},
    admitted_nodes=packing.to_bits(np.array([True, False])),
    update=filter_pb2.NodeColumns(generation=7, size=2),
)
REFUSED = FilterAnswer(refusal=FULL, evaluated=["Fit"], update=filter_pb2.NodeColumns())
NOMINATED = FilterAnswer(
    columns=node_columns.NodeColumns(7),
    needs_reserve=True,
    needs_pre_bind=True,
    evaluated=["Fit"],
    timings=[TIMING],
    admitted=2,
)
PLACED = PlaceAnswer(
    slots=(1, 0), totals=[9, 8], more=True, evaluated=["Fit"], timings=[TIMING], remote_answers=b"\x08\x01"
)
FAILED = PlaceAnswer(failure=BROKEN, remote_answers=b"\x08\x01")


def _assert_equal(found: Any, expected: Any) -> None:
    """Compare two records field by field, sequences by their entries."""
    for field in dataclasses.fields(expected):
        before, after = getattr(expected, field.name), getattr(found, field.name)
        if isinstance(before, node_columns.NodeColumns):
            _assert_equal(after, before)
        elif isinstance(before, list | tuple | np.ndarray):
            assert list(after) == list(before), field.name
        else:
            assert after == before, field.name


@pytest.mark.parametrize("answer", [FILTERED, IN_TURN, REFUSED], ids=["some-pass", "in-turn", "refused"])
def test_each_field_of_filters_answer_crosses_the_wire(answer: FilterAnswer) -> None:
    """A field that one conversion lacks would have its default in one process."""
    sent = phase_answers.filter_response(answer).SerializeToString()
    response = filter_phase_pb2.FilterPhaseFilterResponse.FromString(sent)
    _assert_equal(phase_answers.filter_answer(response, node_columns.NodeColumns()), answer)


@pytest.mark.parametrize("answer", [PLACED, FAILED], ids=["placed", "failed"])
def test_each_field_of_places_answer_crosses_the_wire(answer: PlaceAnswer) -> None:
    sent = phase_answers.place_response(answer).SerializeToString()
    _assert_equal(phase_answers.place_answer(score_phase_pb2.PlaceResponse.FromString(sent)), answer)


def test_each_field_of_the_answer_about_nominated_pods_crosses_the_wire() -> None:
    sent = phase_answers.nominated_response(NOMINATED).SerializeToString()
    response = filter_phase_pb2.FilterNominatedResponse.FromString(sent)
    _assert_equal(phase_answers.nominated_answer(response, 7), NOMINATED)


@pytest.mark.parametrize(
    "samples", [(FILTERED, IN_TURN, REFUSED, NOMINATED), (PLACED, FAILED)], ids=["filter", "place"]
)
def test_a_sample_has_each_field(samples: tuple[Any, ...]) -> None:
    """A new field would be compared by its default: give it a value in a sample above."""
    names = {field.name for sample in samples for field in dataclasses.fields(sample)}
    assert names - {name for name in names for sample in samples if getattr(sample, name)} == set()
