"""ExplainDecision: by which decision a pod got its node, on the cluster as it was then."""

import dataclasses
from typing import Any

import grpc
import pytest

from tests.helpers.phase_calls import PROFILE, Aborted
from tests.helpers.recorded_decisions import IMPORTANT, LARGE, SMALL, RecordedCluster, add_remote, with_decision_changed
from tests.helpers.remembering_insight import RememberingInsight
from trireme.framework import status
from trireme.insight.history import cluster_history
from trireme.recording import full_state
from trireme.v1 import core_pb2, cycle_pb2, decision_explanation_pb2, decision_pb2, snapshot_pb2

Response = decision_explanation_pb2.ExplainDecisionResponse


async def refusal(insight: RememberingInsight, name: str, **fields: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(Aborted) as caught:
        await insight.decision(name, **fields)
    return caught.value.code, str(caught.value)


def steps(response: Response) -> dict[str, int]:
    return {step.name: step.duration_us for step in response.steps}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
async def test_each_decision_comes_out_again_on_the_cluster_of_its_time(seed: int) -> None:
    """An explanation on another state, or without the pods of the batch before, names another node as the best."""
    cluster = await RecordedCluster(6).open()
    insight, explained, kinds = RememberingInsight(cluster), 0, set()
    for _ in range(12):
        await cluster.schedule_at_random(10, seed)
        insight.follow()
        for row in cluster.placed:
            response = await insight.decision(f"pod-{row}")
            assert not response.differs
            explained += 1
            kinds.add(response.kind)
            if response.kind == decision_explanation_pb2.DECISION_KIND_SCORED:
                assert response.feasible_nodes[0].name == response.node_name
                totals = [node.total for node in response.feasible_nodes]
                assert response.margin == totals[0] - totals[1]
                assert (response.tied_count > 0) == (response.margin == 0)
    assert explained > 40
    assert kinds == {decision_explanation_pb2.DECISION_KIND_SCORED, decision_explanation_pb2.DECISION_KIND_ONLY_NODE}


async def test_pods_of_the_batch_before_are_named_and_count() -> None:
    """The second pod of a batch finds the first one's node fuller than the cluster of that generation has it."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 3)
    insight = RememberingInsight(cluster).follow()
    first, last = await insight.decision("pod-0"), await insight.decision("pod-2")
    assert first.generation == last.generation
    assert [each.pod.name for each in first.batch_before] == []
    assert [each.pod.name for each in last.batch_before] == ["pod-0", "pod-1"]
    assert {each.node_name for each in last.batch_before} == {"n0", "n1"}
    assert last.batch_size == 3
    assert last.feasible_nodes[0].total < first.feasible_nodes[0].total
    assert {node.name: list(node.scores) for node in first.feasible_nodes} == {"n0": [75, 100], "n1": [75, 100]}
    assert [(plugin.name, plugin.weight) for plugin in first.score_plugins] == [
        ("NodeResourcesFit", 1),
        ("TaintToleration", 3),
    ]


async def test_pods_of_other_classes_that_the_same_call_placed_before_count() -> None:
    """The cluster of the decision's generation is without them."""
    cluster = await RecordedCluster(3).open()
    assert await cluster.schedule_in_turn((LARGE, 2), (SMALL, 1)) == 2
    insight = RememberingInsight(cluster).follow()
    large, small = await insight.decision("pod-1"), await insight.decision("pod-2")
    assert large.generation == small.generation
    assert not small.differs
    assert small.feasible_nodes[0].name == small.node_name
    assert {node.name: node.scores[0] for node in small.feasible_nodes}[large.node_name] < small.feasible_nodes[
        0
    ].scores[0]


async def test_what_happened_since_changes_nothing() -> None:
    """`trireme explain` would show the cluster of now, where the node may be full of later pods."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 1)
    insight = RememberingInsight(cluster).follow()
    before = await insight.decision("pod-0")
    await cluster.schedule(LARGE, 2)
    cluster.builder.set_node("n9", allocatable={"cpu": "64", "pods": "9"})
    cluster.builder.remove_node("n1" if before.node_name != "n1" else "n2")
    insight.follow()
    after = await insight.decision("pod-0")
    assert after == before
    assert (after.node_count, after.feasible_count) == (3, 3)


async def test_a_node_that_refused_is_named_with_its_reason() -> None:
    """Half of the question is why the pod is not elsewhere."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 2)
    await cluster.schedule(LARGE, 1)
    insight = RememberingInsight(cluster).follow()
    last = await insight.decision("pod-2")
    full = sorted([(await insight.decision(name)).node_name for name in ("pod-0", "pod-1")])
    (refused,) = last.refusals
    assert (refused.status.plugin, list(refused.status.messages)) == ("NodeResourcesFit", ["Insufficient cpu"])
    assert (refused.node_count, sorted(refused.nodes)) == (2, full)
    assert last.kind == decision_explanation_pb2.DECISION_KIND_ONLY_NODE
    assert list((await insight.decision("pod-2", nodes=full[:1])).refusals[0].nodes) == full[:1]
    assert await refusal(insight, "pod-2", nodes=["n7"]) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "nodes: there was no node n7",
    )


