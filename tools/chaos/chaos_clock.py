"""Moves the wall clocks of single processes while they run, by a number of seconds in a file.

Programs that read the clock through libc, as Python and gRPC do, preload a library (`clock_shift.c`). Go reads it
without libc, so kube-scheduler is built with another `time.Now` (`clockscheduler`); its sources and those of
its modules are unchanged. Monotonic clocks stay as they are on both sides.

Also change: tools/chaos/clock_shift.c, tools/controlplane/clockscheduler/main.go (the environment variable).
"""

from __future__ import annotations

import json
import pathlib
import struct
import subprocess
import tempfile

from tools.controlplane import build_controlplane, go_programs, launcher

SOURCE = pathlib.Path(__file__).with_name("clock_shift.c")
SCHEDULER = launcher.REPOSITORY / "build" / "clockscheduler"

_MODULE = build_controlplane.MODULE
_INPUTS = (_MODULE / "clockscheduler" / "main.go", _MODULE / "go.mod", _MODULE / "go.sum")

_READS = "\tsec, nsec, mono := runtimeNow()\n"
_READS_AHEAD = f"{_READS}\tsec += Ahead\n"
_AHEAD = "\n// Ahead is added to the seconds that Now reads of the wall clock.\nvar Ahead int64\n"


def build_library(folder: pathlib.Path) -> pathlib.Path:
    """Compile the library into a folder. Raises: OSError or CalledProcessError where there is no C compiler."""
    library = folder / "clock_shift.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


def build_scheduler() -> None:
    """Build kube-scheduler with a clock that can be moved, once: some minutes.

    Raises: OSError, CalledProcessError, SystemExit or ValueError where that is impossible.
    """
    inputs = go_programs.digest(each.read_bytes() for each in _INPUTS)
    if go_programs.is_built(SCHEDULER, inputs):
        return
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    original = pathlib.Path(root, "src", "time", "time.go")
    text = original.read_text()
    if _READS not in text:
        raise ValueError(f"{original} reads the clock in another way than expected")
    with tempfile.TemporaryDirectory() as folder:
        changed, overlay = pathlib.Path(folder, "time.go"), pathlib.Path(folder, "overlay.json")
        changed.write_text(text.replace(_READS, _READS_AHEAD) + _AHEAD)
        overlay.write_text(json.dumps({"Replace": {str(original): str(changed)}}))
        version = build_controlplane.kubernetes_version((_MODULE / "go.mod").read_text())
        flags = ("-buildvcs=false", "-tags", "clockahead", "-overlay", str(overlay))
        command = ("build", *flags, "-ldflags", build_controlplane.ldflags(version))
        go_programs.compile_program(SCHEDULER, inputs, command, _MODULE, package="./clockscheduler")


class Clock:
    """The wall clock of one process."""

    def __init__(self, file: pathlib.Path, library: pathlib.Path | None = None) -> None:
        """`library` is what the process preloads; None: it reads the file by itself."""
        self._file = file
        self.environment = {"CLOCK_SHIFT": str(file)}
        if library:
            self.environment["LD_PRELOAD"] = str(library)
        self.shift(0.0)

    def shift(self, seconds: float) -> None:
        """Move it to so many seconds ahead of the true time."""
        mode = "r+b" if self._file.exists() else "wb"  # never truncated: the process may have it mapped
        with self._file.open(mode, buffering=0) as file:
            file.write(struct.pack("<d", seconds))
