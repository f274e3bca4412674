"""gRPC's older poller is used: what internal/trireme/__init__.py turns off is known to the gRPC that is installed."""

import os
import subprocess
import sys


def _errors(**environment: str) -> str:
    """What a process that opens a channel writes to standard error."""
    program = 'import trireme, grpc; grpc.insecure_channel("unix:none").close()'
    without = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=without | environment, capture_output=True, text=True, check=True
    )
    return done.stderr


def test_grpc_knows_the_experiments_that_are_turned_off() -> None:
    """Every process would begin with an error of gRPC's, and wake twice as many threads for a message."""
    assert _errors() == ""


def test_an_administrator_may_choose_others() -> None:
    assert "Unknown experiment: none_such" in _errors(GRPC_EXPERIMENTS="-none_such")
