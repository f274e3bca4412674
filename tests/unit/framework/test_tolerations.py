"""Tolerations that compare numbers (gate TaintTolerationComparisonOperators)."""

import pytest

from trireme.framework import tolerations
from trireme.v1 import core_pb2


@pytest.mark.parametrize(
    ("operator", "bound", "value", "tolerated"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "0", "-7", True),
        ("Gt", "-8", "-7", True),
        pytest.param("Gt", "5", "007", False, id="leading-zeros"),
        pytest.param("Gt", "+5", "7", False, id="plus-sign"),
        pytest.param("Lt", "5", "-0", False, id="minus-zero"),
        pytest.param("Gt", "5", "", False, id="no-value"),
        pytest.param("Gt", "", "7", False, id="no-bound"),
        pytest.param("Gt", "5", "7.5", False, id="no-integer"),
        pytest.param("Gt", "5", "9223372036854775807", True, id="largest"),
        pytest.param("Gt", "5", "9223372036854775808", False, id="more-than-64-bits"),
        pytest.param("Lt", "5", "\u0664", False, id="digits-of-another-script"),
    ],
)
def test_values_are_compared_as_integers(operator: str, bound: str, value: str, tolerated: bool) -> None:
    own = core_pb2.Toleration(key="k", operator=operator, value=bound, effect="NoSchedule")
    taint = ("k", value, "NoSchedule")
    assert tolerations.tolerates(own, taint, comparing=True) == tolerated
    assert not tolerations.tolerates(own, taint, comparing=False)
    assert not tolerations.tolerates(own, ("other", value, "NoSchedule"), comparing=True)
    assert not tolerations.tolerates(own, ("k", value, "NoExecute"), comparing=True)
