"""Plugins in shadow mode: asked and compared beside filter's and score's own plugins; nothing waits for them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.contract.plugin_servers import fill, on_the_sdk
from trireme import sdk
from trireme.evaluation.filtering import class_verdicts
from trireme.framework import status
from trireme.registry import compared_plugins, filter_profiles, score_profiles
from trireme.remote import compared_filters, compared_scores, comparison_queue, remote_client, remote_plugins
from trireme.snapshot import snapshot
from trireme.v1 import plugin_pb2, snapshot_pb2

NODES = 4


class Picky:
    """Refuses node-1, and likes node-3 best."""

    def __init__(self) -> None:
        self.info = sdk.Info("Picky", depends_on=sdk.Dependency.NODE)
        self.fails = False
        self.asked: list[str] = []

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        self.asked += [node.name for node in nodes]
        if self.fails:
            raise OSError("down")
        return [sdk.unschedulable("no") if node.name == "node-1" else None for node in nodes]

    async def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        if self.fails:
            raise OSError("down")
        return [100 if node.name == "node-3" else 0 for node in nodes]


class Side:
    """The plugin, its configuration, and the snapshot."""

    def __init__(self, plugin: Picky, config: snapshot_pb2.RemotePlugin) -> None:
        config.shadow = True
        self.plugin, self.config = plugin, config
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        self.pod_class = fill(self.snap, NODES)

    def filters(self, *refused: int) -> tuple[compared_filters.ComparedFilters, snapshot_pb2.RemotePlugin]:
        """A comparison with plugins that refuse these slots."""

        async def evaluate(profile: str, class_id: int) -> class_verdicts.ClassVerdicts:
            verdicts = class_verdicts.ClassVerdicts()
            verdicts.ensure_capacity(NODES)
            verdicts.capacity[:] = 10
            verdicts.index[list(refused)] = verdicts.table.intern(status.unschedulable("Own", "full"))
            return verdicts

        made = self.remotes.make_filter_plugin(self.config, "p")
        self.comparisons = made.comparisons
        return compared_filters.ComparedFilters(self.snap, {"p": [made]}, evaluate), self.config

    def scores(self, totals: Sequence[int], weight: int) -> compared_scores.ComparedScores:
        """A comparison with plugins that give these totals."""

        async def find_totals(profile: str, class_id: int) -> compared_scores.Totals | None:
            return np.arange(len(totals)), np.array(totals, dtype=np.int64)

        made = self.remotes.make_score_plugin(self.config, "p")
        self.comparisons = made.comparisons
        return compared_scores.ComparedScores(self.snap, {"p": [(made, weight)]}, find_totals)


@pytest.fixture(name="side")
async def _side(tmp_path: Path) -> AsyncIterator[Side]:
    async with AsyncExitStack() as stack:
        plugin = Picky()
        address = await stack.enter_async_context(on_the_sdk(plugin, tmp_path))
        info = await remote_client.handshake("Picky", address, deadline_seconds=10)
        config = snapshot_pb2.RemotePlugin(name="Picky", endpoints=[address], deadline_ms=5000, info=info)
        side = Side(plugin, config)
        stack.push_async_callback(side.remotes.connections.close)
        yield side


async def test_nodes_that_it_alone_would_refuse_are_counted(side: Side) -> None:
    """If this fails, nobody knows what the plugin would do before it decides."""
    filters, _ = side.filters(0)
    filters.observe("p", side.pod_class.id)
    await filters.queue.wait_until_idle()
    assert sorted(side.plugin.asked) == ["node-1", "node-2", "node-3"]
    assert (side.comparisons.compared, side.comparisons.differed, side.comparisons.refused_nodes) == (1, 1, 1)


async def test_what_the_others_refuse_as_well_makes_no_difference(side: Side) -> None:
    """If this fails, each refusal of the plugin counts, and the figure says nothing."""
    filters, _ = side.filters(1)
    await filters.compare("p", side.pod_class.id)
    assert (side.comparisons.compared, side.comparisons.differed, side.comparisons.refused_nodes) == (1, 0, 0)


async def test_only_nodes_that_are_there_are_compared(side: Side) -> None:
    """If this fails, a node that came or went since Filter's answer breaks the comparison."""
    filters, _ = side.filters()
    fill(side.snap, NODES + 2)
    side.snap.apply(snapshot_pb2.Delta(from_generation=7, to_generation=8, removed_slots=[1]))
    await filters.compare("p", side.pod_class.id)
    assert sorted(side.plugin.asked) == ["node-0", "node-2", "node-3"]
    fill(side.snap, 1)
    side.plugin.asked.clear()
    await filters.compare("p", side.pod_class.id)
    assert side.plugin.asked == ["node-0"]
    assert (side.comparisons.compared, side.comparisons.failed) == (2, 0)


