"""How often a remote plugin is asked: the evaluators of filter and score over plugins on real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.plugin_servers import fill, on_the_sdk
from trireme import sdk
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator
from trireme.evaluation.scoring import class_scores, score_chain, score_evaluator
from trireme.framework import status
from trireme.remote import remote_client, remote_plugins
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2

NODES = 3


class Counting:
    """Writes down the nodes of each call, and may fail."""

    def __init__(self, depends_on: sdk.Dependency, pod_fields: Sequence[str] = ()) -> None:
        self.info = sdk.Info("Counting", depends_on=depends_on, pod_fields=pod_fields)
        self.asked: list[list[str]] = []
        self.fails = False

    def pre_filter(self, call: sdk.Call) -> sdk.PreFilter:
        if self.fails:
            raise OSError("down")
        return sdk.PreFilter(state=b"s")

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        assert call.state == b"s"
        return [sdk.unschedulable("no") if name == "node-1" else None for name in await self._noted(nodes)]

    async def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        return [10] * len(await self._noted(nodes))

    async def _noted(self, nodes: Sequence[sdk.Node]) -> list[str]:
        self.asked.append([node.name for node in nodes])
        await asyncio.sleep(0.02)
        return self.asked[-1]


class Evaluation:
    """One plugin, and the evaluator of each phase over it."""

    def __init__(self, plugin: Counting, config: snapshot_pb2.RemotePlugin) -> None:
        self.plugin = plugin
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        filters = filter_chain.FilterChain((self.remotes.make_filter_plugin(config, "p"),))
        scores = score_chain.ScoreChain({"Counting": 1}, (self.remotes.make_score_plugin(config, "p"),))
        self._filter = filter_evaluator.FilterEvaluator(self.snap, {"p": filters})
        self._score = score_evaluator.ScoreEvaluator(self.snap, {"p": scores})
        fill(self.snap, NODES)

    async def filter(self, number: int = 1) -> class_verdicts.ClassVerdicts:
        """The class's verdicts."""
        return await self._filter.evaluate("p", self.snap.classes[number])

    async def score(self, number: int = 1) -> class_scores.ClassScores | status.Status:
        """The class's scores."""
        return await self._score.evaluate("p", self.snap.classes[number])

    def change(self, **delta: Any) -> None:
        """The cluster goes one generation on."""
        at = self.snap.generation
        self.snap.apply(snapshot_pb2.Delta(from_generation=at, to_generation=at + 1, **delta))


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Any]:
    """Opens an evaluation; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def open_evaluation(
            depends_on: sdk.Dependency, pod_fields: Sequence[str] = (), **fields: Any
        ) -> Evaluation:
            plugin = Counting(depends_on, pod_fields)
            address = await stack.enter_async_context(on_the_sdk(plugin, tmp_path))
            info = await remote_client.handshake("Counting", address, deadline_seconds=10)
            config = snapshot_pb2.RemotePlugin(
                name="Counting", endpoints=[address], deadline_ms=5000, info=info, **fields
            )
            made = Evaluation(plugin, config)
            stack.push_async_callback(made.remotes.connections.close)
            return made

        yield open_evaluation


NODE_2 = snapshot_pb2.NodeEntry(slot=2, node=core_pb2.Node(metadata={"name": "node-2", "labels": {"x": "y"}}))
POD_ON_1 = snapshot_pb2.PodColumns(row=[0], pod_class=[1], slot=[1], uid=["u"], name=["n"], start_time_s=[0], flags=[0])
ALL = ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize("phase", ["filter", "score"])
@pytest.mark.parametrize(
    ("depends_on", "delta", "asked_again"),
    [
        (sdk.Dependency.NODE, {}, None),
        (sdk.Dependency.NODE, {"nodes": [NODE_2]}, ["node-2"]),
        (sdk.Dependency.NODE, {"pods": POD_ON_1}, None),
        (sdk.Dependency.NODE_PODS, {"pods": POD_ON_1}, ["node-1"]),
        (sdk.Dependency.NODE_PODS, {"nodes": [NODE_2]}, ["node-2"]),
        (sdk.Dependency.CLUSTER, {}, ALL),
    ],
    ids=["nothing", "a node", "pods", "pods of the node", "a node of both", "anything"],
)
async def test_a_plugin_is_called_again_only_about_changed_nodes(
    opened: Any, phase: str, depends_on: sdk.Dependency, delta: dict[str, Any], asked_again: list[str] | None
) -> None:
    """If this fails, a slow plugin sets the pace of the whole scheduler; or it decides by what was."""
    evaluation = await opened(depends_on)
    evaluate = getattr(evaluation, phase)
    await evaluate()
    assert evaluation.plugin.asked == [ALL]
    evaluation.change(**delta)
    await evaluate()
    assert evaluation.plugin.asked[1:] == ([] if asked_again is None else [asked_again])


@pytest.mark.parametrize("phase", ["filter", "score"])
async def test_concurrent_requests_share_one_call(opened: Any, phase: str) -> None:
    """If this fails, a class that is being prepared when its turn comes costs the plugin a second call."""
    evaluation = await opened(sdk.Dependency.NODE)
    await asyncio.gather(*(getattr(evaluation, phase)() for _ in range(4)))
    assert evaluation.plugin.asked == [ALL]


@pytest.mark.parametrize("phase", ["filter", "score"])
@pytest.mark.parametrize(
    ("depends_on", "pod_fields", "namespace", "asked_for_both"),
    [
        (sdk.Dependency.NODE, ["metadata.namespace"], "shop", 1),
        (sdk.Dependency.NODE, ["metadata.namespace"], "other", 2),
        (sdk.Dependency.NODE, [], "shop", 2),
        (sdk.Dependency.NODE_PODS, ["metadata.namespace"], "shop", 2),
    ],
    ids=["equal to the plugin", "another field that it reads", "it reads all fields", "pods of the node"],
)
async def test_classes_that_are_equal_to_a_plugin_share_its_answers(
    opened: Any, phase: str, depends_on: sdk.Dependency, pod_fields: list[str], namespace: str, asked_for_both: int
) -> None:
    """If this fails, a plugin that reads one label is called for each size of pod, or answers for another label."""
    evaluation = await opened(depends_on, pod_fields)
    evaluate = getattr(evaluation, phase)
    pod = core_pb2.Pod(metadata={"namespace": namespace, "labels": {"app": "db"}})
    evaluation.change(classes=[snapshot_pb2.PodClass(id=2, pod=pod)])
    first, second = await asyncio.gather(evaluate(1), evaluate(2))
    assert evaluation.plugin.asked == [ALL] * asked_for_both
    if phase == "filter":
        assert first.index[:NODES].tolist() == second.index[:NODES].tolist() == [0, 1, 0]
        assert second.table.statuses == [status.unschedulable("Counting", "no")]
    else:
        assert second.plugins["Counting"].raw[:NODES].tolist() == [10] * NODES
    evaluation.change(nodes=[NODE_2])
    await evaluate(1)
    await evaluate(2)
    assert evaluation.plugin.asked[asked_for_both:] == [["node-2"]] * asked_for_both


async def test_a_remote_refusal_is_the_nodes_verdict(opened: Any) -> None:
    """If this fails, pods go to nodes that a remote plugin refused."""
    kept = await (await opened(sdk.Dependency.NODE)).filter()
    assert kept.index[:NODES].tolist() == [0, 1, 0]
    assert kept.table.statuses == [status.unschedulable("Counting", "no")]


async def test_a_plugin_whose_failure_was_ignored_is_called_again(opened: Any) -> None:
    """If this fails, a plugin that was down when a class was first seen never has a say about it."""
    evaluation = await opened(sdk.Dependency.NODE, failure_policy=snapshot_pb2.FAILURE_POLICY_IGNORE)
    evaluation.plugin.fails = True
    assert (await evaluation.filter()).index[:NODES].tolist() == [0, 0, 0]
    evaluation.plugin.fails = False
    assert (await evaluation.filter()).index[:NODES].tolist() == [0, 1, 0]


async def test_a_plugin_that_failed_is_called_again_for_the_next_pod(opened: Any) -> None:
    """If this fails, a class whose plugin failed once fails forever."""
    evaluation = await opened(sdk.Dependency.NODE)
    evaluation.plugin.fails = True
    failed = (await evaluation.filter()).refusal
    assert failed is not None
    assert failed.code is status.Code.ERROR
    evaluation.plugin.fails = False
    kept = await evaluation.filter()
    assert kept.refusal is None
    assert kept.index[:NODES].tolist() == [0, 1, 0]
