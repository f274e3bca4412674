"""A recorded cluster with a plugin that is a service at all points of filter and score, and its replay without it."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.contract.plugin_servers import on_the_sdk
from tests.helpers.recorded_decisions import RecordedCluster
from trireme import sdk
from trireme.remote import remote_client
from trireme.replay import decision_replay
from trireme.v1 import filter_pb2, recording_pb2, snapshot_pb2, status_pb2


class Moody:
    """Answers otherwise each time that it is called, so that nothing but its recorded answers gives the same again."""

    def __init__(self, depends_on: sdk.Dependency, *, normalizes: bool, copies: bool = False) -> None:
        self.info = sdk.Info("Moody", depends_on=depends_on, score_copies=copies)
        self._calls = itertools.count(1)
        if normalizes:
            self.normalize_scores = self._normalize_scores

    def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        number = next(self._calls)
        return [sdk.unschedulable(f"mood {number % 3}") if (number + at) % 5 == 0 else None for at in range(len(nodes))]

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        number = next(self._calls)
        return [(number * 37 + at * 11) % 101 for at in range(len(nodes))]

    def _normalize_scores(self, call: sdk.Call, nodes: Sequence[Any], scores: Sequence[int]) -> list[int]:
        number = next(self._calls)
        return [(score + number) % 101 for score in scores]

    def reserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> Any:
        number = next(self._calls)
        if number % 3 == 0:
            return sdk.unschedulable(f"nothing left for {placement.pod.name}")
        claim = snapshot_pb2.ClusterObject()
        claim.persistent_volume_claim.metadata.name = f"claim-{number}"
        success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
        return filter_pb2.Reservation(status=success, assumed=[claim], state=b"for PreBind")

    def post_filter(self, call: sdk.Call, columns: filter_pb2.NodeColumns) -> sdk.Verdict:
        return sdk.unschedulable(f"no room, call {next(self._calls)}")


@asynccontextmanager
async def recorded(folder: Path, plugin: Moody) -> AsyncIterator[RecordedCluster]:
    """A cluster that the plugin takes part in."""
    async with on_the_sdk(plugin, folder) as address:
        info = await remote_client.handshake("Moody", address, deadline_seconds=10)
        config = snapshot_pb2.RemotePlugin(
            name="Moody",
            endpoints=[address],
            deadline_ms=20_000,
            info=info,
            failure_policy=snapshot_pb2.FAILURE_POLICY_FAIL,
        )
        cluster = await RecordedCluster(5, config).open()
        try:
            yield cluster
        finally:
            await cluster.remotes.connections.close()


async def replayed(
    cluster: RecordedCluster, frames: Sequence[recording_pb2.RecordedFrame], header: recording_pb2.RecordingHeader
) -> tuple[decision_replay.ReplayCounts, list[decision_replay.Difference]]:
    replay = decision_replay.DecisionReplay(header)
    found = [each async for each in replay.replay(frames)]
    return replay.counts, found
