"""Recordings of decisions in which a plugin takes part that is a service: they are made again without it."""

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
import rich.console

from tests.contract.recorded_service import Moody, recorded, replayed
from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import IMPORTANT, LARGE, SMALL, RecordedCluster
from tests.helpers.remembering_insight import RememberingInsight
from trireme import sdk
from trireme.cli import explain_command
from trireme.insight import recorded_insight
from trireme.recording import redaction
from trireme.registry import in_tree_args
from trireme.remote import answer_recording
from trireme.v1 import (
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    insight_pb2,
    recording_pb2,
    remote_answer_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import json_documents, node_columns


async def schedule(cluster: RecordedCluster, rounds: int = 6) -> None:
    """Batches of all classes, more than fit, with Reserve for each that has a node."""
    for _ in range(rounds):
        for number in (SMALL, LARGE, IMPORTANT):
            before = len(cluster.placed)
            await cluster.schedule(number, 2)
            for _ in cluster.placed[before:]:
                pod = cluster.pod().metadata
                identity = cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
                cycle = cluster.evaluators.cycle(PROFILE, number, cluster.generation)
                await cluster.evaluators.reserve(cycle, [filter_pb2.Placement(pod=identity, node_name="n0", slot=0)])


KINDS = [
    pytest.param(sdk.Dependency.NODE, False, id="nodes alone"),
    pytest.param(sdk.Dependency.NODE_PODS, False, id="pods of the node"),
    pytest.param(sdk.Dependency.CLUSTER, True, id="the cluster, and it normalises"),
]


@pytest.mark.parametrize(("depends_on", "normalizes"), KINDS)
async def test_decisions_with_a_service_are_made_again_without_it(
    tmp_path: Path, depends_on: sdk.Dependency, normalizes: bool
) -> None:
    """Of clusters with a score plugin of their own no placement could be checked, nor shared with names replaced."""
    async with recorded(tmp_path, Moody(depends_on, normalizes=normalizes)) as cluster:
        await schedule(cluster)
        frames, header = cluster.frames(), cluster.header
        decisions = cluster.decisions()
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.remote, counts.inexact) == (0, 0)
    assert (counts.same, counts.incomplete) == (len(decisions), 0)
    assert counts.calls["Place"] > 3
    assert counts.calls["Reserve"] > 3
    assert counts.calls["RunPostFilter"] > 3
    kinds = {answer.WhichOneof("answer") for each in decisions for answer in each.remote.answers}
    in_dry_runs = "nodes" if depends_on is sdk.Dependency.NODE else "dry_runs"
    assert kinds == {"scores", "reservations", "post_filter", in_dry_runs}

    names = redaction.Names(in_tree_args.plugin_args())
    for each in (header, *frames):
        names.add(each)
    redacted = redaction.Redaction(names)
    for each in (header, *frames):
        redacted.redact(each)
    again, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (again.remote, again.same) == (0, counts.same)
    content = b"".join(each.SerializeToString() for each in frames)
    assert b"claim-" not in content
    assert b"n4" not in content


async def test_batches_that_a_service_scored_ahead_are_placed_again_without_it(tmp_path: Path) -> None:
    """Without its scores of nodes with copies on them, a recorded batch would end after its first pod."""
    async with recorded(tmp_path, Moody(sdk.Dependency.NODE_PODS, normalizes=False, copies=True)) as cluster:
        for number in (SMALL, LARGE, SMALL, SMALL, IMPORTANT, SMALL):
            await cluster.schedule(number, 4)
        frames, decisions = cluster.frames(), cluster.decisions()
    assert max(len(each.place.slots) for each in decisions) > 2
    assert any(answer.scores.copied for each in decisions for answer in each.remote.answers)
    counts, differences = await replayed(cluster, frames, cluster.header)
    assert differences == []
    assert (counts.same, counts.remote) == (len(decisions), 0)

    for frame in frames:
        found = [decision_pb2.Decision.FromString(content) for content in frame.message.decisions]
        for answer in (answer for each in found for answer in each.remote.answers):
            answer.scores.copied[:] = [100 - score for score in answer.scores.copied]
        frame.message.ClearField("decisions")
        frame.message.decisions.extend(each.SerializeToString() for each in found)
    counts, differences = await replayed(cluster, frames, cluster.header)
    assert {each.call for each in differences} == {"Place"}


def changed(decision: decision_pb2.Decision) -> decision_pb2.Decision:
    """The decision, where the service answered otherwise."""
    out = decision_pb2.Decision()
    out.CopyFrom(decision)
    for answer in out.remote.answers:
        if answer.HasField("scores"):
            answer.scores.raw[:] = [100 - score for score in answer.scores.raw]
        for reservation in answer.reservations.reservations:
            reservation.status.code = status_pb2.CODE_ERROR
        if answer.HasField("post_filter"):
            answer.post_filter.response.status.messages[:] = ["another"]
    return out


