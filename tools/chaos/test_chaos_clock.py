"""The clocks of the processes that `make chaos` breaks."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tools.chaos import chaos_clock

PROGRAM = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_wall_clock_of_a_running_process_moves_and_no_other_does(tmp_path: pathlib.Path) -> None:
    """A fault of a clock would be none, or would move the clock that deadlines go by."""
    clock = chaos_clock.Clock(tmp_path / "clock", chaos_clock.build_library(tmp_path))
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}

    def start(environment: dict[str, str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def read(process: subprocess.Popen[str]) -> tuple[float, float]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        wall, monotonic = map(float, process.stdout.readline().split())
        return wall, monotonic

    with start({**plain, **clock.environment}) as moved, start(plain) as other:
        for shift in (0.0, 3600.0, -120.0, 0.0):
            clock.shift(shift)
            before, mine, after = read(other), read(moved), read(other)
            assert before[0] - 1.0 <= mine[0] - shift <= after[0] + 1.0
            assert before[1] <= mine[1] <= after[1]