async def test_nodes_and_scores_of_extenders_are_those_that_were_recorded() -> None:
    """Only the frontend calls them, and they would say something else now."""
    cluster = await RecordedCluster(4).open()
    filtered = await cluster.filter(SMALL)
    columns = dataclasses.replace(
        filtered.columns, statuses=(status.unschedulable("extender", "no"),), index=filtered.columns.index.copy()
    )
    columns.index[0] = 1
    fewer = dataclasses.replace(filtered, columns=columns, update=None)
    extra = [0, 0, 0, 7]
    placed = await cluster.evaluators.place(PROFILE, SMALL, 1, fewer, extra)
    assert placed.slots == (3,)
    cluster.builder.place(SMALL, "n3")
    response = await RememberingInsight(cluster).follow().decision("pod-0")
    assert not response.differs
    assert (response.feasible_count, response.margin) == (3, 7)
    assert [each.status.plugin for each in response.refusals] == ["extender"]
    assert list(response.refusals[0].nodes) == ["n0"]
    assert response.feasible_nodes[0].extender_score == 7


async def decide(cluster: RecordedCluster, uid: str) -> tuple[int, int]:
    """Place a pod, which is named; the slot and the generation."""
    generation, filtered = cluster.generation, await cluster.filter(SMALL)
    (slot,) = (await cluster.place(SMALL, 1, filtered)).slots
    cluster.log.add_placed((PROFILE, SMALL), generation, [(uid, slot)])
    return slot, generation


def arrives(cluster: RecordedCluster, uid: str, slot: int, number: int) -> None:
    """The delta that brings the pod, by now of this class."""
    columns = snapshot_pb2.PodColumns(
        row=[90], pod_class=[number], slot=[slot], uid=[uid], name=[uid], start_time_s=[0], flags=[0]
    )
    cluster.builder.apply(pods=columns)


async def test_a_pod_that_is_of_another_class_once_it_is_bound_has_its_decision() -> None:
    """A kubelet reports resources, a controller sets a label, while a delta is collected: such pods were not found."""
    cluster = await RecordedCluster(3).open()
    slot, generation = await decide(cluster, "u1")
    arrives(cluster, "u1", slot, LARGE)
    response = await RememberingInsight(cluster).follow().decision("u1")
    assert (response.node_name, response.generation) == (f"n{slot}", generation)
    assert not response.differs


async def test_a_pod_that_is_bound_elsewhere_than_it_was_placed_has_no_decision() -> None:
    """Reserve refused it, and another scheduler bound it: that node was not chosen here."""
    cluster = await RecordedCluster(3).open()
    slot, _ = await decide(cluster, "u1")
    arrives(cluster, "u1", (slot + 1) % 3, SMALL)
    code, text = await refusal(RememberingInsight(cluster).follow(), "u1")
    assert code is grpc.StatusCode.NOT_FOUND
    assert "no decision about it is in memory" in text


@pytest.mark.parametrize("leader", [pytest.param("a", id="the same leader"), pytest.param("b", id="another leader")])
async def test_a_pod_that_arrives_behind_a_new_configuration_has_its_decision(leader: str) -> None:
    """It was placed before a reload. Another leader numbers classes anew: there nothing may be found by them."""
    cluster = await RecordedCluster(3).open()
    insight = RememberingInsight(cluster)
    first = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=1, scheduler_id="a"))
    insight.service.take(snapshot_pb2.SyncRequest(hello=first))
    generation, filtered = cluster.generation, await cluster.filter(SMALL)
    (slot,) = (await cluster.place(SMALL, 1, filtered)).slots
    frames = cluster.frames()
    insight.follow(frames)
    again = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=1, scheduler_id=leader))
    insight.service.take(snapshot_pb2.SyncRequest(hello=again))
    for each in full_state.full_sync(cluster.builder.snap):
        insight.service.cluster.apply(each)
        insight.service.take(snapshot_pb2.SyncRequest(delta=each))
    cluster.log.add_placed((PROFILE, SMALL), generation, [("u1", slot)])
    arrives(cluster, "u1", slot, SMALL)
    insight.follow()
    if leader == "a":
        response = await insight.decision("u1")
        assert (response.node_name, response.generation, response.differs) == (f"n{slot}", generation, False)
    else:
        assert (await refusal(insight, "u1"))[0] is grpc.StatusCode.NOT_FOUND


