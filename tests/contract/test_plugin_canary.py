"""Canaries of plugins: another version answers for some classes, over real gRPC, in filter's and score's chains."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.contract.plugin_servers import fill, on_the_sdk
from trireme import sdk
from trireme.evaluation.filtering import class_verdicts, filter_evaluator
from trireme.evaluation.scoring import class_scores, score_evaluator
from trireme.framework import canaries, status
from trireme.registry import filter_profiles, score_profiles
from trireme.remote import remote_client, remote_plugins
from trireme.snapshot import classes, snapshot
from trireme.v1 import core_pb2, plugin_pb2, snapshot_pb2

NODES = 3


class Version:
    """Refuses the node that it is made with, and prefers the one after it."""

    def __init__(self, version: str, refused: str, best: str) -> None:
        self.info = sdk.Info("P", version=version, depends_on=sdk.Dependency.NODE, pod_fields=("metadata.annotations",))
        self.refused, self.best = refused, best
        self.fails = False
        self.pods: list[core_pb2.Pod] = []

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        self._note(call)
        return [sdk.unschedulable(f"no, by {self.info.version}") if n.name == self.refused else None for n in nodes]

    async def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        self._note(call)
        return [100 if node.name == self.best else 0 for node in nodes]

    def _note(self, call: sdk.Call) -> None:
        if self.fails:
            raise OSError("down")
        self.pods.append(call.pod)


class Sides:
    """Two versions of one plugin, a snapshot with a class for each, and the evaluators over both."""

    def __init__(self, configs: Sequence[snapshot_pb2.RemotePlugin]) -> None:
        self.configs = configs
        self.snap = snapshot.Snapshot()
        self.stable = fill(self.snap, NODES)
        pod = core_pb2.Pod()
        pod.CopyFrom(self.stable.pod)
        canaries.mark(pod.metadata.annotations, ["P"])
        entry = snapshot_pb2.PodClass(id=2, pod=pod)
        self.snap.apply(snapshot_pb2.Delta(from_generation=7, to_generation=8, classes=[entry]))
        self.canary = self.snap.classes[2]
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        configuration = snapshot_pb2.Configuration(remote_plugins=configs)
        profile = configuration.profiles.add(scheduler_name="p")
        for point in (plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE):
            entries = profile.plugin_sets.add(extension_point=point).plugins
            for config in configs:
                entries.add(name=config.name, weight=1)
        filters = filter_profiles.make_filter_chains(configuration, self.remotes.make_filter_plugin)
        scores = score_profiles.make_score_chains(configuration, self.remotes.make_score_plugin)
        self._filter = filter_evaluator.FilterEvaluator(self.snap, filters)
        self._score = score_evaluator.ScoreEvaluator(self.snap, scores)

    async def refused(self, pod_class: classes.PodClass) -> dict[str, status.Status]:
        """The refusals of the class, by node."""
        verdicts: class_verdicts.ClassVerdicts = await self._filter.evaluate("p", pod_class)
        if verdicts.refusal is not None:
            return {"": verdicts.refusal}
        names = self.snap.nodes.names
        return {
            names[slot]: verdicts.table.statuses[int(verdicts.index[slot]) - 1]
            for slot in range(NODES)
            if verdicts.index[slot]
        }

    async def best(self, pod_class: classes.PodClass) -> str | status.Status:
        """The node with the best scores of all plugins that answer for the class."""
        scores: class_scores.ClassScores | status.Status = await self._score.evaluate("p", pod_class)
        if isinstance(scores, status.Status):
            return scores
        columns = [column for column in scores.plugins.values() if not column.silent]
        assert len(columns) == 1
        return str(self.snap.nodes.names[int(np.argmax(columns[0].raw[:NODES]))])


class Opened:
    """The two versions as services, and what is called."""

    def __init__(self, stable: Version, canary: Version, sides: Sides) -> None:
        self.stable, self.canary, self.sides = stable, canary, sides


@pytest.fixture(params=["Fail", "Ignore"])
def policy(request: pytest.FixtureRequest) -> str:
    """The canary's failure policy."""
    return str(request.param)


@pytest.fixture
async def opened(tmp_path: Path, policy: str) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:
        stable, canary = Version("1", "node-0", "node-1"), Version("2", "node-1", "node-2")
        configs = []
        for name, plugin in (("P", stable), ("P/canary", canary)):
            address = await stack.enter_async_context(on_the_sdk(plugin, tmp_path, f"{plugin.info.version}.sock"))
            info = await remote_client.handshake("P", address, deadline_seconds=20)
            config = snapshot_pb2.RemotePlugin(name=name, endpoints=[address], deadline_ms=20_000, info=info)
            if plugin is canary and policy == "Ignore":
                config.failure_policy = snapshot_pb2.FAILURE_POLICY_IGNORE
            configs.append(config)
        sides = Sides(configs)
        stack.push_async_callback(sides.remotes.connections.close)
        yield Opened(stable, canary, sides)


@pytest.mark.parametrize("policy", ["Fail"], indirect=True)
async def test_each_version_answers_for_its_own_classes_alone(opened: Opened) -> None:
    """If this fails, both versions decide about a pod, or one that is no canary's is answered by the new version."""
    sides = opened.sides
    stable, canary = await sides.refused(sides.stable), await sides.refused(sides.canary)
    assert {name: found.message for name, found in stable.items()} == {"node-0": "no, by 1"}
    assert {name: found.message for name, found in canary.items()} == {"node-1": "no, by 2"}
    # By this name the queue knows which events help, and metrics which side refused.
    assert (stable["node-0"].plugin, canary["node-1"].plugin) == ("P", "P/canary")
    assert (await sides.best(sides.stable), await sides.best(sides.canary)) == ("node-1", "node-2")
    assert (len(opened.stable.pods), len(opened.canary.pods)) == (2, 2)
    counted = {name: entry.answered for name, entry in sides.remotes.connections.statistics().items()}
    assert counted == {"P": 2, "P/canary": 2}


@pytest.mark.parametrize("policy", ["Fail"], indirect=True)
async def test_a_plugin_does_not_see_which_side_it_is_on(opened: Opened) -> None:
    """If this fails, plugins get an annotation that no pod has."""
    await opened.sides.refused(opened.sides.canary)
    (pod,) = opened.canary.pods
    assert not pod.metadata.annotations


async def test_a_canary_that_fails_fails_its_own_pods_by_its_policy(opened: Opened, policy: str) -> None:
    """If this fails, a canary that is down has all pods wait, or under Ignore its own."""
    sides = opened.sides
    opened.canary.fails = True
    assert list(await sides.refused(sides.stable)) == ["node-0"]
    assert await sides.best(sides.stable) == "node-1"
    failed = await sides.refused(sides.canary)
    if policy == "Ignore":
        assert failed == {}
        return
    assert {found.code for found in failed.values()} == {status.Code.ERROR}
    assert "P/canary" in next(iter(failed.values())).message
    assert isinstance(await sides.best(sides.canary), status.Status)


@pytest.mark.parametrize("policy", ["Fail"], indirect=True)
async def test_without_its_canary_the_plugin_answers_for_all(opened: Opened) -> None:
    """If this fails, pods of a canary that was rejected, or removed, are scheduled without the plugin."""
    alone = Sides([config for config in opened.sides.configs if config.name == "P"])
    try:
        assert list(await alone.refused(alone.canary)) == ["node-0"]
        assert await alone.best(alone.canary) == "node-1"
    finally:
        await alone.remotes.connections.close()
