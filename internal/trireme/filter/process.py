"""The filter process: its service, served as `phases/phase_process.py` does. It never talks to an API server.

Also change: internal/trireme/score/process.py, internal/trireme/bind/process.py,
internal/trireme/insight/process.py (filter and score are alike here).

Tests: tests/contract/test_local_phases.py.
"""

from collections.abc import Sequence

from trireme.filter import service
from trireme.phases import phase_process
from trireme.v1 import filter_phase_pb2, filter_phase_pb2_grpc, plugin_pb2

PHASE = phase_process.Phase(
    name="filter",
    point=plugin_pb2.EXTENSION_POINT_FILTER,
    descriptor=filter_phase_pb2.DESCRIPTOR.services_by_name["FilterPhase"],
    make=lambda snap, remotes, follow: service.FilterPhase(
        snap,
        remotes.make_filter_plugin,
        remotes.make_reserve_plugin,
        remotes.make_post_filter_plugin,
        remotes.make_filter_plugin,
        follow=follow,
    ),
    add_to=filter_phase_pb2_grpc.add_FilterPhaseServicer_to_server,
    instruments=lambda served: served.instruments(),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(PHASE, argv)