@pytest.mark.parametrize("kind", ["place", "reserve", "post_filter"])
async def test_another_answer_of_the_service_is_a_difference(tmp_path: Path, kind: str) -> None:
    """If the recorded answers were passed over, nothing would be compared."""
    async with recorded(tmp_path, Moody(sdk.Dependency.NODE, normalizes=False)) as cluster:
        await schedule(cluster, 3)
        frames, header = cluster.frames(), cluster.header
    for frame in frames:
        decisions = [decision_pb2.Decision.FromString(content) for content in frame.message.decisions]
        frame.message.ClearField("decisions")
        frame.message.decisions.extend(
            (changed(each) if each.HasField(kind) else each).SerializeToString() for each in decisions
        )
    counts, differences = await replayed(cluster, frames, header)
    assert counts.different == len(differences) > 0
    assert {each.call for each in differences} == {
        {"place": "Place", "reserve": "Reserve", "post_filter": "RunPostFilter"}[kind]
    }


async def test_more_dry_runs_than_are_recorded_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part of the answers would give another decision, and be taken for an error."""
    monkeypatch.setattr(answer_recording, "MAX_DRY_RUNS", 1)
    async with recorded(tmp_path, Moody(sdk.Dependency.NODE_PODS, normalizes=False)) as cluster:
        await schedule(cluster, 3)
        frames, header = cluster.frames(), cluster.header
        remote = [each.remote for each in cluster.decisions() if each.HasField("post_filter")]
    assert remote_answer_pb2.RemoteAnswers() in remote
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert counts.remote > 0


def names_of_filter_refusals(decision: decision_pb2.Decision) -> dict[str, int]:
    """How many nodes Moody refused in an answer of Filter, by its message."""
    columns = node_columns.from_message(decision.filter.columns)
    counts = {
        ", ".join(entry.messages): int((columns.index == number).sum())
        for number, entry in enumerate(columns.statuses, start=1)
        if entry.plugin == "Moody"
    }
    return {message: count for message, count in counts.items() if count}


@pytest.mark.parametrize(("depends_on", "normalizes"), KINDS)
async def test_an_explanation_has_what_the_service_answered_then(
    tmp_path: Path, depends_on: sdk.Dependency, normalizes: bool
) -> None:
    """It ranked nodes that the service had refused, called all of them feasible, and found another one the best."""
    explained = refused = 0
    async with recorded(tmp_path, Moody(depends_on, normalizes=normalizes)) as cluster:
        await schedule(cluster)
        insight = RememberingInsight(cluster).follow()
        filters = {(each.generation, each.pod_class): each for each in cluster.decisions() if each.HasField("filter")}
        for row in cluster.placed:
            response = await insight.decision(f"pod-{row}")
            assert not response.differs
            assert not response.feasible_at_most
            assert [text for text in response.not_known if "Moody" in text] == []
            counts = {
                ", ".join(each.status.messages): each.node_count
                for each in response.refusals
                if each.status.plugin == "Moody"
            }
            made = insight.service._memory.decisions.placement_of(cluster.builder.snap.pods.uids[row])
            assert made is not None
            decision = made.answer.made.decision
            assert counts == names_of_filter_refusals(filters[decision.generation, decision.pod_class])
            assert response.feasible_count <= response.node_count - sum(counts.values())
            assert not response.score_plugins or "Moody" in {each.name for each in response.score_plugins}
            explained += 1
            refused += sum(counts.values())
    assert explained > 3
    assert refused > 3


@pytest.mark.parametrize(
    ("missing", "at_most", "texts"),
    [
        pytest.param("columns", True, ["what the remote plugin Moody answered at Filter"], id="Filter's"),
        pytest.param("remote", False, ["what the remote plugin Moody answered at Score"], id="Score's"),
    ],
)
async def test_an_answer_that_is_not_there_is_named_and_not_made_up(
    tmp_path: Path, missing: str, at_most: bool, texts: list[str]
) -> None:
    """A count without the service's refusals was stated as a fact."""
    async with recorded(tmp_path, Moody(sdk.Dependency.NODE, normalizes=False)) as cluster:
        await cluster.schedule(SMALL, 1)
        frames = cluster.frames()
        for frame in frames:
            found = [decision_pb2.Decision.FromString(content) for content in frame.message.decisions]
            for each in found:
                if missing == "remote":
                    each.ClearField("remote")
                elif each.HasField("filter"):
                    each.filter.ClearField("columns")
            frame.message.ClearField("decisions")
            frame.message.decisions.extend(each.SerializeToString() for each in found)
        response = await RememberingInsight(cluster).follow(frames).decision("pod-0")
    assert response.feasible_at_most == at_most
    assert [text for text in response.not_known if "Moody" in text] == texts
    assert ("Moody" in {each.status.plugin for each in response.refusals}) == (not at_most)


