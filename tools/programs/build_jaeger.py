"""Builds Jaeger, a collector and store of traces, into build/jaeger: `python -m tools.programs.build_jaeger`.

A module of its own, as it takes ten minutes and few need it. Standard library only.
"""

from __future__ import annotations

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
    if not available():
        text = "building Jaeger into build/jaeger (ten minutes the first time)"
        build_programs.build_module("jaeger", MODULE, FOLDER, (PACKAGE,), text)


if __name__ == "__main__":
    build()
    sys.exit(0)
