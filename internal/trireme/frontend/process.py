"""The frontend process: installs signal handlers, forks the forker of its phases, then imports its own modules.

Exit codes are kube-scheduler's: 0 after a signal to stop, 1 if the configuration is wrong or the Lease is lost. Without
leader election kube-scheduler reports every end as an error, and so do we, so that tools that watch exit codes see the
same from both.

Tests: tests/e2e/test_e2e_scheduling.py.
"""

import gc
import sys
from collections.abc import Sequence

from trireme.frontend import phase_modules, reload_signal, stop_signal
from trireme_kube.componentbase.logs import process_output


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal to stop arrives or the Lease is lost. Returns the exit code."""
    stop = stop_signal.StopSignal()
    reload = reload_signal.ReloadSignal(stop.stop)
    process_output.ignore_failed_writes()
    # Before the fork: the forker imports gRPC, and its phases have our format.
    process_output.silence_grpc_core(sys.argv[1:] if argv is None else argv)
    # What is loaded at the start stays: to look through it for garbage all the while costs a twentieth of the start.
    gc.disable()
    from trireme.rpc import forker

    forker_connection = forker.fork_forker(phase_modules.SHARED)
    with forker.without_system_authorities():
        from trireme.frontend import starting

    return starting.start(argv, stop, reload, forker_connection)
