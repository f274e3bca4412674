"""Builds the programs of others that checks use, into build/programs: `python -m tools.programs.build_programs`.

Helm renders and installs the chart, actionlint reads the workflow files, and dashboardcheck, of this folder, reads
dashboards by Grafana's published schema. `go.mod` pins them; a cold build takes some minutes, and later calls compare a
digest of what it is built of.

Standard library only, so that it runs before anything is installed.

Also change: tools/controlplane/go_programs.py (how programs in Go are built).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MODULE = Path(__file__).resolve().parent
REPOSITORY = MODULE.parent.parent
FOLDER = REPOSITORY / "build" / "programs"
STAMP = FOLDER / "inputs"
HELM = FOLDER / "helm"
ACTIONLINT = FOLDER / "actionlint"
DASHBOARDCHECK = FOLDER / "dashboardcheck"
PACKAGES = ("helm.sh/helm/v4/cmd/helm", "github.com/rhysd/actionlint/cmd/actionlint", "./dashboardcheck")


def available() -> bool:
    """Whether the programs are there, of the versions that go.mod names."""
    built = all(program.exists() for program in (HELM, ACTIONLINT, DASHBOARDCHECK))
    return built and STAMP.exists() and STAMP.read_text() == digest(MODULE)


def build() -> None:
    """Build them where needed. Raises: SystemExit: there is no Go toolchain, or it failed."""
    if not available():
        text = "building Helm, actionlint and dashboardcheck into build/programs (some minutes the first time)"
        build_module("programs", MODULE, FOLDER, PACKAGES, text)


def build_module(name: str, module: Path, folder: Path, packages: Sequence[str], text: str) -> None:
    """Build the packages of a Go module into the folder, with a file `inputs` of what they are built of.

    `text` is shown before, after the `name`. Raises: SystemExit: there is no Go toolchain, or it failed.
    """
    go = shutil.which("go")
    if go is None:
        raise SystemExit(f"{name}: no Go toolchain on PATH; they need Go 1.26 or newer to be built")
    print(f"{name}: {text}", flush=True)
    # Built beside their place and moved: programs that run are left as they are.
    unfinished = folder.with_name(f"{folder.name}.new")
    unfinished.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", f"{unfinished}{os.sep}", *packages]
    if subprocess.run(command, cwd=module, preexec_fn=lambda: os.nice(10), check=False).returncode:
        raise SystemExit(f"{name}: go build failed")
    folder.mkdir(exist_ok=True)
    # First, so that a build that is interrupted here leaves no digest of other inputs beside new programs.
    (folder / "inputs").unlink(missing_ok=True)
    for program in unfinished.iterdir():
        program.replace(folder / program.name)
    unfinished.rmdir()
    (folder / "inputs").write_text(digest(module))


def digest(module: Path) -> str:
    """What a Go module's programs are built of: its versions, and its own code."""
    inputs = (module / "go.mod", module / "go.sum", *sorted(module.glob("*/*.go")))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()


if __name__ == "__main__":
    build()
    sys.exit(0)
