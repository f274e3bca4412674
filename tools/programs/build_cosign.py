"""Builds what signs images into build/cosign: `python -m tools.programs.build_cosign`.

cosign signs images and checks signatures; crane pushes images, and serves a registry for tests. A module of its own, as
only a release needs it. Standard library only.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.programs.build_programs import GoModule

PROGRAMS = GoModule(
    "cosign",
    Path(__file__).resolve().parent / "cosign",
    ("github.com/sigstore/cosign/v3/cmd/cosign", "github.com/google/go-containerregistry/cmd/crane"),
    "cosign and crane into build/cosign, some minutes",
)
COSIGN = PROGRAMS.program("cosign")
CRANE = PROGRAMS.program("crane")


if __name__ == "__main__":
    PROGRAMS.build()
    sys.exit(0)