async def test_a_pod_that_was_nominated_has_its_node_for_that() -> None:
    """Nothing was scored, and its preemption is the reason."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(LARGE, 2)
    await cluster.schedule(IMPORTANT, 1)
    (decided,) = (each for each in cluster.decisions() if each.WhichOneof("decision") == "post_filter")
    (result,) = decided.post_filter.results
    uid, node = decided.post_filter.preemptors[0].pod.uid, result.answer.nominated_node
    victim = result.answer.actions[0].pod
    slot = cluster.builder.snap.nodes.slot_of_name[node]
    cluster.builder.remove(next(row for row in cluster.placed if cluster.builder.snap.pods.uids[row] == victim.uid))
    nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=uid), pod_class=IMPORTANT, slot=slot)
    cluster.builder.apply(nominations=[nomination])
    pod = core_pb2.Pod()
    pod.metadata.namespace, pod.metadata.name, pod.metadata.uid = "default", uid, uid
    found = await cluster.evaluators.filter_nominated(PROFILE, IMPORTANT, cluster.generation, [pod], [slot])
    assert found.admitted == 1
    columns = snapshot_pb2.PodColumns(
        row=[90], pod_class=[IMPORTANT], slot=[slot], uid=[uid], name=[uid], start_time_s=[0], flags=[0]
    )
    cluster.builder.apply(pods=columns)
    response = await RememberingInsight(cluster).follow().decision(uid)
    assert (response.node_name, response.kind) == (node, decision_explanation_pb2.DECISION_KIND_NOMINATED)
    assert not response.differs
    assert not response.score_plugins
    assert response.preemption.node_name == node
    assert [each.pod.uid for each in response.preemption.victims] == [victim.uid]
    assert response.preemption.candidate_count == 2


@pytest.mark.parametrize(
    ("held_back", "longest"),
    [
        pytest.param({"held_back_us": [60_000_000]}, ("HeldBack", 60_000_000), id="by a plugin before the queue"),
        pytest.param({}, ("PreBind", 7000), id="not known, of an older frontend"),
    ],
)
async def test_a_wait_before_the_queue_is_a_step(held_back: dict[str, Any], longest: tuple[str, int]) -> None:
    """A minute of waiting for a plugin would be in no step, and another one be named as the longest."""
    cluster = await RecordedCluster(2).open()
    filtered = await cluster.filter(SMALL)
    await cluster.place(SMALL, 1, filtered)
    cluster.builder.place(SMALL, "n0")
    bound = decision_pb2.BoundPods(
        uid=["uid-0"],
        attempts=[1],
        queue_us=[50],
        attempt_us=[9000],
        permit_us=[0],
        pre_bind_us=[7000],
        bind_us=[900],
        **held_back,
    )
    frames = cluster.frames()
    frames[-1].message.decisions.append(decision_pb2.Decision(number=9, bound=bound).SerializeToString())
    frames = with_decision_changed(frames, 1, duration_us=300)
    frames = with_decision_changed(frames, 2, duration_us=200)
    response = await RememberingInsight(cluster).follow(frames).decision("pod-0")
    assert (response.longest_step, steps(response)[response.longest_step]) == longest
    assert ("HeldBack" in steps(response)) == bool(held_back)


async def test_how_long_each_step_took_comes_from_the_frontend() -> None:
    """Insight has no clock of the scheduler."""
    cluster = await RecordedCluster(2).open()
    filtered = await cluster.filter(SMALL)
    await cluster.place(SMALL, 1, filtered)
    cluster.builder.place(SMALL, "n0")
    bound = decision_pb2.BoundPods(
        uid=["uid-0"], attempts=[2], queue_us=[50], attempt_us=[9000], permit_us=[0], pre_bind_us=[7000], bind_us=[900]
    )
    frames = cluster.frames()
    frames[-1].message.decisions.append(decision_pb2.Decision(number=9, bound=bound).SerializeToString())
    frames = with_decision_changed(frames, 1, duration_us=300)
    frames = with_decision_changed(frames, 2, duration_us=200)
    response = await RememberingInsight(cluster).follow(frames).decision("pod-0")
    times = {"Queue": 50, "Filter": 300, "Place": 200, "Permit": 0, "PreBind": 7000, "Bind": 900}
    assert steps(response) == times
    assert (response.longest_step, response.attempts) == ("PreBind", 2)
    assert not response.not_known


async def test_what_is_not_in_memory_is_said_so() -> None:
    """A pod of another scheduler, or from before insight began, would get an explanation that somebody made up."""
    cluster = await RecordedCluster(2).open()
    cluster.builder.place(SMALL, "n1")
    insight = RememberingInsight(cluster).follow()
    code, text = await refusal(insight, "pod-0")
    assert code == grpc.StatusCode.NOT_FOUND
    assert "no decision about it is in memory" in text
    assert (await refusal(insight, "nobody"))[1] == "pod: default/nobody is on no node"
    assert (await refusal(insight, ""))[0] == grpc.StatusCode.INVALID_ARGUMENT


async def test_answers_of_remote_plugins_are_named_as_missing() -> None:
    """They did not come with the decision, and a plugin that is called about the past answers about now."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    insight = RememberingInsight(cluster)
    other = snapshot_pb2.Configuration()
    other.CopyFrom(cluster.configuration)
    add_remote(other, snapshot_pb2.RemotePlugin(name="Remote"))
    insight.service._memory.configure(other)
    response = await insight.follow().decision("pod-0")
    assert response.not_known[:2] == [
        "what the remote plugin Remote answered at Filter",
        "what the remote plugin Remote answered at Score",
    ]
    assert response.feasible_at_most
    assert not response.differs


