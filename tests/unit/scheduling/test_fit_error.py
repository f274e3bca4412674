"""The text of a pod that fits nowhere, as it stands in its event and condition."""

import numpy as np
import pytest

from trireme.framework import status
from trireme.scheduling import fit_error

TAINT = status.unresolvable("TaintToleration", "node(s) had untolerated taint(s)")
CPU = status.unschedulable("NodeResourcesFit", "Insufficient cpu")
BOTH = status.unschedulable("NodeResourcesFit", "Insufficient cpu", "Too many pods")


@pytest.mark.parametrize(
    ("refusals", "post_filter", "text"),
    [
        pytest.param(
            [(TAINT, 1), (CPU, 2)],
            "",
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="sorted",
        ),
        pytest.param(
            [(CPU, 2), (TAINT, 10)],
            "",
            "0/3 nodes are available: 10 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            id="sorted-as-text",
        ),
        pytest.param(
            [(CPU, 1), (BOTH, 2)],
            "",
            "0/3 nodes are available: 2 Too many pods, 3 Insufficient cpu.",
            id="each-reason-counted",
        ),
        pytest.param(
            [(CPU, 3)],
            "preemption: not eligible due to preemptionPolicy=Never.",
            "0/3 nodes are available: 3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
            id="with-what-preemption-said",
        ),
        pytest.param([], "", "0/3 nodes are available:", id="no-reasons"),
        pytest.param([(status.unschedulable("P"), 3)], "", "0/3 nodes are available:", id="refusal-without-a-text"),
    ],
)
def test_reasons_are_counted_over_nodes(refusals: list[tuple[status.Status, int]], post_filter: str, text: str) -> None:
    assert fit_error.message(3, None, refusals, post_filter) == text


def test_the_refusal_of_the_pod_as_such_stands_for_all_nodes() -> None:
    refusal = status.unresolvable("VolumeBinding", 'persistentvolumeclaim "x" not found', "and more")
    text = '0/7 nodes are available: persistentvolumeclaim "x" not found, and more. not found'
    assert fit_error.message(7, refusal, [], "not found") == text


def test_a_refusal_of_the_pod_without_a_text_leaves_no_stray_punctuation() -> None:
    assert fit_error.message(7, status.unresolvable("P"), [], "") == "0/7 nodes are available:"


def test_statuses_are_counted_by_their_index() -> None:
    index = np.array([0, 2, 2, 0, 1, 2], dtype=np.int16)
    assert fit_error.nodes_by_status([TAINT, CPU, BOTH], index) == [(TAINT, 1), (CPU, 3)]
    assert fit_error.nodes_by_status([], np.zeros(3, dtype=np.int16)) == []
