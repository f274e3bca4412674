"""The insight process: its service, served as `phases/phase_process.py` does, and over HTTP with `--http-listen`.

Only for callers over HTTP it talks to an API server, which reviews them.
"""

import argparse
import pathlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trireme.insight import recording_flags, service
from trireme.insight.http_api import flags
from trireme.phases import phase_process
from trireme.v1 import insight_pb2, insight_pb2_grpc, plugin_pb2
from trireme_kube.componentbase import supervision


@asynccontextmanager
async def _serve_http(
    served: service.InsightService, options: argparse.Namespace, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """Serve HTTP within the block, if the flags say so. Raises: ListenError."""
    checked = flags.check(options)
    if checked is None:
        yield
        return
    # An HTTP server and client, which insight needs for this alone.
    from trireme.insight.http_api import http_server

    recordings = pathlib.Path(options.record_dir) if options.record_dir else None
    async with http_server.serve(checked, served, supervisor, recordings):
        yield


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that insight alone has."""
    flags.add(parser)
    recording_flags.add(parser)


@asynccontextmanager
async def _extend(
    served: service.InsightService, options: argparse.Namespace, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """Serve HTTP and record within the block, if the flags say so. Raises: ListenError."""
    async with _serve_http(served, options, supervisor), recording_flags.recording(served, options, supervisor):
        yield


INSIGHT = phase_process.Phase(
    name="insight",
    point=plugin_pb2.EXTENSION_POINT_FILTER,
    descriptor=insight_pb2.DESCRIPTOR.services_by_name["InsightService"],
    make=lambda snap, remotes: service.InsightService(snap, remotes.filter_plugin, remotes.score_plugin),
    add_to=insight_pb2_grpc.add_InsightServiceServicer_to_server,
    instruments=lambda served: served.http_metrics.instruments(),
    extension=phase_process.Extension(_add_flags, lambda options: (options.http_client_ca_file,), _extend),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(INSIGHT, argv)
