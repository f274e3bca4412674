"""The score process: its service, served as `phases/phase_process.py` does. It never talks to an API server.

Also change: internal/trireme/filter/process.py, internal/trireme/bind/process.py,
internal/trireme/insight/process.py (filter and score are alike here).

Tests: tests/contract/test_local_phases.py.
"""

from collections.abc import Sequence

from trireme.phases import phase_process
from trireme.score import service
from trireme.v1 import plugin_pb2, score_phase_pb2, score_phase_pb2_grpc

PHASE = phase_process.Phase(
    name="score",
    point=plugin_pb2.EXTENSION_POINT_SCORE,
    descriptor=score_phase_pb2.DESCRIPTOR.services_by_name["ScorePhase"],
    make=lambda snap, remotes, follow: service.ScorePhase(
        snap, remotes.make_score_plugin, remotes.make_score_plugin, follow=follow
    ),
    add_to=score_phase_pb2_grpc.add_ScorePhaseServicer_to_server,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    return phase_process.run(PHASE, argv)
