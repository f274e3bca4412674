"""The score process: its service, served as `phases/phase_process.py` does. It never talks to an API server.

Also change: internal/trireme/filter/process.py, internal/trireme/bind/process.py,
internal/trireme/insight/process.py (filter and score are alike here).

Tests: tests/contract/test_local_phases.py.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from trireme.phases import phase_process, process_flags
from trireme.rpc import grpc_server
from trireme.score import service
from trireme.v1 import plugin_pb2, score_phase_pb2, score_phase_pb2_grpc
from trireme_kube.componentbase import supervision

PHASE = phase_process.Phase(
    name="score",
    point=plugin_pb2.EXTENSION_POINT_SCORE,
    descriptor=score_phase_pb2.DESCRIPTOR.services_by_name["ScorePhase"],
    make=lambda snap, remotes: service.ScorePhase(snap, remotes.make_score_plugin, remotes.make_score_plugin),
    add_to=score_phase_pb2_grpc.add_ScorePhaseServicer_to_server,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(PHASE, argv)


def open_services(
    arguments: Sequence[str], supervisor: supervision.Supervisor
) -> AbstractAsyncContextManager[Sequence[grpc_server.Service]]:
    """The services, for a frontend that serves them in its own process; that has set up the log, as the flags say."""
    return phase_process.open_services(PHASE, process_flags.ProcessFlags(), None, supervisor)
