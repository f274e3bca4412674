"""Trireme on a cluster with nodes: installed from the chart as a user would, and what runs there.

Tests: tools/node/test_installation.py, tools/node/test_node_cluster.py.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy import make_certificates
from deploy.make_manifests import CHART
from tools.controlplane import access_log, launcher
from tools.node import permissions
from tools.node.leftovers import CGROUPS
from tools.node.node_cluster import FOLDER, SCHEDULER, NodeCluster
from tools.node.runtime import PAUSE
from tools.programs import programs_fixture

NAMESPACE = "trireme-system"
SERVICES = ("frontend", "filter", "score", "bind")
PHASES = SERVICES[1:]
RELEASE = "trireme"
_USERS = (SCHEDULER, *(f"system:serviceaccount:{NAMESPACE}:trireme-{each}" for each in (*SERVICES, "shadow")))

_SECONDS = 300
# Room for a small Python to start; what it then takes is less than a service has, which the kernel chooses to kill.
_LITTLE_BYTES = 24 << 20
_USE_MEMORY = "taken = [bytearray(1 << 20) for _ in range(256)]"

Json = dict[str, Any]


class TrialFailedError(Exception):
    """Something did not come to be in time."""


class Installation:
    """A release of the chart in one cluster."""

    def __init__(self, cluster: NodeCluster, home: Path) -> None:
        """`home` takes Helm's caches and the certificates."""
        self.cluster = cluster
        self._home = home
        self._requests_checked = 0
        self._grants: set[access_log.Grant] = set()
        self._flags = ("--namespace", NAMESPACE, "--kubeconfig", cluster.plane.kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Kubectl as the administrator, in Trireme's namespace. Raises: ControlPlaneError."""
        return self.cluster.plane.kubectl(f"--namespace={NAMESPACE}", *arguments, stdin=stdin, timeout=_SECONDS + 30)

    def trireme(self, *arguments: str, token: str = "") -> "subprocess.CompletedProcess[str]":
        """`kubectl trireme`, as kubectl would run it, as the administrator or as the user of a token."""
        plane = self.cluster.plane
        kubectl = self._home / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {plane.binary} kubectl "$@"\n')
        kubectl.chmod(0o755)
        kubeconfig = self._home / "kubeconfig"
        kubeconfig.write_bytes(Path(plane.kubeconfig).read_bytes())
        environment = {**os.environ, "PATH": f"{self._home}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}
        if token:
            of_user = ("config", "set-credentials", "reader", f"--token={token}")
            for change in (of_user, ("config", "set-context", "--current", "--user=reader")):
                subprocess.run((str(kubectl), *change), env=environment, check=True, capture_output=True)
        command = (str(Path(sys.executable).with_name("kubectl-trireme")), *arguments)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def make_certificates(self) -> None:
        """Make the namespace and the Secrets that the chart names, for a cluster without cert-manager."""
        make_certificates.make(self._home / "certificates", NAMESPACE, 1)
        self.cluster.plane.kubectl("create", "namespace", NAMESPACE)
        for service in SERVICES:
            folder = self._home / "certificates" / service
            self.kubectl("create", "secret", "generic", f"trireme-{service}-tls", f"--from-file={folder}")

    def install(self, *settings: str, chart: Path = CHART) -> None:
        """Install the chart with values as of `--set`."""
        flags = [f"--set={setting}" for setting in ("certificates.source=secrets", *settings)]
        programs_fixture.helm("install", RELEASE, chart, *self._flags, *flags, home=self._home)
        if chart == CHART:
            rendered = programs_fixture.helm("get", "manifest", RELEASE, *self._flags, home=self._home)
            self._grants.update(access_log.grants(list(filter(None, yaml.safe_load_all(rendered)))))

    def upgrade(self, *settings: str) -> None:
        """Go from what is installed to the chart of this release, and to these values."""
        flags = ["--reset-then-reuse-values", *(f"--set={setting}" for setting in settings)]
        programs_fixture.helm("upgrade", RELEASE, CHART, *self._flags, *flags, home=self._home)

    def run_chart_test(self) -> None:
        """Run the test that the chart has for what is installed (`helm test`)."""
        programs_fixture.helm("test", RELEASE, *self._flags, home=self._home)

    def roll_back(self) -> None:
        """Go back to what was installed before the last upgrade."""
        programs_fixture.helm("rollback", RELEASE, *self._flags, home=self._home)

    def uninstall(self) -> None:
        """Uninstall it as the chart's README has it, so that the Lease is released, and wait until no pod is left.

        Raises: TrialFailedError: before that a request was refused.
        """
        self.check_requests()
        with contextlib.suppress(launcher.ControlPlaneError):  # shadow has no frontend
            self.kubectl("scale", "deployment/trireme-frontend", "--replicas=0")
            self.kubectl("wait", "--for=delete", "pod", f"--selector={_of('frontend')}", f"--timeout={_SECONDS}s")
        programs_fixture.helm("uninstall", RELEASE, *self._flags, home=self._home)
        self.kubectl("wait", "--for=delete", "pod", "--all", f"--timeout={_SECONDS}s")
        # Processes outlive the permissions that go with the release.
        self._requests_checked = len(self.requests())

    def requests(self) -> list[access_log.Request]:
        """What the scheduler's processes asked the API server for, in all installations so far."""
        return access_log.requests(FOLDER, _USERS)

    def check_requests(self) -> None:
        """Raises: TrialFailedError: the API server refused a request for lack of a permission."""
        if refused := {each for each in self.requests()[self._requests_checked :] if not each.allowed}:
            raise TrialFailedError(f"refused: {sorted(map(str, refused))}")

    def check_permissions(self) -> int:
        """How many permissions the roles gave so far. Raises: TrialFailedError: one is needed by nobody."""
        if wrong := permissions.unused(self._grants, self.requests()):
            raise TrialFailedError("unused, and without a reason in tools/node/permissions.py: " + "; ".join(wrong))
        return len(self._grants)

    def bindings(self, pods: Collection[str]) -> Counter[str]:
        """How often each of these pods of the namespace `default` was bound."""
        return Counter(
            each.name
            for each in self.requests()
            if (each.verb, each.resource, each.namespace) == ("create", "pods/binding", "default")
            and each.name in pods
            and each.code < 400
        )

    def await_ready(self, *services: str) -> None:
        """Return once every replica of these services, or of all, is ready in its newest version."""
        for service in services or SERVICES:
            self.kubectl("rollout", "status", f"deployment/trireme-{service}", f"--timeout={_SECONDS}s")

    def pods(self, service: str) -> list[Json]:
        """The pods of a service that are not being deleted."""
        items = json.loads(self.kubectl("get", "pods", f"--selector={_of(service)}", "--output=json"))["items"]
        return [each for each in items if "deletionTimestamp" not in each["metadata"]]

    def leader(self, lease: str = "trireme", namespace: str = NAMESPACE) -> str:
        """The pod that holds the Lease, or an empty text."""
        arguments = ("get", "lease", lease, f"--namespace={namespace}", "--ignore-not-found")
        return self.cluster.plane.kubectl(*arguments, "--output=jsonpath={.spec.holderIdentity}").partition("_")[0]

    def run_pods(self, prefix: str, count: int, scheduler: str = "trireme") -> float:
        """Create pods of this scheduler, and delete them once all run. Units: seconds until then."""
        began = time.monotonic()
        self.start_pods(prefix, count, scheduler)
        self.await_running(prefix)
        seconds = time.monotonic() - began
        plane = self.cluster.plane
        plane.kubectl("delete", "pods", f"--selector=trial={prefix}", "--grace-period=1", "--wait=false")
        return seconds

    def start_pods(self, prefix: str, count: int, scheduler: str = "trireme") -> None:
        """Create pods of this scheduler in the namespace `default`."""
        items = [pod(f"{prefix}-{number}", prefix, scheduler) for number in range(count)]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        self.cluster.plane.kubectl("create", "-f", "-", stdin=json.dumps(listed))

    def await_running(self, prefix: str) -> None:
        """Return once the containers of all these pods run. Raises: ControlPlaneError."""
        wait = ("wait", "--for=condition=Ready", "pods", f"--selector=trial={prefix}", f"--timeout={_SECONDS}s")
        self.cluster.plane.kubectl(*wait, timeout=_SECONDS + 30)

    def kill(self, pod: Json) -> None:
        """Kill the processes of a pod's containers, as the kernel does where memory runs out."""
        names = {each["containerID"].rpartition("/")[2] for each in pod["status"]["containerStatuses"]}
        for pid in self._processes(pod["metadata"]["uid"], names):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def run_out_of_memory(self, pod: Json) -> None:
        """Have the kernel kill the pod's process: its container gets little more memory than it has, and uses that."""
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        (group,) = (CGROUPS / "memory").rglob(f"pod{pod['metadata']['uid']}/{container}")
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        (group / "memory.limit_in_bytes").write_text(str(int(statistics["total_rss"]) + _LITTLE_BYTES))
        with contextlib.suppress(launcher.ControlPlaneError):  # it ends with the container
            self.kubectl("exec", pod["metadata"]["name"], "--", "python", "-c", _USE_MEMORY)

    def restarts(self, service: str) -> int:
        """How often containers of a service were started again."""
        states = (state for pod in self.pods(service) for state in pod["status"].get("containerStatuses", ()))
        return sum(state["restartCount"] for state in states)

    def ends(self, service: str) -> set[str]:
        """Why containers of a service that were started again had ended."""
        states = (state for pod in self.pods(service) for state in pod["status"].get("containerStatuses", ()))
        return {state["lastState"]["terminated"]["reason"] for state in states if "terminated" in state["lastState"]}

    def memory(self, pod: Json) -> float:
        """What the kernel counts for a pod. Units: MB."""
        groups = (CGROUPS / "memory").rglob(f"pod{pod['metadata']['uid']}")
        return sum(int((group / "memory.usage_in_bytes").read_text()) for group in groups) / 1e6

    @staticmethod
    def _processes(uid: str, containers: set[str]) -> Iterator[int]:
        for group in (CGROUPS / "pids").rglob(f"pod{uid}/*/cgroup.procs"):
            if group.parent.name in containers:
                yield from map(int, group.read_text().split())


def until(condition: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
    """Wait for it. Raises: TrialFailedError: it did not happen in so many seconds."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise TrialFailedError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.5)


def _of(service: str) -> str:
    return f"app.kubernetes.io/name=trireme-{service}"


def pod(name: str, prefix: str, scheduler: str) -> Json:
    """A pod of this scheduler that does nothing."""
    container = {
        "name": "pause",
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"trial": prefix}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
        },
    }
