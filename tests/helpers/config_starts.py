"""Starts of the frontend in this process, for tests: a folder with files, arguments, and what came of it."""

import io
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from trireme.config import gates
from trireme.config.commandline import CompletedConfig, Start, StartOutcome
from trireme.config.gates import FeatureGates
from trireme.config.secure_serving import Lookup
from trireme_kube.componentbase.cli import versions

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start ended."""

    outcome: StartOutcome
    logs: list[str]
    stdout: str
    stderr: str

    @property
    def error(self) -> str:
        """What was reported."""
        return self.outcome.error

    @property
    def completed(self) -> CompletedConfig:
        """What was configured."""
        assert self.outcome.completed is not None, self.outcome.error
        return self.outcome.completed


@dataclass(slots=True)
class Desk:
    """A folder to start in; `KUBECONFIG` is there as `kubeconfig`."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    lookup: Lookup | None = None

    def __post_init__(self) -> None:
        (self.folder / "kubeconfig").write_text(KUBECONFIG)

    def write(self, name: str, text: str) -> str:
        """Writes a file; answers its path."""
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def start(self, *arguments: str) -> Ended:
        """Starts with exactly these arguments."""
        logs: list[str] = []
        stdout, stderr = io.StringIO(), io.StringIO()
        start = Start(arguments, self.environment, stdout, stderr, logs.append, lookup=self.lookup)
        with chdir(self.folder):
            outcome = start.run()
        if outcome.completed and outcome.completed.serving:
            outcome.completed.serving.listener.close()
        return Ended(outcome, logs, stdout.getvalue(), stderr.getvalue())

    def configure(self, text: str, *arguments: str) -> Ended:
        """Starts with a configuration (without its header) and a kubeconfig, and without a port."""
        text = f"{HEADER}{text}"
        if "clientConnection" not in text:
            text += f"\nclientConnection: {{kubeconfig: {self.folder}/kubeconfig}}\n"
        return self.start("--config", self.write("config.yaml", text), "--secure-port=0", *arguments)


def feature_gates(**asked: bool) -> FeatureGates:
    """Feature gates as of today, some of them set."""
    return gates.set_gates(asked, versions.effective((), ())).gates
