"""Filter's answers about recent classes: who may patch one, and which are forgotten."""

import numpy as np
import pytest

from trireme.frontend.phase_clients import class_answers
from trireme.wire import node_columns


def _columns(generation: int, size: int = 1) -> node_columns.NodeColumns:
    index, capacity = np.zeros(size, dtype=np.int16), np.ones(size, dtype=np.int32)
    return node_columns.NodeColumns.complete(generation, (), index, capacity)


def test_only_the_replica_that_gave_an_answer_patches_it_and_only_on_the_same_stream() -> None:
    """Each numbers statuses for itself; a patch by another one names other reasons, or none."""
    answer = class_answers.ClassAnswer()
    assert answer.base_generation_for(("a:1", 1)) == 0
    answer.columns, answer.source = _columns(7), ("a:1", 1)
    assert answer.base_generation_for(("a:1", 1)) == 7
    assert answer.base_generation_for(("a:1", 2)) == 0
    assert answer.base_generation_for(("b:1", 1)) == 0


def test_answers_are_of_one_profile_and_class() -> None:
    answers = class_answers.ClassAnswers()
    kept = answers.get_or_add(("p", 1))
    kept.columns = _columns(7)
    assert answers.get_or_add(("p", 1)) is kept
    assert ("p", 1) in answers
    assert answers.get(("p", 1)) is kept.columns
    assert answers.has(("p", 1), kept.columns)
    assert not answers.has(("p", 1), _columns(7)), "a changed copy"
    for key in (("q", 1), ("p", 2)):
        assert key not in answers
        assert answers.get(key) is None
        assert not answers.has(key, kept.columns)
    answers.clear()
    assert answers.get(("p", 1)) is None


def test_the_answers_used_longest_ago_are_forgotten() -> None:
    answers = class_answers.ClassAnswers(max_classes=3)
    for number in (0, 1, 2, 0, 3):
        answers.get_or_add(("p", number))
    assert [number for number in range(4) if ("p", number) in answers] == [0, 2, 3]


def test_answers_that_take_too_much_memory_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """But never those of a few classes, however large the cluster is."""
    monkeypatch.setattr(class_answers, "MAX_BYTES", 10_000)
    answers = class_answers.ClassAnswers()
    for number in range(64):
        answers.get_or_add(("p", number)).columns = _columns(1, 500)
    left = [number for number in range(64) if ("p", number) in answers]
    assert class_answers.MIN_CLASSES <= len(left) < 24
    assert left == list(range(64))[-len(left) :]


def test_small_answers_are_not_forgotten_for_their_memory() -> None:
    answers = class_answers.ClassAnswers()
    for number in range(64):
        answers.get_or_add(("p", number)).columns = _columns(1, 1)
    assert [number for number in range(64) if ("p", number) in answers] == list(range(64))


def test_the_answers_of_a_few_classes_stay_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_answers, "MAX_BYTES", 1)
    answers = class_answers.ClassAnswers()
    for number in range(64):
        answers.get_or_add(("p", number)).columns = _columns(1, 500)
    assert len([number for number in range(64) if ("p", number) in answers]) >= class_answers.MIN_CLASSES
