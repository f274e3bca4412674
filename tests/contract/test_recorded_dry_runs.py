"""Dry runs of preemption in recordings, beside a filter plugin that is a service: they are made again without it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.contract.recorded_service import Moody, recorded, replayed
from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import IMPORTANT, LARGE, SMALL, RecordedCluster
from tests.helpers.remembering_insight import RememberingInsight
from trireme import sdk
from trireme.insight import recorded_insight
from trireme.v1 import (
    cycle_pb2,
    decision_explanation_pb2,
    decision_pb2,
    filter_phase_pb2,
    insight_pb2,
    snapshot_pb2,
)

DEPENDENCIES = [
    pytest.param(sdk.Dependency.NODE, id="nodes alone"),
    pytest.param(sdk.Dependency.NODE_PODS, id="pods of the node"),
    pytest.param(sdk.Dependency.CLUSTER, id="the cluster"),
]


class OddNodesClosed(Moody):
    """Refuses the nodes with an odd number."""

    def __init__(self, depends_on: sdk.Dependency) -> None:
        super().__init__(depends_on, normalizes=False)

    def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        return [sdk.unschedulable("closed") if int(node.name[1:]) % 2 else None for node in nodes]


class Skipping(OddNodesClosed):
    """Skips every pod."""

    def pre_filter(self, call: sdk.Call) -> Any:
        return sdk.SKIP


async def preempt(cluster: RecordedCluster) -> decision_pb2.Decision:
    """A pod that no node has room for; on the nodes with an odd number it would evict the fewest pods."""
    cluster.builder.place(SMALL, *(f"n{number}" for number in (0, 2, 4) for _ in range(4)), "n1", "n3")
    await cluster.schedule(IMPORTANT, 1)
    return next(each for each in cluster.decisions() if each.HasField("post_filter"))


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
async def test_a_refusal_behind_that_of_another_plugin_counts_in_the_dry_runs(
    tmp_path: Path, depends_on: sdk.Dependency
) -> None:
    """Filter's answer names the first plugin that refused a node; what the service said there was taken for a yes."""
    async with recorded(tmp_path, OddNodesClosed(depends_on)) as cluster:
        decided = await preempt(cluster)
        frames, header = cluster.frames(), cluster.header
    assert decided.post_filter.results[0].answer.nominated_node in {"n0", "n2", "n4"}
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.calls["RunPostFilter"], counts.remote, counts.incomplete) == (1, 0, 0)


async def test_without_the_answers_that_dry_runs_read_preemption_is_not_decided_again(tmp_path: Path) -> None:
    """A node that the service may have refused would be taken for one that it accepted, as a difference."""
    async with recorded(tmp_path, OddNodesClosed(sdk.Dependency.NODE)) as cluster:
        decided = await preempt(cluster)
        frames, header = cluster.frames(), cluster.header
    for frame in frames:
        decisions = [decision_pb2.Decision.FromString(content) for content in frame.message.decisions]
        for each in decisions:
            kept = [answer for answer in each.remote.answers if not answer.HasField("nodes")]
            del each.remote.answers[:]
            each.remote.answers.extend(kept)
        frame.message.ClearField("decisions")
        frame.message.decisions.extend(each.SerializeToString() for each in decisions)
    assert any(answer.HasField("nodes") for answer in decided.remote.answers)
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.remote, "RunPostFilter" in counts.calls) == (1, False)


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
async def test_a_service_that_skips_a_class_is_not_missing_in_its_dry_runs(
    tmp_path: Path, depends_on: sdk.Dependency
) -> None:
    """It was called in no dry run, and no preemption of its class would be decided again."""
    async with recorded(tmp_path, Skipping(depends_on)) as cluster:
        decided = await preempt(cluster)
        frames, header = cluster.frames(), cluster.header
    assert decided.post_filter.results[0].answer.nominated_node in {"n1", "n3"}
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.calls["RunPostFilter"], counts.remote, counts.incomplete) == (1, 0, 0)


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
async def test_victims_of_a_group_of_several_classes_are_reprieved_again(
    tmp_path: Path, depends_on: sdk.Dependency
) -> None:
    """What the service said about one class of the group stood for all of them, or for none."""
    async with recorded(tmp_path, OddNodesClosed(depends_on)) as cluster:
        builder = cluster.builder
        victims = builder.place(SMALL, *(f"n{number}" for number in (0, 2) for _ in range(4)))
        members = [filter_phase_pb2.PodGroupMember(pod_class=number) for number in (IMPORTANT, LARGE)]
        cycle = cluster.evaluators.cycle(PROFILE, IMPORTANT, cluster.generation)
        listed = await cluster.evaluators.list_pod_group_victims(
            filter_phase_pb2.ListPodGroupVictimsRequest(cycle=cycle, priority=100, members=members)
        )
        # As the group is tried: without the victims, and each member on its node.
        builder.remove(*victims)
        placed = []
        for number, slot in ((IMPORTANT, 0), (LARGE, 2)):
            await cluster.filter(number)
            (row,) = builder.place(number, f"n{slot}")
            pod = cycle_pb2.PodIdentity(namespace="default", name=f"pod-{row}", uid=f"uid-{row}")
            placed.append(filter_phase_pb2.PlacedPodGroupMember(pod=pod, pod_class=number, slot=slot))
        cycle = cluster.evaluators.cycle(PROFILE, IMPORTANT, cluster.generation)
        group = cycle_pb2.PodIdentity(namespace="default", name="group", uid="group")
        answer = await cluster.evaluators.reprieve_pod_group_victims(
            filter_phase_pb2.ReprievePodGroupVictimsRequest(
                cycle=cycle, pod_group=group, priority=100, victims=listed.victims, placed=placed
            )
        )
        frames, header = cluster.frames(), cluster.header
    # All of the first node, and three of the four on the other one.
    assert answer.disruption.victims == 7
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.calls["ReprievePodGroupVictims"], counts.remote, counts.incomplete) == (1, 0, 0)


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
async def test_a_nominated_pod_is_decided_and_explained_again(tmp_path: Path, depends_on: sdk.Dependency) -> None:
    """FilterNominated calls no service, and leaves the pod to Filter: of that call the service's refusals are known."""
    async with recorded(tmp_path, OddNodesClosed(depends_on)) as cluster:
        # First the service refuses the node that the pod is nominated to, then not.
        for number, admits in ((1, False), (2, True)):
            pod, uid = cluster.pod(), f"p{number - 1}"
            identity = cycle_pb2.PodIdentity(namespace="default", name=uid, uid=uid)
            nomination = snapshot_pb2.Nomination(pod=identity, pod_class=IMPORTANT, slot=number)
            cluster.builder.apply(nominations=[nomination])
            about = PROFILE, IMPORTANT, cluster.generation
            found = await cluster.evaluators.filter_nominated(*about, [pod], [number])
            assert found.admitted == 0
            filtered = await cluster.evaluators.filter(PROFILE, IMPORTANT, 1, cluster.generation, pod)
            assert filtered.columns.admits(number) == admits
            cluster.builder.apply(removed_nominations=[uid])
        placed = snapshot_pb2.PodColumns(
            row=[0], pod_class=[IMPORTANT], slot=[2], uid=["p1"], name=["p1"], start_time_s=[0], flags=[0]
        )
        cluster.builder.apply(pods=placed)
        frames, header = cluster.frames(), cluster.header
        explained = await RememberingInsight(cluster).follow().decision("p1")
    counts, differences = await replayed(cluster, frames, header)
    assert differences == []
    assert (counts.calls, counts.remote, counts.incomplete) == ({"Filter": 2, "FilterNominated": 2}, 0, 0)
    assert (explained.node_name, explained.kind) == ("n2", decision_explanation_pb2.DECISION_KIND_NOMINATED)
    assert not explained.differs
    assert not explained.feasible_at_most
    assert {each.status.plugin: list(each.nodes) for each in explained.refusals} == {"Moody": ["n1", "n3"]}
    assert [text for text in explained.not_known if "Moody" in text] == []


