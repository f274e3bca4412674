"""Builds Jaeger, a collector and store of traces, into build/jaeger: `python -m tools.programs.build_jaeger`.

A module of its own, as it takes ten minutes and few need it. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.programs import build_programs

MODULE = Path(__file__).resolve().parent / "jaeger"
FOLDER = build_programs.REPOSITORY / "build" / "jaeger"
JAEGER = FOLDER / "jaeger"
PACKAGE = "github.com/jaegertracing/jaeger/cmd/jaeger"
_STAMP = FOLDER / "inputs"


def available() -> bool:
    """Whether it is there, of the version that go.mod names."""
    return _STAMP.exists() and _STAMP.read_text() == build_programs.digest(MODULE) and JAEGER.exists()


def build() -> None:
    """Build it where needed. Raises: SystemExit: there is no Go toolchain, or it failed."""
    if available():
        return
    go = shutil.which("go")
    if go is None:
        raise SystemExit("jaeger: no Go toolchain on PATH; Jaeger needs Go 1.26 or newer to be built")
    print("jaeger: building Jaeger into build/jaeger (ten minutes the first time)", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(JAEGER), PACKAGE]
    if subprocess.run(command, cwd=MODULE, preexec_fn=lambda: os.nice(10), check=False).returncode:
        raise SystemExit("jaeger: go build failed")
    _STAMP.write_text(build_programs.digest(MODULE))


if __name__ == "__main__":
    build()
    sys.exit(0)
