"""InsightService: what it explains, and what it refuses to."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.helpers import console_states, phase_calls
from tests.helpers.phase_calls import PROFILE, Aborted, configuration, context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import service
from trireme.rpc import stream_age
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, insight_pb2, scheduler_status_pb2, snapshot_pb2, status_pb2

FILTERS = ("TaintToleration", "NodeResourcesFit")
SCORES = (("NodeResourcesFit", 1), ("TaintToleration", 3))
SMALL, LARGE, DIVIDED = 1, 2, 3


class Insight:
    """A replica that knows five nodes, the queue, and a pod on n0."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        for name, cpu in (("n0", "4"), ("n1", "2"), ("n2", "3"), ("n3", "3")):
            self.builder.set_node(name, allocatable={"cpu": cpu, "pods": "9"})
        self.builder.set_node("n4", allocatable={"cpu": "9", "pods": "9"}, taints=[("dedicated", "db", "NoSchedule")])
        self.builder.add_class(SMALL, pod_of(requesting(cpu="1")))
        self.builder.add_class(LARGE, pod_of(requesting(cpu="5")))
        self.builder.place(SMALL, "n0")
        self.service = service.InsightService(self.builder.snap)

    async def start(self, filters: tuple[str, ...] = FILTERS) -> "Insight":
        """A frontend brings the configuration, with these filter plugins, and the queue."""
        await phase_calls.greet(self.service, configuration(filters, SCORES))
        self.queue(queued("small", SMALL), queued("large", LARGE), reset=True)
        return self

    def queue(self, *pods: snapshot_pb2.QueuedPod, reset: bool = False) -> None:
        self.service._cluster.apply_queue(snapshot_pb2.QueueDelta(reset=reset, pods=pods))

    async def explain(self, name: str, **fields: object) -> insight_pb2.ExplainResponse:
        pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=str(fields.pop("uid", "")))
        return await self.service.Explain(insight_pb2.ExplainRequest(pod=pod, **fields), context())

    async def refusal(self, name: str, **fields: object) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(Aborted) as caught:
            await self.explain(name, **fields)
        return caught.value.code, str(caught.value)


def queued(name: str, number: int) -> snapshot_pb2.QueuedPod:
    pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=f"uid-of-{name}")
    return snapshot_pb2.QueuedPod(
        pod=pod, pod_class=number, profile=PROFILE, state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    )


async def test_nodes_with_one_status_stand_together_the_most_first() -> None:
    insight = await Insight().start()
    response = await insight.explain("large")
    assert [list(refusal.nodes) for refusal in response.refusals] == [["n0", "n1", "n2", "n3"], ["n4"]]
    assert [refusal.status.plugin for refusal in response.refusals] == ["NodeResourcesFit", "TaintToleration"]
    assert response.refusals[0].status.code == status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
    assert list(response.refusals[0].status.messages) == ["Insufficient cpu"]
    assert response.refusals[0].status.reasons[0].parameters["resource"] == "cpu"
    assert (response.node_count, response.feasible_count) == (5, 0)
    assert response.queued_pod.pod.uid == "uid-of-large"
    assert response.evaluated_generation == insight.builder.snap.generation


async def test_feasible_nodes_come_with_every_plugins_score_best_first() -> None:
    insight = await Insight().start()
    response = await insight.explain("small", scores=True)
    assert [(plugin.name, plugin.weight, plugin.skipped) for plugin in response.score_plugins] == [
        ("NodeResourcesFit", 1, False),
        ("TaintToleration", 3, False),
    ]
    totals = {node.name: (node.total, list(node.scores)) for node in response.feasible_nodes}
    assert totals["n0"] == (50 + 300, [50, 100])
    assert totals["n1"] == (50 + 300, [50, 100])
    assert totals["n2"] == totals["n3"]
    assert totals["n2"][0] > 350
    ordered = [node.total for node in response.feasible_nodes]
    assert ordered == sorted(ordered, reverse=True)
    assert response.feasible_count == 4


