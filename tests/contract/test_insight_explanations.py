"""The frontend's explanation of a pending pod with insight: what insight says stands beside what the frontend knows."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from tests.contract import serving_frontend as support
from trireme.frontend.phase_clients import insight_replicas
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, snapshot_pb2, status_pb2
from trireme.wire import json_documents

NOT_FOUND = grpc.StatusCode.NOT_FOUND
RESPONSE = insight_pb2.ExplainResponse(
    queued_pod=snapshot_pb2.QueuedPod(pod_class=1),
    evaluated_generation=5,
    node_count=3,
    feasible_count=1,
    refusals=[
        insight_pb2.NodeRefusal(
            status=status_pb2.Status(
                code=status_pb2.CODE_UNSCHEDULABLE,
                plugin="NodeResourcesFit",
                messages=["Insufficient cpu"],
                reasons=[status_pb2.Reason(code="insufficientResource", parameters={"resource": "cpu"})],
            ),
            nodes=["n1", "n2"],
        )
    ],
    feasible_nodes=[insight_pb2.FeasibleNode(name="n3", total=166, scores=[66, 0, 100])],
    score_plugins=[
        insight_pb2.WeightedScorePlugin(name="NodeResourcesFit", weight=1),
        insight_pb2.WeightedScorePlugin(name="NodeAffinity", weight=2, skipped=True),
        insight_pb2.WeightedScorePlugin(name="ImageLocality", weight=1),
    ],
)


DECISION = decision_explanation_pb2.ExplainDecisionResponse(
    node_name="n3",
    kind=decision_explanation_pb2.DECISION_KIND_SCORED,
    generation=5,
    decided_unix_ms=1500,
    profile="default-scheduler",
    not_known=["what the remote plugin Sky answered"],
    node_count=3,
    feasible_count=2,
    refusals=[decision_explanation_pb2.DecisionRefusal(status=RESPONSE.refusals[0].status, node_count=1, nodes=["n1"])],
    score_plugins=[decision_explanation_pb2.DecisionScorePlugin(name="NodeResourcesFit", weight=1)],
    feasible_nodes=[
        decision_explanation_pb2.DecisionNode(name="n3", total=73, scores=[66], extender_score=7),
        decision_explanation_pb2.DecisionNode(name="n2", total=60, scores=[60]),
    ],
    margin=13,
    batch_size=2,
    batch_before=[
        decision_explanation_pb2.BatchPlacement(
            pod=cycle_pb2.PodIdentity(namespace="default", name="before"), node_name="n2"
        )
    ],
    preemption=decision_explanation_pb2.PreemptionExplanation(
        node_name="n3",
        victims=[
            decision_explanation_pb2.PreemptionPod(
                pod=cycle_pb2.PodIdentity(namespace="default", name="low"), priority=1
            )
        ],
        spared=[
            decision_explanation_pb2.PreemptionPod(
                pod=cycle_pb2.PodIdentity(namespace="default", name="high"),
                priority=9,
                reason=decision_explanation_pb2.PREEMPTION_POD_REASON_PRIORITY,
            )
        ],
        candidates=[decision_explanation_pb2.PreemptionNode(name="n3", victims=1, highest_priority=1, priority_sum=1)],
        candidate_count=1,
        decided_unix_ms=1000,
    ),
    steps=[decision_explanation_pb2.DecisionStep(name="Filter", duration_us=2500)],
    longest_step="Filter",
    attempts=2,
)


class Insight:
    """Insight's replicas, which answer what the test says."""

    def __init__(self, answer: insight_pb2.ExplainResponse | Exception) -> None:
        self._answer = answer
        self.requests: list[insight_pb2.ExplainRequest] = []
        self.decisions: list[decision_explanation_pb2.ExplainDecisionRequest] = []

    async def explain_decision(
        self, request: decision_explanation_pb2.ExplainDecisionRequest
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        self.decisions.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return DECISION

    async def explain(self, request: insight_pb2.ExplainRequest) -> insight_pb2.ExplainResponse:
        self.requests.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        # Each call has a message of its own.
        answer = insight_pb2.ExplainResponse()
        answer.CopyFrom(self._answer)
        return answer


async def _explained(folder: Path, insight: Insight | None, query: str, **document: Any) -> tuple[int, Any]:
    """HTTP status, and the report or the text of an error."""
    frontend = support.FakeFrontend()
    frontend.wait(support.pod("waits"))
    frontend.place(support.pod("placed", "n3"))
    frontend.insight = insight
    headers = {"Authorization": f"Bearer {support.TOKENS['admin']}"}
    async with support.served(folder, frontend, document=document) as served, aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{served.port}/trireme/v1/explain?{query}"
        async with session.get(url, headers=headers, ssl=False) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text


async def test_an_explanation_has_insights_evaluation(tmp_path: Path) -> None:
    insight = Insight(RESPONSE)
    code, report = await _explained(tmp_path, insight, "pod=default/waits&nodes=n1,n3")
    assert code == 200
    own = report["scheduler"]
    assert (own["pending"]["place"], own["synced"], own["leadership"]["leading"]) == ("active", True, True)
    found = json_documents.parse(report, insight_pb2.ExplainResponse())
    assert (found.pod.namespace, found.pod.name, found.pod.uid) == ("default", "waits", "uid-waits")
    found.ClearField("scheduler")
    found.ClearField("pod")
    assert found == RESPONSE
    (request,) = insight.requests
    assert (request.pod.namespace, request.pod.name, request.pod.uid) == ("default", "waits", "uid-waits")
    assert (list(request.nodes), request.scores) == (["n1", "n3"], True)


async def test_proposals_come_with_the_evaluation_on_request(tmp_path: Path) -> None:
    """`trireme explain --proposals` has them as `proposals`, each change under the name of its kind."""
    answer = insight_pb2.ExplainResponse(queued_pod=snapshot_pb2.QueuedPod(pod_class=1), node_count=3)
    lower = answer.proposals.add(feasible_count=3, example_nodes=["n1", "n2"]).lower_request
    lower.container, lower.resource, lower.current.string, lower.proposed.string = "main", "cpu", "4", "3500m"
    answer.proposals.add(feasible_count=1).add_node.like_node = "n1"
    answer.proposal_search_limits.add(kind="tolerate_taints", tried=16, candidates=40)
    insight = Insight(answer)
    _, report = await _explained(tmp_path, insight, "pod=default/waits&proposals=true")
    found = json_documents.parse(report, insight_pb2.ExplainResponse())
    assert (found.proposals, found.proposal_search_limits) == (answer.proposals, answer.proposal_search_limits)
    assert report["proposals"][0]["lowerRequest"]["resource"] == "cpu"
    assert insight.requests[0].proposals


async def test_nobody_pays_for_proposals_without_a_request(tmp_path: Path) -> None:
    """They take many simulations."""
    insight = Insight(RESPONSE)
    _, report = await _explained(tmp_path, insight, "pod=default/waits")
    assert report["proposals"] == []
    assert not insight.requests[0].proposals
    code, text = await _explained(tmp_path, None, "pod=default/waits&proposals=true")
    assert code == 400
    assert "insight.endpoints" in text


async def test_what_insight_cannot_evaluate_is_named(tmp_path: Path) -> None:
    """HTTP extenders are called by the frontend alone."""
    extenders = [{"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter"}]
    _, report = await _explained(tmp_path, Insight(RESPONSE), "pod=default/waits", extenders=extenders)
    assert report["notKnown"] == ["what HTTP extenders would refuse: http://127.0.0.1:1/x"]


@pytest.mark.parametrize(
    "error",
    [
        insight_replicas.InsightUnavailable("none is in step"),
        insight_replicas.InsightRefusal(NOT_FOUND, "none is in step"),
    ],
    ids=["unavailable", "refused"],
)
async def test_an_explanation_does_not_depend_on_insight(tmp_path: Path, error: Exception) -> None:
    """Insight is optional: an explanation without it is what it was."""
    code, report = await _explained(tmp_path, Insight(error), "pod=default/waits")
    assert code == 200
    assert (report["insightError"], "queuedPod" in report) == ("none is in step", False)
    assert report["scheduler"]["summary"]


async def test_nodes_that_do_not_exist_are_the_callers_mistake(tmp_path: Path) -> None:
    refusal = insight_replicas.InsightRefusal(grpc.StatusCode.INVALID_ARGUMENT, "nodes: there is no node n9")
    assert await _explained(tmp_path, Insight(refusal), "pod=default/waits&nodes=n9") == (400, f"{refusal}\n")
    code, text = await _explained(tmp_path, None, "pod=default/waits&nodes=n1")
    assert code == 400
    assert "insight.endpoints" in text


async def test_a_pod_that_has_left_the_queue_is_not_evaluated(tmp_path: Path) -> None:
    """Insight may be a moment ahead of what the frontend's page shows."""
    left = insight_pb2.ExplainResponse(node_name="n1", node_count=3)
    code, report = await _explained(tmp_path, Insight(left), "pod=default/waits")
    assert code == 200
    assert "queuedPod" not in report
    assert report["nodeName"] == "n1"


async def test_an_explanation_of_a_bound_pod_has_the_decision(tmp_path: Path) -> None:
    insight = Insight(RESPONSE)
    code, report = await _explained(tmp_path, insight, "pod=default/placed&allNodes=true&nodes=n3")
    assert code == 200
    assert report["scheduler"]["bound"]["nodeName"] == report["nodeName"] == "n3"
    assert json_documents.parse(report, insight_pb2.ExplainResponse()).decision == DECISION
    assert report["decision"]["preemption"]["spared"][0]["reason"] == "PREEMPTION_POD_REASON_PRIORITY"
    (request,) = insight.decisions
    assert (request.pod.name, list(request.nodes), request.max_feasible_nodes) == ("placed", ["n3"], 2**31)


async def test_a_decision_that_insight_does_not_know_is_an_error_in_its_place(tmp_path: Path) -> None:
    """The rest of the explanation is the frontend's own."""
    refusal = insight_replicas.InsightRefusal(NOT_FOUND, "pod: no decision about it is in memory")
    code, report = await _explained(tmp_path, Insight(refusal), "pod=default/placed")
    assert (code, report["insightError"], "decision" in report) == (200, str(refusal), False)
    assert report["scheduler"]["summary"].startswith("is bound to node n3")


async def test_preemption_comes_with_the_evaluation_on_request(tmp_path: Path) -> None:
    """`trireme explain` shows it, and other callers need not wait for dry runs."""
    answer = insight_pb2.ExplainResponse(queued_pod=snapshot_pb2.QueuedPod(pod_class=1), node_count=3)
    answer.preemption.reason, answer.preemption.without_victims_count = "its preemptionPolicy is Never", 2
    insight = Insight(answer)
    _, report = await _explained(tmp_path, insight, "pod=default/waits&preemption=true")
    found = json_documents.parse(report, insight_pb2.ExplainResponse())
    assert found.preemption == answer.preemption
    await _explained(tmp_path, insight, "pod=default/waits")
    assert [request.preemption for request in insight.requests] == [True, False]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 400),
        (grpc.StatusCode.NOT_FOUND, 404),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 504),
    ],
    ids=["invalid", "not found", "too late"],
)
async def test_the_status_of_a_refused_simulation_follows_from_the_code(
    tmp_path: Path, code: grpc.StatusCode, status: int
) -> None:
    """A question that took too long may be asked again; one that names no field of a cluster may not."""

    class Refusing:
        async def simulate(self, request: Any) -> Any:
            raise insight_replicas.InsightRefusal(code, "insight says why")

    frontend = support.FakeFrontend()
    frontend.insight = Refusing()
    headers = {"Authorization": f"Bearer {support.TOKENS['admin']}"}
    async with support.served(tmp_path, frontend) as served, aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{served.port}/trireme/v1/simulate"
        async with session.post(url, json={}, headers=headers, ssl=False) as response:
            assert (response.status, await response.text()) == (status, "insight says why\n")