@pytest.mark.parametrize(
    ("totals", "weight", "differs"),
    [
        pytest.param([90, 0, 0, 50], 1, True, id="another-node-wins"),
        pytest.param([190, 0, 0, 50], 1, False, id="the-weight-does-not-suffice"),
        pytest.param([190, 0, 0, 50], 2, True, id="the-weight-suffices"),
        pytest.param([90, 0, 0, 90], 1, False, id="it-decides-a-tie-for-one-of-the-best"),
    ],
)
async def test_whether_the_winner_would_differ_is_counted(
    side: Side, totals: Sequence[int], weight: int, differs: bool
) -> None:
    """If this fails, a plugin that changes every decision looks as if it changed none, or the reverse."""
    scores = side.scores(totals, weight)
    scores.observe("p", side.pod_class.id)
    await scores.queue.wait_until_idle()
    assert (side.comparisons.compared, side.comparisons.differed) == (1, int(differs))


async def test_a_failure_is_counted_and_nothing_else(side: Side) -> None:
    """If this fails, a plugin that fails looks as if it agreed, or its failure reaches a pod."""
    side.plugin.fails = True
    filters, _ = side.filters()
    await filters.compare("p", side.pod_class.id)
    assert (side.comparisons.compared, side.comparisons.differed, side.comparisons.failed) == (1, 0, 1)
    await side.scores([1, 2, 3, 4], 1).compare("p", side.pod_class.id)
    assert side.comparisons.failed == 2
    (entry,) = side.remotes.connections.statistics().values()
    assert entry.comparisons is not None
    assert entry.comparisons.failed == 2


async def test_no_profile_runs_it(side: Side) -> None:
    """If this fails, its answers count."""
    configuration = snapshot_pb2.Configuration(remote_plugins=[side.config])
    profile = configuration.profiles.add(scheduler_name="p")
    for point in (plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE):
        entry = profile.plugin_sets.add(extension_point=point)
        entry.plugins.add(name="NodeName" if point == plugin_pb2.EXTENSION_POINT_FILTER else "ImageLocality", weight=1)
        entry.plugins.add(name="Picky", weight=3)
    chains = filter_profiles.make_filter_chains(configuration, side.remotes.make_filter_plugin)
    assert [plugin.name for plugin in chains["p"].plugins] == ["NodeName"]
    scores = score_profiles.make_score_chains(configuration, side.remotes.make_score_plugin)
    assert [plugin.name for plugin in scores["p"].plugins] == ["ImageLocality"]
    found = compared_plugins.compared_plugins(configuration, plugin_pb2.EXTENSION_POINT_SCORE)
    assert [(remote.name, weight) for remote, weight in found["p"]] == [("Picky", 3)]


async def test_what_waits_is_bounded_and_a_class_is_compared_once() -> None:
    """If this fails, a slow plugin in shadow mode fills the memory, or is asked about one class again and again."""
    compared: list[int] = []
    skipped: list[str] = []
    may_go = asyncio.Event()

    async def compare(profile: str, class_id: int) -> None:
        await may_go.wait()
        compared.append(class_id)
        if class_id == 3:
            raise OSError("unforeseen")

    queue = comparison_queue.ComparisonQueue(compare, skipped.append)
    for class_id in [*range(comparison_queue.MAX_WAITING + 5), 0, 1]:
        queue.request("p", class_id)
    assert skipped == ["p"] * 5
    may_go.set()
    await queue.wait_until_idle()
    assert compared == list(range(comparison_queue.MAX_WAITING))