async def test_a_decision_on_an_older_generation_than_was_published_is_marked() -> None:
    """A replica may have answered from either."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    frames = with_decision_changed(cluster.frames(), 2, inexact=True)
    assert (await RememberingInsight(cluster).follow(frames).decision("pod-0")).inexact


async def test_another_node_than_the_evaluations_is_not_hidden() -> None:
    """Who reads the scores would believe that they explain the node."""
    cluster = await RecordedCluster(3).open()
    filtered = await cluster.filter(SMALL)
    (slot,) = (await cluster.place(SMALL, 1, filtered)).slots
    other = (slot + 1) % 3
    cluster.builder.place(SMALL, f"n{other}")
    frames = with_decision_changed(cluster.frames(), 2, place=decision_pb2.PlaceDecision(slots=[other]))
    for frame in frames:
        for number, content in enumerate(frame.message.decisions):
            decision = decision_pb2.Decision.FromString(content)
            if decision.HasField("place"):
                decision.place.slots[:] = [other]
                frame.message.decisions[number] = decision.SerializeToString()
    response = await RememberingInsight(cluster).follow(frames).decision("pod-0")
    assert response.differs
    assert response.feasible_nodes[0].name == f"n{slot}"
    assert f"n{other}" in {node.name for node in response.feasible_nodes}


async def test_old_clusters_and_their_decisions_are_dropped_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Insight would grow with the scheduler's uptime; or keep decisions that it cannot evaluate."""
    monkeypatch.setattr(cluster_history, "_SPAN_DELTAS", 5)
    cluster = await RecordedCluster(3).open()
    insight = RememberingInsight(cluster)
    insight.service._memory.clusters._max_bytes = 200_000
    await cluster.schedule_at_random(150)
    insight.follow()
    statistics = insight.service.statistics()
    assert statistics.memory_bytes <= 200_000
    assert 1 < statistics.remembered_clusters < 20
    known = [name for name in range(1000) if insight.service._memory.decisions.placement_of(f"uid-{name}")]
    assert known
    assert known[0] > 0
    await cluster.schedule(SMALL, 1)
    insight.follow()
    newest = await insight.decision(f"pod-{cluster.placed[-1]}")
    assert not newest.differs
    first = insight.service._memory.decisions.placement_of(f"uid-{known[0]}")
    assert first is not None
    past = await insight.service._memory.clusters.replay_cluster_to(1, first.answer.made.decision.generation)
    assert past is not None


async def test_another_leader_begins_generations_anew() -> None:
    """An earlier decision would be evaluated on the cluster of another leader's generation of that number."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 1)
    insight = RememberingInsight(cluster).follow()
    before = await insight.decision("pod-0")
    for frame in cluster.frames():
        if frame.state_part:
            insight.service.cluster.apply(frame.message.delta)
            insight.service.take(frame.message)
    # The other leader's cluster has no such pod, so it is found by its UID alone.
    assert await insight.decision("pod-0", "uid-0") == before


async def test_a_damaged_decision_stops_nothing() -> None:
    """Insight follows the cluster whatever else comes."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    frames[-1].message.decisions.insert(0, b"\xff")
    assert (await RememberingInsight(cluster).follow(frames).decision("pod-0")).node_name


async def test_a_score_plugin_that_fails_now_is_named() -> None:
    """An explanation without scores would look like a decision without scores."""
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(SMALL, 1)
    insight = RememberingInsight(cluster).follow()
    scores = insight.service._memory.clusters._spans[0].plugins.scores
    chain = scores.chains[PROFILE]
    plugin = chain.synchronous[0]
    failing = status.error(plugin.name, "broken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plugin), "pre_score", lambda *_: failing)
        response = await insight.decision("pod-0")
    assert any(text.startswith(f"the scores: {plugin.name} fails now") for text in response.not_known)
    assert not response.score_plugins
    assert response.node_name in {node.name for node in response.feasible_nodes}