@pytest.mark.parametrize("depends_on", DEPENDENCIES)
async def test_an_explanation_of_a_preemption_has_what_the_service_said_behind_another_plugin(
    tmp_path: Path, depends_on: sdk.Dependency
) -> None:
    """It named nodes to choose from that the service had refused."""
    async with recorded(tmp_path, OddNodesClosed(depends_on)) as cluster:
        decided = await preempt(cluster)
        insight = RememberingInsight(cluster).follow()
        pod = decided.post_filter.preemptors[0].pod
        found = await insight.service._decisions._preemption(pod.uid, pod)
    assert found is not None
    explained, not_known = found
    assert not_known == []
    assert explained.node_name == decided.post_filter.results[0].answer.nominated_node
    assert {each.name for each in explained.candidates} == {"n0", "n2", "n4"}


async def would_preempt(cluster: RecordedCluster) -> insight_pb2.ExplainResponse:
    """What a recording of the cluster says at its end of a pod that waits, of the class that preempted."""
    pod = cycle_pb2.PodIdentity(namespace="default", name="waits", uid="w")
    state = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=IMPORTANT, profile=PROFILE, state=state, attempts=1)
    cluster._record(snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(pods=[queued])))
    insight = recorded_insight.RecordedInsight(cluster.header)
    insight.follow(cluster.frames())
    return await insight.explain(insight_pb2.ExplainRequest(pod=pod, preemption=True))


async def test_what_the_service_said_of_nodes_holds_for_a_waiting_pod_while_they_are_the_same(tmp_path: Path) -> None:
    """It would preempt on a node that the service refuses, or nothing be known as soon as any pod came or went."""
    async with recorded(tmp_path, OddNodesClosed(sdk.Dependency.NODE)) as cluster:
        await preempt(cluster)
        (row,) = cluster.builder.place(SMALL, "n1")
        cluster.builder.remove(row)
        response = await would_preempt(cluster)
        assert [text for text in response.not_known if "preempt" in text] == []
        assert {each.name for each in response.preemption.candidates} == {"n0", "n2", "n4"}
        # The service has not answered about a node that came since.
        cluster.builder.set_node("n9", allocatable={"cpu": "4", "pods": "9"})
        cluster.builder.place(SMALL, *["n9"] * 4)
        response = await would_preempt(cluster)
        assert not response.preemption.candidates
        (text,) = (text for text in response.not_known if "preempt" in text)
        assert text == "whom it would preempt: the answer of Moody about nodes that others refused is not recorded"
