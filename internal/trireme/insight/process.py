"""The insight process: its service, served as `phases/phase_process.py` does, and over HTTP with `--http-listen`.

Only for callers over HTTP it talks to an API server, which reviews them.

Also change: internal/trireme/filter/process.py, internal/trireme/score/process.py,
internal/trireme/bind/process.py (filter and score are alike here).

Tests: tests/contract/test_insight_process.py.
"""

import pathlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trireme.insight import service
from trireme.insight.flags import InsightFlags
from trireme.phases import phase_process
from trireme.phases.process_flags import ProcessFlags
from trireme.recording import segment_writer
from trireme.v1 import insight_pb2, insight_pb2_grpc, plugin_pb2
from trireme_kube.componentbase import supervision


@asynccontextmanager
async def _serve_http(
    served: service.InsightService, process: ProcessFlags, own: InsightFlags, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """Serve HTTP within the block, if the flags say so. Raises: ListenError."""
    checked = own.http(process)
    if checked is None:
        yield
        return
    # An HTTP server and client, which insight needs for this alone.
    from trireme.insight.http_api import http_server

    recordings = pathlib.Path(own.record_dir) if own.record_dir else None
    async with http_server.serve(checked, served, supervisor, recordings):
        yield


@asynccontextmanager
async def recording(
    served: service.InsightService, own: InsightFlags, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """Record what insight receives, and check a sample of it, if the flags say so; before its first stream."""
    if not own.record_dir:
        yield
        return
    limits = segment_writer.Limits(own.record_max_bytes, own.record_max_age)
    writer = segment_writer.RecordingWriter(pathlib.Path(own.record_dir), limits)
    recorder = served.record_to(writer)
    assert served.self_check is not None
    async with recorder.running(supervisor), served.self_check.running(supervisor):
        yield


@asynccontextmanager
async def _extend(
    served: service.InsightService, process: ProcessFlags, own: InsightFlags, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """Serve HTTP and record within the block, if the flags say so. Raises: ListenError."""
    async with _serve_http(served, process, own, supervisor), recording(served, own, supervisor):
        yield


INSIGHT = phase_process.Phase(
    name="insight",
    point=plugin_pb2.EXTENSION_POINT_FILTER,
    descriptor=insight_pb2.DESCRIPTOR.services_by_name["InsightService"],
    make=lambda snap, remotes, _: service.InsightService(snap, remotes.make_filter_plugin, remotes.make_score_plugin),
    add_to=insight_pb2_grpc.add_InsightServiceServicer_to_server,
    instruments=lambda served: served.instruments(),
    extension=phase_process.Extension(InsightFlags, lambda own: (own.http_client_ca_file,), _extend),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(INSIGHT, argv)
