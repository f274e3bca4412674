"""What calls remote plugins in tests: a snapshot, one class, and the plugins made for it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.plugin_servers import ScriptedPlugin, fill, remote, scripted
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import filter_state, remote_filter, remote_plugins, remote_score
from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2

PROFILE = "default-scheduler"


class Bench:
    """A snapshot, one class, and remote plugins made for it."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self.snap = snapshot.Snapshot()
        asker = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=9), config_hash=11)
        self.plugins = remote_plugins.RemotePlugins(self.snap, lambda: asker)
        self.table = interfaces.StatusTable()
        self.scores: remote_score.RemoteScoreState | None = None
        self.pod_class: classes.PodClass

    async def serve(self, plugin: ScriptedPlugin, name: str = "p.sock") -> str:
        """Serve the plugin; its target."""
        target = f"unix:{self._folder}/{name}"
        await self._stack.enter_async_context(scripted(target, plugin))
        return target

    def make_filter_plugin(self, nodes: int, *targets: str, **fields: Any) -> remote_filter.RemoteFilterPlugin:
        """The plugin P at Filter, beside so many nodes."""
        made = self.plugins.make_filter_plugin(remote(*targets, **fields), PROFILE)
        self.pod_class = fill(self.snap, nodes)
        return made

    def make_score_plugin(self, nodes: int, *targets: str, **fields: Any) -> remote_score.RemoteScorePlugin:
        """The plugin P at Score, beside so many nodes."""
        made = self.plugins.make_score_plugin(remote(*targets, **fields), PROFILE)
        self.pod_class = fill(self.snap, nodes)
        return made

    async def filter(
        self, plugin: remote_filter.RemoteFilterPlugin, state: bytes = b""
    ) -> interfaces.Verdicts | status.Status | None:
        """Ask about all nodes."""
        slots, answers = self.snap.nodes.live_slots(), filter_state.RemoteFilterState(state)
        failed = await plugin.prepare(self.pod_class, self.snap, answers, slots, self.table)
        if failed is not None or answers.unanswered:
            return failed
        return plugin.filter(self.pod_class, self.snap, answers, slots, self.table)

    async def score(self, plugin: remote_score.RemoteScorePlugin) -> Any:
        """Ask about all nodes."""
        slots = self.snap.nodes.live_slots()
        prepared = await plugin.prepare(self.pod_class, self.snap, self.scores, slots)
        self.scores = prepared.state
        if prepared.failure is not None or prepared.silent:
            return prepared.failure
        return plugin.score(self.pod_class, self.snap, self.scores, slots)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Everything ends with the test."""
    async with AsyncExitStack() as stack:
        made = Bench(stack, tmp_path)
        yield made
        await made.plugins.connections.close()
