"""The insight process: its service, served as `phases/phase_process.py` does. It never talks to an API server."""

from collections.abc import Sequence

from trireme.insight import service
from trireme.phases import phase_process
from trireme.v1 import insight_pb2, insight_pb2_grpc, plugin_pb2

INSIGHT = phase_process.Phase(
    name="insight",
    point=plugin_pb2.EXTENSION_POINT_FILTER,
    descriptor=insight_pb2.DESCRIPTOR.services_by_name["InsightService"],
    make=lambda snap, remotes: service.InsightService(snap, remotes.filter_plugin, remotes.score_plugin),
    add_to=insight_pb2_grpc.add_InsightServiceServicer_to_server,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(INSIGHT, argv)