async def test_proposals_are_answered_on_request_alone() -> None:
    """They take many simulations; and a pod that fits somewhere needs none."""
    insight = await Insight().start()
    assert not (await insight.explain("large")).proposals
    assert not (await insight.explain("small", proposals=True)).proposals
    response = await insight.explain("large", proposals=True)
    kinds = {proposal.WhichOneof("change"): proposal for proposal in response.proposals}
    assert list(kinds) == ["lower_request", "tolerate_taints"]
    assert kinds["lower_request"].lower_request.proposed.string == "3"
    assert list(kinds["tolerate_taints"].example_nodes) == ["n4"]
    assert not response.proposal_search_limits


async def test_plugins_that_leave_no_node_in_common_are_named_with_how_many_each_left() -> None:
    """A name that no node has does not count: it may be why."""
    insight = await Insight().start(("NodeName", "NodeAffinity"))
    names = [{"key": "metadata.name", "operator": "In", "values": ["n0", "n1", "gone"]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": names}]}}
    spec = {"affinity": {"nodeAffinity": required}, "nodeName": "n4"}
    insight.builder.add_class(DIVIDED, pod_of(spec))
    insight.queue(queued("divided", DIVIDED))
    response = await insight.explain("divided")
    assert list(response.pre_filter.messages) == [
        "node(s) didn't satisfy plugin(s) [NodeName NodeAffinity] simultaneously",
        "NodeAffinity left 2 of 5 nodes",
        "NodeName left 1 of 5 nodes",
    ]


async def test_only_the_nodes_of_the_request_are_named() -> None:
    insight = await Insight().start()
    whole = await insight.explain("small", scores=True)
    some = await insight.explain("small", scores=True, nodes=["n1", "n4"])
    assert [node.name for node in some.feasible_nodes] == ["n1"]
    assert some.feasible_nodes[0] == next(node for node in whole.feasible_nodes if node.name == "n1")
    assert [list(refusal.nodes) for refusal in some.refusals] == [["n4"]]
    assert some.feasible_count == 4
    (large,) = (await insight.explain("large", nodes=["n1"])).refusals
    assert (list(large.nodes), large.node_count) == (["n1"], 4)


async def test_a_pod_with_a_node_is_named_with_it() -> None:
    insight = await Insight().start()
    response = await insight.explain("pod-0", scores=True)
    assert response.node_name == "n0"
    assert not response.HasField("queued_pod")
    assert not response.feasible_nodes


async def test_a_pod_that_was_just_placed_is_not_evaluated_beside_itself() -> None:
    """The queue's changes are sent a moment after the placement: else its own requests count against it."""
    insight = await Insight().start()
    in_flight = queued("pod-0", SMALL)
    in_flight.state = snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT
    insight.queue(in_flight)
    response = await insight.explain("pod-0")
    assert response.node_name == "n0"
    assert not response.HasField("queued_pod")


@pytest.mark.parametrize(
    ("name", "fields", "code", "text"),
    [
        ("gone", {}, grpc.StatusCode.NOT_FOUND, "pod: default/gone is neither in the queue nor on a node"),
        ("small", {"uid": "another"}, grpc.StatusCode.NOT_FOUND, "default/small with UID another"),
        ("small", {"nodes": ["n1", "n9"]}, grpc.StatusCode.INVALID_ARGUMENT, "nodes: there is no node n9"),
        ("", {}, grpc.StatusCode.INVALID_ARGUMENT, "pod.name: must be given"),
    ],
)
async def test_a_wrong_request_is_refused_with_the_field(
    name: str, fields: dict[str, object], code: grpc.StatusCode, text: str
) -> None:
    found, message = await (await Insight().start()).refusal(name, **fields)
    assert found is code
    assert text in message


async def test_without_a_frontend_nothing_is_explained() -> None:
    insight = Insight()
    insight.builder.snap.apply(snapshot_pb2.Delta(reset=True, partial=True, to_generation=1))
    code, text = await insight.refusal("small")
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "has sent this replica" in text


async def test_a_class_that_has_not_arrived_is_asked_about_again() -> None:
    """The queue is sent beside the cluster, and may be a moment ahead of it."""
    insight = await Insight().start()
    insight.queue(queued("early", 9))
    code, text = await insight.refusal("early")
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "class 9" in text


async def test_a_pod_whose_fields_cannot_be_read_is_not_evaluated() -> None:
    """It has no class; the reason is what is wrong with it."""
    insight = await Insight().start()
    bad = queued("bad", 0)
    bad.reason = "spec.containers[0].resources.requests: bad quantity"
    insight.queue(bad)
    response = await insight.explain("bad")
    assert response.queued_pod.reason == bad.reason
    assert (response.node_count, response.feasible_count, len(response.refusals)) == (5, 0, 0)


async def test_an_answer_says_how_long_the_stream_has_been_broken() -> None:
    insight = await Insight().start()
    seconds = [100.0]
    insight.service.follow.age = stream_age.StreamAge(lambda: seconds[0])
    insight.service.follow.age.end()
    seconds[0] += 60
    assert (await insight.explain("small")).disconnected_ms == 60_000


async def test_an_answer_says_how_old_the_state_is_while_a_frontend_is_frozen() -> None:
    """A frontend that hangs is noticed by the age of its messages, not by gRPC's keepalive a minute later."""
    insight = await Insight().start()
    seconds, shown = [100.0], []
    insight.service.follow.age = stream_age.StreamAge(lambda: seconds[0])

    async def after(silence: float) -> None:
        seconds[0] += silence
        shown.append((await insight.explain("small")).disconnected_ms)

    async def stream() -> AsyncIterator[snapshot_pb2.SyncRequest]:
        hello = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=1), config_hash=phase_calls.HASH)
        yield snapshot_pb2.SyncRequest(hello=hello)
        yield snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta())
        # A frontend of an earlier release sends no status: it may have nothing to say.
        await after(30)
        status = scheduler_status_pb2.SchedulerStatus()
        yield snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(scheduler_status=status))
        await after(stream_age.SILENT_SECONDS)
        await after(1)

    await insight.service.follow.Sync(stream(), context())
    # It is as old when the connection is found broken at last.
    await after(60)
    assert shown == [0, 0, 6_000, 66_000]


