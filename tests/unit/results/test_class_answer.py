"""What filter's answer about a class comes to for one pod: it has somewhere to go, or it has not."""

import numpy as np
import pytest

from trireme.framework import status
from trireme.results import class_answer
from trireme.results.phase_results import FilterResult

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
    answer = class_answer.ClassAnswer(1, None, (FULL, BROKEN), verdicts, capacity)
    filtered = FilterResult(
        answer=answer,
        columns=answer.to_message(),
        refusal=None,
        constraints=(),
        max_batch=0,
        needs_reserve=False,
        needs_pre_bind=False,
        evaluated=(),
    )
    assert filtered.is_refused_everywhere(nominated) is refuses
