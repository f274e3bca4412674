"""The two sides: Trireme with two frontends and two replicas of each phase, and two replicas of kube-scheduler.

Both have the same KubeSchedulerConfiguration and so the same Lease, each client reaches each server by an address of
its own (`chaos_isolation.Network`), and all have TLS between them.

Also change: deploy/make_certificates.py, deploy/chart/values.yaml (names of the files of certificates).
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import yaml

from tools.chaos import chaos_clock, chaos_isolation
from tools.chaos.chaos_faults import API_SERVER, PHASES
from tools.chaos.chaos_processes import Program
from tools.controlplane import launcher

TRIREME, KUBE_SCHEDULER = "trireme", "kube-scheduler"
REPLICAS = 2

_API_SERVER_NUMBER = 1
_PORTS = {"frontend": 7100, "filter": 7200, "score": 7300, "bind": 7400, KUBE_SCHEDULER: 7500}


def lease(seconds: int) -> dict[str, Any]:
    """The leader election of both sides."""
    return {
        "leaderElect": True,
        "leaseDuration": f"{seconds}s",
        "renewDeadline": f"{seconds * 3 // 4}s",
        "retryPeriod": "500ms",
    }


class Side:
    """The processes of a side, by name, and the edges between them."""

    def __init__(
        self, name: str, plane: launcher.ControlPlane, folder: pathlib.Path, lease_seconds: int, clocks: bool
    ) -> None:
        """`folder` is for configurations; the logs have a disk of their own in it. `clocks`: those can be moved."""
        self.name = name
        self.network = chaos_isolation.Network()
        self.disk = chaos_isolation.LogDisk(folder / "logs")
        self._plane = plane
        self._folder = folder
        self._clocks = clocks
        self._election = lease(lease_seconds)
        self.programs: dict[str, Program] = {}
        if name == TRIREME:
            self._add_trireme()
        else:
            for replica in range(REPLICAS):
                self._add_kube_scheduler(replica)

    @property
    def schedulers(self) -> list[Program]:
        """The processes that contend for the Lease."""
        first = "frontend" if self.name == TRIREME else KUBE_SCHEDULER
        return [self.programs[f"{first}-{replica}"] for replica in range(REPLICAS)]

    def address(self, client: str, server: str) -> str:
        """The address of the edge between two processes."""
        return self.network.address(_number(client), _number(server))

    def start(self) -> None:
        """Start all."""
        for program in self.programs.values():
            program.start()

    def end(self) -> None:
        """End all for good."""
        for program in self.programs.values():
            program.kill()

    def _add_trireme(self) -> None:
        library = chaos_clock.build_library(self._folder)
        script = launcher.REPOSITORY / "deploy" / "make_certificates.py"
        certificates = self._folder / "certificates"
        subprocess.run([sys.executable, str(script), "--directory", str(certificates)], check=True, capture_output=True)
        for phase in PHASES:
            for replica in range(REPLICAS):
                self._add_phase(phase, replica, certificates / phase, library)
        for replica in range(REPLICAS):
            self._add_frontend(replica, certificates / "frontend", library)

    def _add_phase(self, phase: str, replica: int, certificates: pathlib.Path, library: pathlib.Path) -> None:
        name, port = f"{phase}-{replica}", _PORTS[phase] + replica
        command = [
            *(sys.executable, str(launcher.REPOSITORY / "cmd" / phase)),
            f"--listen=0.0.0.0:{port}",
            f"--tls-cert-file={certificates}/tls.crt",
            f"--tls-private-key-file={certificates}/tls.key",
            f"--client-ca-file={certificates}/ca.crt",
            "--allowed-identities=spiffe://cluster.local/ns/trireme-system/sa/trireme-frontend",
        ]
        if phase == "bind":
            command += [f"--kubeconfig={self._kubeconfig(name)}", "--kube-api-qps=-1"]
        self._add(name, command, port, library, https=False)

    def _add_frontend(self, replica: int, certificates: pathlib.Path, library: pathlib.Path) -> None:
        name, port = f"frontend-{replica}", _PORTS["frontend"] + replica
        phases = {
            phase: {
                "endpoints": [
                    f"{self.address(name, f'{phase}-{number}')}:{_PORTS[phase] + number}" for number in range(REPLICAS)
                ],
                "allowedIdentities": [f"trireme-{phase}.trireme-system.svc"],
            }
            for phase in PHASES
        }
        files = {f"{key}File": f"{certificates}/{file}" for key, file in _TLS_FILES.items()}
        document = {
            "apiVersion": "trireme.dev/v1alpha1",
            "kind": "TriremeConfiguration",
            "phases": phases,
            "tls": files,
        }
        own = self._write(f"{name}.trireme.yaml", document)
        command = [sys.executable, str(launcher.REPOSITORY / "cmd" / "frontend"), f"--trireme-config={own}"]
        self._add(name, [*command, *self._scheduler_flags(name, port)], port, library, https=True)

    def _add_kube_scheduler(self, replica: int) -> None:
        name, port = f"{KUBE_SCHEDULER}-{replica}", _PORTS[KUBE_SCHEDULER] + replica
        binary = chaos_clock.SCHEDULER if self._clocks else self._plane.binary
        command = [str(binary), "kube-scheduler", *self._scheduler_flags(name, port)]
        self._add(name, command, port, None, https=True)

    def _scheduler_flags(self, name: str, port: int) -> list[str]:
        """The flags that both sides take, with the configuration that both have."""
        # Packed: the holes that pods leave in full nodes are filled first, so most nodes are full.
        strategy = {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        }
        fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
        plugins = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 100}]}}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self._kubeconfig(name)), "qps": 5000, "burst": 5000},
            "leaderElection": self._election,
            "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": [fit]}],
        }
        config = self._write(f"{name}.yaml", document)
        cert_dir = self._folder / f"{name}.certificates"
        return [f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={cert_dir}"]

    def _kubeconfig(self, name: str) -> pathlib.Path:
        """The administrator's kubeconfig by an edge of its own."""
        document = yaml.safe_load(self._plane.kubeconfig.read_text())
        port = self._plane.server.rpartition(":")[2]
        cluster = document["clusters"][0]["cluster"]
        cluster["server"] = f"https://{self.address(name, API_SERVER)}:{port}"
        cluster["tls-server-name"] = "127.0.0.1"
        return self._write(f"{name}.kubeconfig", document)

    def _write(self, name: str, document: dict[str, Any]) -> pathlib.Path:
        path = self._folder / name
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def _add(self, name: str, command: list[str], port: int, library: pathlib.Path | None, https: bool) -> None:
        clock = chaos_clock.Clock(self._folder / f"{name}.clock", library)
        self.programs[name] = Program(name, command, self.disk.folder / f"{name}.log", port, clock, https)


_TLS_FILES = {"cert": "tls.crt", "key": "tls.key", "ca": "ca.crt"}


def _number(name: str) -> int:
    """A number for a process, for addresses."""
    if name == API_SERVER:
        return _API_SERVER_NUMBER
    kind, _, replica = name.rpartition("-")
    return 10 * (2 + list(_PORTS).index(kind)) + int(replica)
