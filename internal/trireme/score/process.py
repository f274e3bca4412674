"""The score process: flags, and the services it serves. It never talks to an API server."""

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trireme.replica import phase_metrics, phase_process, remote_plugin
from trireme.replica.grpc_server import Service
from trireme.score import service
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, score_pb2, score_pb2_grpc


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run("trireme-score", "The score phase of the Trireme scheduler.", argv, _lifespan)


@asynccontextmanager
async def _lifespan(options: argparse.Namespace) -> AsyncIterator[Sequence[Service]]:
    def asker() -> cycle_pb2.Cycle:
        return phase.follow.asker()

    snap = snapshot.Snapshot()
    remotes = remote_plugin.RemotePlugins(snap, asker)
    phase = service.ScoreService(snap, remotes.score_plugin)
    hosted = phase_process.HostedPlugins(phase.follow.instance, plugin_pb2.EXTENSION_POINT_SCORE, lambda: phase.chains)
    measured = phase_metrics.serve_follower(
        options.metrics_listen, "score", phase.follow, remotes.statistics, phase.statistics
    )
    try:
        async with measured:
            yield (
                *phase_process.shared_services(phase.follow, hosted),
                Service(
                    score_pb2.DESCRIPTOR.services_by_name["ScoreService"],
                    lambda server: score_pb2_grpc.add_ScoreServiceServicer_to_server(phase, server),
                ),
            )
    finally:
        await remotes.close()
