"""Builds what clusters run beside Kubernetes: `python -m tools.programs.build_addons`.

cert-manager makes certificates, and metrics-server measures pods for autoscalers. Each has a Go module of its own, as
they use different versions of Kubernetes' libraries; a cold build takes some minutes. Standard library only.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.programs import build_programs


@dataclass(frozen=True, slots=True)
class Addon:
    """A program, by the folder of its Go module and the package in it."""

    name: str
    package: str

    @property
    def program(self) -> Path:
        """Where it is built."""
        return self._folder / self.package.rpartition("/")[2]

    def available(self) -> bool:
        """Whether it is there, of the version that go.mod names."""
        stamp = self._folder / "inputs"
        return self.program.exists() and stamp.exists() and stamp.read_text() == build_programs.digest(self._module)

    def build(self) -> None:
        """Build it where needed. Raises: SystemExit: there is no Go toolchain, or it failed."""
        if not self.available():
            text = f"building it into build/{self.name} (some minutes the first time)"
            build_programs.build_module(self.name, self._module, self._folder, (self.package,), text)

    def source(self) -> Path:
        """The folder of the module that has the package."""
        command = ["go", "list", "-f", "{{.Module.Dir}}", self.package]
        done = subprocess.run(command, cwd=self._module, capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    @property
    def _module(self) -> Path:
        return build_programs.MODULE / self.name

    @property
    def _folder(self) -> Path:
        return build_programs.REPOSITORY / "build" / self.name


# The last version whose command is in the module that the proxy serves.
CERT_MANAGER = Addon("cert-manager", "github.com/cert-manager/cert-manager/cmd/controller")
METRICS_SERVER = Addon("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server")

if __name__ == "__main__":
    for addon in (CERT_MANAGER, METRICS_SERVER):
        addon.build()
    sys.exit(0)
