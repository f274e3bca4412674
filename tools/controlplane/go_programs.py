"""Compiles programs in Go, once for the same inputs, at low priority so that the machine stays usable.

A digest of the inputs stands beside the program: it is of contents, not of times, so that a fresh clone with a restored
`build/` is up to date. A program is linked beside its place and renamed: an interrupted build leaves no half of one,
two builds at once do not disturb each other, and a program that runs stays as it is.

Standard library only, so that it runs before anything is installed.

Also change: tools/programs/build_programs.py (how programs in Go are built).

Tests: tests/e2e/controlplane/test_controlplane_launcher.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path


def toolchain() -> str:
    """The command `go`. Raises: SystemExit: there is none."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("no Go toolchain on PATH; it needs Go 1.26 or newer to be built")
    return go


def digest(inputs: Iterable[bytes]) -> str:
    """A digest of everything that decides what a program is, the Go toolchain apart."""
    return hashlib.sha256(b"\0".join(inputs)).hexdigest()


def is_built(program: Path, inputs: str) -> bool:
    """Whether the program exists and was built from inputs with this digest."""
    stamp = program.with_suffix(".inputs")
    return program.exists() and stamp.exists() and stamp.read_text().strip() == inputs


def compile_program(
    program: Path,
    inputs: str,
    command: Iterable[str],
    folder: Path,
    *,
    package: str = ".",
    environment: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> None:
    """Compile a package of the module in `folder` with a command of Go, such as `build` and its flags.

    Raises: SystemExit with a line where that is impossible; if `quiet`, with the first errors, which are not printed.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    stamp = program.with_suffix(".inputs")
    try:
        done = subprocess.run(
            [toolchain(), *command, "-o", str(unfinished), package],
            cwd=folder,
            env=environment,
            preexec_fn=lambda: os.nice(10),
            check=False,
            stderr=subprocess.PIPE if quiet else None,
            text=True,
        )
        if done.returncode != 0:
            raise SystemExit(f"go failed to compile {program.name}, exit code {done.returncode}{_why(done.stderr)}")
        # First, so that a build that is interrupted here leaves no stamp of other inputs beside the new program.
        stamp.unlink(missing_ok=True)
        unfinished.replace(program)
        stamp.write_text(inputs + "\n")
    finally:
        unfinished.unlink(missing_ok=True)


def _why(output: str | None) -> str:
    """The first errors of Go, without its progress."""
    lines = [line for line in (output or "").splitlines() if not line.startswith("go: downloading")]
    return "".join(f"\n{line}" for line in lines[:4])
