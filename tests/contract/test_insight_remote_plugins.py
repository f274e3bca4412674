"""Insight with remote plugins: they take part in explanations, also while the cluster changes under their calls."""

import argparse
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from tests.contract.plugin_servers import fill, on_the_sdk
from tests.helpers import phase_calls
from trireme import sdk
from trireme.cli import simulate_command
from trireme.insight import service
from trireme.remote import remote_client, remote_plugins
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, plugin_pb2, simulation_pb2, snapshot_pb2, status_pb2

POD = cycle_pb2.PodIdentity(namespace="default", name="p", uid="u")


class OddNodes:
    """Refuses node-1, and gives others the number in their name. `meanwhile` runs within its calls; it may be down."""

    def __init__(self) -> None:
        self.info = sdk.Info("OddNodes", depends_on=sdk.Dependency.NODE, pod_fields=("spec.nodeSelector",))
        # A key of nodeSelector with which no node takes a pod.
        self.refused_selector = ""
        self.meanwhile: Callable[[], None] = lambda: None
        self.down = False

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        self.meanwhile()
        if self.down:
            raise OSError("down")
        if self.refused_selector in call.pod.spec.node_selector:
            return [sdk.unschedulable("is selected") for _ in nodes]
        return [sdk.unschedulable("is odd") if node.name == "node-1" else None for node in nodes]

    async def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        self.meanwhile()
        return [int(node.name.removeprefix("node-")) for node in nodes]

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> None:
        """Lets all pods in."""

    def sort_key(self, pod: core_pb2.Pod, profile: str) -> int:
        return 0


class Insight:
    """A replica on three nodes whose one profile has the plugin alone."""

    def __init__(self, plugin: OddNodes, config: snapshot_pb2.RemotePlugin) -> None:
        self.plugin = plugin
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        self.service = service.InsightService(
            self.snap, self.remotes.make_filter_plugin, self.remotes.make_score_plugin
        )
        configuration = phase_calls.configuration(["OddNodes"], [("OddNodes", 2)])
        configuration.remote_plugins.append(config)
        self._configuration = configuration

    async def start(self) -> "Insight":
        await phase_calls.greet(self.service, self._configuration)
        pod_class = fill(self.snap, 3)
        queued = snapshot_pb2.QueuedPod(pod=POD, pod_class=pod_class.id, profile=phase_calls.PROFILE)
        self.service._cluster.apply_queue(snapshot_pb2.QueueDelta(pods=[queued]))
        return self

    async def explain(self) -> insight_pb2.ExplainResponse:
        request = insight_pb2.ExplainRequest(pod=POD, scores=True)
        return await self.service.Explain(request, phase_calls.context())

    def change(self) -> None:
        """The cluster goes one generation on."""
        at = self.snap.generation
        self.snap.apply(snapshot_pb2.Delta(from_generation=at, to_generation=at + 1))


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Any]:
    """Opens an insight; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def open_insight(policy: snapshot_pb2.FailurePolicy.ValueType) -> Insight:
            plugin = OddNodes()
            address = await stack.enter_async_context(on_the_sdk(plugin, tmp_path))
            info = await remote_client.handshake("OddNodes", address, deadline_seconds=10)
            assert plugin_pb2.EXTENSION_POINT_SCORE in info.extension_points
            config = snapshot_pb2.RemotePlugin(
                name="OddNodes", endpoints=[address], deadline_ms=5000, info=info, failure_policy=policy
            )
            insight = Insight(plugin, config)
            stack.push_async_callback(insight.remotes.connections.close)
            return await insight.start()

        yield open_insight


async def test_remote_plugins_refuse_and_score(opened: Any) -> None:
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    response = await insight.explain()
    (refusal,) = response.refusals
    assert (refusal.status.plugin, list(refusal.status.messages), list(refusal.nodes)) == (
        "OddNodes",
        ["is odd"],
        ["node-1"],
    )
    assert [(node.name, node.total, list(node.scores)) for node in response.feasible_nodes] == [
        ("node-2", 4, [2]),
        ("node-0", 0, [0]),
    ]


async def test_a_plugin_that_fails_is_named(opened: Any) -> None:
    """Under Fail no node takes the pod: its answers are missing, and the explanation says whose."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    insight.plugin.down = True
    response = await insight.explain()
    assert response.feasible_count == 0
    refused = response.pre_filter if response.HasField("pre_filter") else response.refusals[0].status
    assert refused.code == status_pb2.CODE_ERROR
    assert "OddNodes" in refused.messages[0]


