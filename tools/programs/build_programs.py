"""Builds the programs of others that checks use, into build/programs: `python -m tools.programs.build_programs`.

Helm renders and installs the chart, actionlint reads the workflow files, and dashboardcheck, of this folder, reads
dashboards by Grafana's published schema. `go.mod` pins them; a cold build takes some minutes, and later calls compare a
digest of what it is built of. Programs that few need have modules and folders of their own.

Standard library only, so that it runs before anything is installed.

Also change: tools/controlplane/go_programs.py (how programs in Go are built).

Tests: tools/programs/test_build_programs.py.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class GoModule:
    """A Go module of this repository that pins programs, which are built into build/`name`."""

    name: str
    source: Path
    packages: tuple[str, ...]
    what: str
    """Of the message before they are built: the programs, and how long it takes."""

    def program(self, name: str) -> Path:
        """Where a program is once it is built."""
        return self._folder / name

    def available(self) -> bool:
        """Whether all programs are there, of the versions that go.mod names."""
        built = all(self.program(package.rpartition("/")[2]).exists() for package in self.packages)
        return built and self._stamp.exists() and self._stamp.read_text() == self._digest()

    def build(self) -> None:
        """Build them where needed. Raises: SystemExit: there is no Go toolchain, or it failed."""
        if self.available():
            return
        go = shutil.which("go")
        if go is None:
            raise SystemExit(f"{self.name}: no Go toolchain on PATH; they need Go 1.26 or newer to be built")
        print(f"{self.name}: building {self.what} the first time", flush=True)
        # Built beside their place and moved: programs that run are left as they are.
        unfinished = self._folder.with_name(f"{self.name}.new")
        unfinished.mkdir(parents=True, exist_ok=True)
        inputs = self._digest()  # before the build, during which sources may change
        command = [go, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", f"{unfinished}{os.sep}", *self.packages]
        if subprocess.run(command, cwd=self.source, preexec_fn=lambda: os.nice(10), check=False).returncode:
            raise SystemExit(f"{self.name}: go build failed")
        self._folder.mkdir(exist_ok=True)
        # First, so that a build that is interrupted here leaves no digest of other inputs beside new programs.
        self._stamp.unlink(missing_ok=True)
        for program in unfinished.iterdir():
            program.replace(self.program(program.name))
        unfinished.rmdir()
        self._stamp.write_text(inputs)

    def sources_of(self, package: str) -> Path:
        """The folder of the module that has the package: what it is built of, and what else is beside it."""
        command = ["go", "list", "-f", "{{.Module.Dir}}", package]
        done = subprocess.run(command, cwd=self.source, capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    @property
    def _folder(self) -> Path:
        return REPOSITORY / "build" / self.name

    @property
    def _stamp(self) -> Path:
        return self.program("inputs")

    def _digest(self) -> str:
        """What the programs are built of: the versions of the module, and its own code."""
        inputs = (self.source / "go.mod", self.source / "go.sum", *sorted(self.source.glob("*/*.go")))
        return hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()


PROGRAMS = GoModule(
    "programs",
    Path(__file__).resolve().parent,
    ("helm.sh/helm/v4/cmd/helm", "github.com/rhysd/actionlint/cmd/actionlint", "./dashboardcheck"),
    "Helm, actionlint and dashboardcheck into build/programs, some minutes",
)
HELM = PROGRAMS.program("helm")
ACTIONLINT = PROGRAMS.program("actionlint")
DASHBOARDCHECK = PROGRAMS.program("dashboardcheck")


def available() -> bool:
    """Whether the programs are there, of the versions that go.mod names."""
    return PROGRAMS.available()


def build() -> None:
    """Build them where needed. Raises: SystemExit: there is no Go toolchain, or it failed."""
    PROGRAMS.build()


if __name__ == "__main__":
    build()
    sys.exit(0)
