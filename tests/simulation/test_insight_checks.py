"""An explanation of a pod that waits is wrong if a node takes the pod, or if its numbers do not add up."""

from __future__ import annotations

import pytest

from tests.simulation.insight_checks import wrong_texts
from trireme.v1 import insight_pb2


def _answer(free: str = "1", used: str = "3", more_users: int = 0, feasible: str = "") -> insight_pb2.ExplainResponse:
    """A node with 4 CPUs refuses a pod that requests 2."""
    answer = insight_pb2.ExplainResponse()
    shortage = answer.refusals.add().shortages.add(resource="cpu", node_name="node-1", more_users=more_users)
    shortage.requested.string, shortage.free.string, shortage.allocatable.string = "2", free, "4"
    shortage.users.add().used.string = used
    if feasible:
        answer.feasible_nodes.add(name=feasible)
    return answer


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (_answer(), []),
        (_answer(used="1", more_users=2), []),
        (_answer(free="1500m", used="2500m"), []),
        (_answer(used="2"), ["cpu of node-1 is free and used, which is not all of it"]),
        (_answer(free="2", used="2"), ["cpu is short on node-1, where 2 is free"]),
        (_answer(feasible="node-2"), ["node-2 is feasible"]),
        (insight_pb2.ExplainResponse(node_name="node-3"), ["it is on node-3"]),
    ],
)
def test_a_wrong_explanation_is_found(answer: insight_pb2.ExplainResponse, found: list[str]) -> None:
    """If this fails, users look for the cause in the wrong place."""
    assert wrong_texts(answer) == found
