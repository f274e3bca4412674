"""Builds the real control plane, once: `python -m tools.controlplane.build_controlplane` leaves `build/controlplane`.

With `--node` also `build/node`, the programs of a node.

A cold build compiles most of Kubernetes (some six minutes on two cores, at low priority so that the machine stays
usable); every later call only compares a digest of the inputs with the one recorded beside the binary and says that
there is nothing to do. The digest is of contents, not of times: a fresh clone with a restored `build/` is up to date.

Standard library only, so that it runs before anything is installed.
"""

# Also change: tools/programs/build_programs.py (how programs in Go are built).

# Also change: tools/controlplane/launcher.py, tools/controlplane/main.go (the programs of the control plane).

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

MODULE = Path(__file__).resolve().parent
REPOSITORY = MODULE.parent.parent
BINARY = REPOSITORY / "build" / "controlplane"
NODE = REPOSITORY / "build" / "node"
SOURCES = {BINARY.name: "main.go", NODE.name: "node/main.go"}


def kubernetes_version(go_mod: str) -> str:
    """The Kubernetes release that go.mod pins, such as v1.37.0."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", go_mod, re.MULTILINE)
    if not found:
        raise SystemExit("tools/controlplane/go.mod does not require k8s.io/kubernetes")
    return found.group(1)


def ldflags(version: str) -> str:
    """Linker flags: no debug tables (half the size), and the version that the programs report of themselves."""
    return f"-s -w -X k8s.io/component-base/version.gitVersion={version}"


def digest(binary: Path = BINARY, module: Path = MODULE) -> str:
    """A digest of everything that decides what the binary is, the Go toolchain apart."""
    inputs = (SOURCES[binary.name], "go.mod", "go.sum")
    return hashlib.sha256(b"\0".join((module / name).read_bytes() for name in inputs)).hexdigest()


def up_to_date(binary: Path = BINARY, module: Path = MODULE) -> bool:
    """Whether the binary exists and was built from the inputs as they are now."""
    stamp = binary.with_suffix(".inputs")
    return binary.exists() and stamp.exists() and stamp.read_text().strip() == digest(binary, module)


def build(binary: Path = BINARY) -> None:
    """Compiles and links the binary; raises SystemExit with one line where that is impossible."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("controlplane: no Go toolchain on PATH; it needs Go 1.26 or newer to be built")
    binary.parent.mkdir(parents=True, exist_ok=True)
    flags = ldflags(kubernetes_version((MODULE / "go.mod").read_text()))
    inputs = digest(binary)
    started = time.monotonic()
    print(f"controlplane: building {binary.relative_to(REPOSITORY)} (about six minutes the first time)", flush=True)
    # Linked beside its final place and renamed: an interrupted build leaves no half binary, and a running one stays.
    unfinished = binary.with_suffix(".new")
    package = f"./{Path(SOURCES[binary.name]).parent}"
    command = [go, "build", "-buildvcs=false", "-ldflags", flags, "-o", str(unfinished), package]
    outcome = subprocess.run(command, cwd=MODULE, preexec_fn=lambda: os.nice(10), check=False)
    if outcome.returncode != 0:
        raise SystemExit(f"controlplane: go build failed with exit code {outcome.returncode}")
    unfinished.replace(binary)
    binary.with_suffix(".inputs").write_text(inputs + "\n")
    print(f"controlplane: built in {time.monotonic() - started:.0f} s, {binary.stat().st_size >> 20} MiB")


def main() -> int:
    """Builds where needed; with --check only says whether a build is needed (exit code 1)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="build nothing; exit 1 where the binary is out of date")
    parser.add_argument("--node", action="store_true", help="also the programs of a node")
    arguments = parser.parse_args()
    for binary in (BINARY, NODE) if arguments.node else (BINARY,):
        if up_to_date(binary):
            print(f"controlplane: {binary.relative_to(REPOSITORY)} is up to date")
        elif arguments.check:
            print("controlplane: not built, or built from other inputs; run `make controlplane`", file=sys.stderr)
            return 1
        else:
            build(binary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
