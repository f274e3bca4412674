"""The commands of docs/tutorials/replacing.md, run and timed as a reader would who goes from kube-scheduler and back.

What a reader replaces is replaced: the image's name, the namespace and the Deployment. The nodes have the image, so
nothing is pushed. kube-scheduler is no static pod here: instead of moving its manifest it is stopped and started.

Tests: tools/node/test_first_hour.py, tools/node/test_node_cluster.py.
"""

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tools.node.installation import Installation, TrialFailedError, pod, until
from tools.node.node_cluster import IMAGE
from tools.programs import build_programs
from tools.release import versions

PAGE = versions.ROOT / "docs" / "tutorials" / "replacing.md"
_NAMESPACE = "shop"
_DEPLOYMENT = "web"
_REPORT = "http://localhost:8080"
_STOP, _START = "mv /etc/kubernetes/manifests/", "mv /etc/kubernetes/kube-scheduler.yaml.saved"
_AGREEMENT = re.compile(r"<b>[\d.]+%</b> of [\d,]+ compared bindings are the same or tied")
_LATEST_SECONDS = {"shadow": 600.0, "namespace": 600.0, "default": 600.0, "back": 300.0}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of the page: the number of its section, its mark, and its text."""

    section: int
    mark: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order; what is before the first numbered section is section 0."""
    found, section = [], 0
    for match in re.finditer(r"^## (\d+)\. |^```(\w[\w ]*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if match[1]:
            section = int(match[1])
        else:
            found.append(Block(section, match[2], match[3]))
    return found


class Reader:
    """Follows the page in a folder of their own."""

    def __init__(self, here: Installation, home: Path) -> None:
        self._here = here
        self._plane = here.cluster.plane
        self._home = home / "reader"
        self._blocks = blocks(PAGE.read_text())

    def follow(self) -> None:
        """Raises: TrialFailedError: a command failed, or took longer than documented, or changed pods of others."""
        self._prepare()
        steps = {"shadow": self._compare, "namespace": self._move, "default": self._replace, "back": self._return}
        for name, step in steps.items():
            began = time.monotonic()
            step()
            seconds = time.monotonic() - began
            print(f"  {name}: {seconds:.0f} s of {_LATEST_SECONDS[name]:.0f}", flush=True)
            if seconds > _LATEST_SECONDS[name]:
                raise TrialFailedError(f"{name} took {seconds:.0f} s")

    def _prepare(self) -> None:
        """A workload of kube-scheduler's, the programs, and the values that the page has."""
        programs = self._home / "programs"
        programs.mkdir(parents=True)
        for name, command in (("kubectl", f"{self._plane.binary} kubectl"), ("helm", str(build_programs.HELM))):
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / name).chmod(0o755)
        for name in ("deploy", ".venv"):
            (self._home / name).symlink_to(versions.ROOT / name)
        (values,) = (each for each in self._blocks if each.section == 0 and each.text.startswith("# values.yaml"))
        (self._home / "values.yaml").write_text(values.text.replace("registry.example.com/trireme", IMAGE))
        template = pod("", _DEPLOYMENT, "default-scheduler")
        workload = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _DEPLOYMENT, "namespace": _NAMESPACE},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": template["metadata"]["labels"]},
                "template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]},
            },
        }
        self._plane.kubectl("create", "namespace", _NAMESPACE)
        self._plane.kubectl("create", "-f", "-", stdin=json.dumps(workload))
        self._await_workload()

    def _compare(self) -> None:
        self._run(*self._of(1))
        *commands, forward = self._of(2)[0].replace("\\\n", " ").splitlines()
        self._run(*commands)
        self._await_report(forward)
        self._run("helm uninstall compare -n trireme-shadow")

    def _move(self) -> None:
        self._run(*self._of(3))
        self._await_workload("trireme")

    def _replace(self) -> None:
        self._run(self._of(3)[1].replace('"schedulerName":"trireme"', '"schedulerName":"default-scheduler"'))
        self._await_workload("default-scheduler")
        self._run(*self._of(4)[:-1])
        until(lambda: "trireme" in self._run(self._of(4)[-1]), "the Lease names a pod of Trireme")
        self._scale(6)

    def _return(self) -> None:
        before = self._workload_pods()
        self._run(*self._of(5))
        self._scale(8)
        if before - self._workload_pods():
            raise TrialFailedError("a bound pod was replaced")

    def _of(self, section: int) -> list[str]:
        """The commands of a section, with the reader's own names."""
        names = {"NAMESPACE": _NAMESPACE, " NAME ": f" {_DEPLOYMENT} ", "~/.kube/config": '"$KUBECONFIG"'}
        found = [each.text for each in self._blocks if each.section == section and each.mark.startswith("sh ")]
        for placeholder, name in names.items():
            found = [text.replace(placeholder, name) for text in found]
        return found

    def _run(self, *commands: str) -> str:
        return "".join(self._run_one(command) for command in commands)

    def _run_one(self, command: str) -> str:
        if command.startswith(_STOP):
            self._plane.stop_program("kube-scheduler")
            return ""
        if command.startswith(_START):
            self._plane.start_scheduler()
            return ""
        with self._start(command) as process:
            printed, _ = process.communicate()
        if process.returncode:
            raise TrialFailedError(f"{command}\n{printed}")
        return printed

    def _start(self, command: str) -> "subprocess.Popen[str]":
        path = f"{self._home / 'programs'}:{os.environ['PATH']}"
        folders = {name: str(self._home) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        environment = {**os.environ, **folders, "PATH": path, "KUBECONFIG": str(self._plane.kubeconfig)}
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _await_report(self, forward: str) -> None:
        """Forward the port, and scale the workload, until the page compares placements."""
        with self._start(f"exec {forward}") as process:
            try:
                until(lambda: _read(_REPORT) != "", "shadow reports at the address that the page has", 60)
                self._scale(4)
                until(lambda: bool(_AGREEMENT.search(_read(_REPORT))), "shadow compares placements", 120)
                print(f"  the report: {_AGREEMENT.findall(_read(_REPORT))}", flush=True)
            finally:
                process.terminate()

    def _scale(self, replicas: int) -> None:
        self._plane.kubectl("scale", f"deployment/{_DEPLOYMENT}", f"--namespace={_NAMESPACE}", f"--replicas={replicas}")
        self._await_workload()

    def _await_workload(self, scheduler: str = "") -> None:
        """Return once all its pods are ready, and all are of this scheduler."""
        named = (f"deployment/{_DEPLOYMENT}", f"--namespace={_NAMESPACE}")
        self._plane.kubectl("rollout", "status", *named, "--timeout=200s", timeout=210)
        names = "--output=jsonpath={.spec.template.spec.schedulerName}"
        if scheduler and (found := self._plane.kubectl("get", *named, names)) != scheduler:
            raise TrialFailedError(f"the workload is of {found}")

    def _workload_pods(self) -> set[str]:
        pods = json.loads(self._plane.kubectl("get", "pods", f"--namespace={_NAMESPACE}", "--output=json"))["items"]
        return {each["metadata"]["uid"] for each in pods}


def _read(address: str) -> str:
    """The page there, or an empty text."""
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return str(response.read().decode())
    except (urllib.error.URLError, OSError):
        return ""
