"""Builds Jaeger, a collector and store of traces, into build/jaeger: `python -m tools.programs.build_jaeger`.

A module of its own, as it takes ten minutes and few need it. Standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.programs.build_programs import GoModule

PROGRAMS = GoModule(
    "jaeger",
    Path(__file__).resolve().parent / "jaeger",
    ("github.com/jaegertracing/jaeger/cmd/jaeger",),
    "Jaeger into build/jaeger, ten minutes",
)
JAEGER = PROGRAMS.program("jaeger")


if __name__ == "__main__":
    PROGRAMS.build()
    sys.exit(0)