async def test_a_snapshot_that_is_replaced_again_and_again_is_asked_about_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each new leader sends everything anew; a call that meets that ends by a code that says to ask again."""
    insight = await Insight().start()

    async def replaced(cycle: cycle_pb2.Cycle) -> None:
        raise snapshot.OutOfStepError("the snapshot was replaced meanwhile")

    monkeypatch.setattr(insight.service._engine.filter, "filter", replaced)
    code, text = await insight.refusal("small")
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "ask again" in text


async def test_of_the_frontends_own_state_preemptions_and_missed_wake_ups_are_left_for_the_recording() -> None:
    """A recording would have none of them, or as much of replicas and latencies each second as of all else."""
    insight = await Insight().start()
    preemptions, missed = [console_states.preemption(1)], [console_states.missed_wake_up(1)]
    recorded: tuple[dict[str, Any], ...] = ({}, {"preemptions": preemptions}, {"missed_wake_ups": missed})
    for records in recorded:
        delta = snapshot_pb2.QueueDelta(scheduler_status=console_states.status(1, bound=5, **records))
        insight.service.take_queue(delta)
        left = snapshot_pb2.QueueDelta()
        if records:
            left.scheduler_status.MergeFrom(scheduler_status_pb2.SchedulerStatus(**records))
        assert delta == left
    assert insight.service.console.history.preemptions() == [console_states.preemption(1)]
    status = insight.service.console.history.status
    assert status is not None
    assert status.bound_total == 5