async def test_an_explanation_ends_while_the_cluster_goes_on(opened: Any) -> None:
    """In a busy cluster every call of a plugin meets another generation."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    insight.plugin.meanwhile = insight.change
    response = await insight.explain()
    assert [node.name for node in response.feasible_nodes] == ["node-2", "node-0"]


async def test_remote_plugins_judge_proposals(opened: Any) -> None:
    """A change helps only if they say so of the changed pod; of a node that is not there or other they cannot."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    insight.plugin.refused_selector = "zone"
    pod = core_pb2.Pod(spec=core_pb2.PodSpec(node_selector={"zone": "a", "disk": "ssd"}))
    at = insight.snap.generation
    chosen = snapshot_pb2.PodClass(id=2, pod=pod)
    insight.snap.apply(snapshot_pb2.Delta(from_generation=at, to_generation=at + 1, classes=[chosen]))
    queued = snapshot_pb2.QueuedPod(pod=POD, pod_class=2, profile=phase_calls.PROFILE)
    insight.service._cluster.apply_queue(snapshot_pb2.QueueDelta(pods=[queued]))
    request = insight_pb2.ExplainRequest(pod=POD, proposals=True)
    response = await insight.service.Explain(request, phase_calls.context())
    assert response.feasible_count == 0
    (proposal,) = response.proposals
    assert proposal.drop_constraint.field == "spec.nodeSelector[zone]"
    assert (proposal.feasible_count, list(proposal.example_nodes)) == (2, ["node-0", "node-2"])
    limits = [(limit.kind, limit.tried, limit.candidates) for limit in response.proposal_search_limits]
    assert limits == [("label_node", 0, 1), ("add_node", 0, 1)]


IN_FORCE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {profile}
  plugins:
    multiPoint: {{disabled: [{{name: "*"}}], enabled: [{{name: DefaultBinder}}, {{name: OddNodes}}]}}
    queueSort: {{enabled: [{{name: OddNodes}}]}}
    preEnqueue: {{enabled: [{{name: OddNodes}}]}}
    filter: {{enabled: [{{name: {name}}}]}}
    score: {{enabled: [{{name: OddNodes, weight: 2}}]}}
{more}
"""


def under_configuration(folder: Path, name: str = "OddNodes", more: str = "") -> simulation_pb2.SimulateRequest:
    """What `trireme simulate --config` asks of a file with the plugin at its points, `name` at Filter, and `more`."""
    path = folder / "scheduler.yaml"
    path.write_text(IN_FORCE.format(profile=phase_calls.PROFILE, name=name, more=more))
    parser = argparse.ArgumentParser()
    simulate_command.add_parser(parser.add_subparsers())
    question = simulate_command.make_question(parser.parse_args(["simulate", "--config", str(path)]))
    return json_format.ParseDict(question, simulation_pb2.SimulateRequest())


async def test_a_simulation_under_the_configuration_in_force_has_the_remote_plugins(
    opened: Any, tmp_path: Path
) -> None:
    """The client knew no remote plugin, and refused the file that the scheduler runs with."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    response = await insight.service.Simulate(under_configuration(tmp_path), phase_calls.context())
    (placement,) = response.placements
    assert (placement.pod.name, placement.node_name) == (POD.name, "node-2")


async def test_a_plugin_that_the_scheduler_does_not_have_is_named(opened: Any, tmp_path: Path) -> None:
    """A simulation without a plugin that is spelled wrong would be believed."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    with pytest.raises(phase_calls.Aborted) as caught:
        await insight.service.Simulate(under_configuration(tmp_path, "OddNode"), phase_calls.context())
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "profiles: profile p: there is no plugin OddNode: it is not in-tree" in str(caught.value)


async def test_a_point_that_a_plugin_does_not_serve_is_named(opened: Any, tmp_path: Path) -> None:
    """A simulation without the plugin there would be believed, though no scheduler starts with such a file."""
    insight = await opened(snapshot_pb2.FAILURE_POLICY_FAIL)
    request = under_configuration(tmp_path, more="    permit: {enabled: [{name: OddNodes}]}")
    with pytest.raises(phase_calls.Aborted) as caught:
        await insight.service.Simulate(request, phase_calls.context())
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert str(caught.value).endswith(
        "profiles: profile p: plugin OddNodes is enabled at permit, which is not among those that it has: preEnqueue, "
        "queueSort, filter, score"
    )