class Closed(Moody):
    """Refuses all nodes."""

    def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        return [sdk.unschedulable("closed") for _ in nodes]


async def explained_as_of_then(
    cluster: RecordedCluster, frames: Sequence[recording_pb2.RecordedFrame]
) -> insight_pb2.ExplainResponse:
    """The explanation of a waiting pod of class SMALL in a recording of the cluster."""
    insight = recorded_insight.RecordedInsight(cluster.header)
    insight.follow(frames)
    pod = cycle_pb2.PodIdentity(namespace="default", name="waits", uid="w")
    return await insight.explain(insight_pb2.ExplainRequest(pod=pod, scores=True, preemption=True))


def with_waiting_pod(cluster: RecordedCluster) -> list[recording_pb2.RecordedFrame]:
    """What was recorded, with such a pod in the queue."""
    pod = cycle_pb2.PodIdentity(namespace="default", name="waits", uid="w")
    state = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=SMALL, profile=PROFILE, state=state, attempts=1)
    cluster._record(snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(pods=[queued])))
    return cluster.frames()


async def test_a_waiting_pod_of_a_recording_is_refused_by_the_service_as_it_was(tmp_path: Path) -> None:
    """All nodes were called feasible, and ranked, where the service had refused each of them."""
    async with recorded(tmp_path, Closed(sdk.Dependency.NODE, normalizes=False)) as cluster:
        assert await cluster.schedule(SMALL, 1) == 0
        response = await explained_as_of_then(cluster, with_waiting_pod(cluster))
    assert (response.feasible_count, response.feasible_at_most) == (0, False)
    (refusal,) = response.refusals
    assert (refusal.status.plugin, list(refusal.status.messages), refusal.node_count) == ("Moody", ["closed"], 5)
    assert list(response.not_known) == []
    assert response.preemption.reason


async def test_a_node_that_came_since_is_not_one_that_the_service_accepted(tmp_path: Path) -> None:
    """It would take the answer about the node that had its slot before, or be called feasible."""
    async with recorded(tmp_path, Closed(sdk.Dependency.NODE, normalizes=False)) as cluster:
        await cluster.schedule(SMALL, 1)
        generation = cluster.generation
        cluster.builder.remove_node("n2")
        cluster.builder.set_node("n9", allocatable={"cpu": "4", "pods": "9"})
        response = await explained_as_of_then(cluster, with_waiting_pod(cluster))
    assert (response.feasible_count, response.feasible_at_most) == (1, True)
    assert [node.name for node in response.feasible_nodes] == ["n9"]
    assert response.not_known[0] == (
        f"what the remote plugin Moody would have answered then: its answer at the last attempt counts, at generation "
        f"{generation}"
    )
    assert "what the remote plugin Moody would have scored" in response.not_known


async def test_without_an_answer_of_the_service_a_recording_claims_no_feasible_node(tmp_path: Path) -> None:
    """The decision may have been dropped."""
    async with recorded(tmp_path, Closed(sdk.Dependency.NODE, normalizes=False)) as cluster:
        await cluster.schedule(SMALL, 1)
        frames = with_waiting_pod(cluster)
        for frame in frames:
            frame.message.ClearField("decisions")
        response = await explained_as_of_then(cluster, frames)
    assert (response.feasible_count, response.feasible_at_most) == (5, True)
    assert "what the remote plugin Moody would have answered at Filter" in response.not_known
    shown = io.StringIO()
    console = rich.console.Console(file=shown, width=120)
    response.recorded.at = response.recorded.known_at = "2026-11-23T22:13:05.000000Z"
    console.print(explain_command.render(json_documents.document(response)))
    assert "at most 5 of 5 nodes were feasible then" in shown.getvalue()
    assert "Not known is what the remote plugin Moody would have answered at Filter" in shown.getvalue()


async def test_an_explanation_of_a_preemption_has_what_the_service_said_in_dry_runs(tmp_path: Path) -> None:
    """It said that the service's answers were not recorded, or ran the dry runs without it."""
    async with recorded(tmp_path, Moody(sdk.Dependency.NODE_PODS, normalizes=False)) as cluster:
        await schedule(cluster, 3)
        insight = RememberingInsight(cluster).follow()
        made = [each for each in cluster.decisions() if each.HasField("post_filter")]
        explainer = insight.service._decisions
        found = []
        for decision in made:
            for preemptor, result in zip(decision.post_filter.preemptors, decision.post_filter.results, strict=False):
                explained = await explainer._preemption(preemptor.pod.uid, preemptor.pod)
                if explained is not None:
                    victims = {action.pod.uid for action in result.answer.actions if action.HasField("evict")}
                    evicted = {each.pod.uid for each in explained[0].victims}
                    found.append((explained[0].node_name == result.answer.nominated_node, victims == evicted))
                    assert list(explained[1]) == []
    assert found
    assert set(found) == {(True, True)}
