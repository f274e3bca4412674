"""Runs shadow beside a real kube-scheduler, with the rights of deploy/overlays/shadow and an audit log.

kube-scheduler scores every node (percentageOfNodesToScore: 100), as Trireme does; then each binding of pods that are
created one by one has to be the same or tied. In a burst its decisions overlap, and the figure is what it is.

    python -m tools.controlplane.shadow_control --nodes 1000 --pods 5000
    python -m tools.controlplane.shadow_control --nodes 1000 --pods 5000 --burst 500
"""

import argparse
import asyncio
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import access_log, launcher, shadow_workload

Json = dict[str, Any]

OVERLAY = launcher.REPOSITORY / "deploy/overlays/shadow"
ACCOUNT = "system:serviceaccount:trireme-shadow:trireme-shadow"
READS = frozenset({"get", "list", "watch"})
_OF_RIGHTS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_START_SECONDS = 300.0
PENDING_SECONDS = 3.0
SETTLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: pods one by one, or `burst` at once; `churn` of ten pods are followed by the deletion of another."""

    nodes: int
    pods: int
    burst: int = 1
    churn: int = 3
    seed: int = 1
    percentage: int = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the run found: shadow's last report as JSON, and its requests by the audit log."""

    report: Json
    requests: Sequence[access_log.Request]
    page: str
    seconds: float
    bound: int

    @property
    def writes(self) -> list[access_log.Request]:
        """Requests that are no reads."""
        return [each for each in self.requests if each.verb not in READS]


def options(folder: Path) -> launcher.Options:
    """A control plane with RBAC and an audit log."""
    return launcher.Options(authorization="RBAC", extra={"kube-apiserver": access_log.flags(folder)})


def rights() -> str:
    """The objects of the overlay that give rights, as YAML."""
    command = [str(launcher.BINARY), "kubectl", "kustomize", str(OVERLAY)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return yaml.safe_dump_all(each for each in yaml.safe_load_all(rendered) if each["kind"] in _OF_RIGHTS)


def kubeconfig(plane: launcher.ControlPlane, folder: Path) -> Path:
    """A kubeconfig of shadow's account, with the overlay's rights."""
    plane.kubectl("apply", "-f", "-", stdin=rights())
    token = plane.kubectl(
        "create", "token", "trireme-shadow", "--namespace", "trireme-shadow", "--duration=12h"
    ).strip()
    path = folder / "shadow.kubeconfig"
    path.write_text(launcher.kubeconfig(plane.server, plane.authority, "trireme-shadow", token))
    return path


def scheduler_config(plane: launcher.ControlPlane, folder: Path, percentage: int) -> Path:
    """kube-scheduler's configuration."""
    path = folder / "kube-scheduler.yaml"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": percentage,
    }
    path.write_text(yaml.safe_dump(document))
    return path


class Shadow:
    """A running `trireme shadow`."""

    def __init__(self, credentials: Path, folder: Path, *flags: str) -> None:
        self._folder = folder
        self.page = folder / "shadow.html"
        command = [str(Path(sys.executable).parent / "trireme"), "shadow", f"--kubeconfig={credentials}"]
        command += [f"--report={self.page}", "--output=json", "--interval=5", *flags]
        self._child = launcher.spawn("shadow", command, folder / "shadow.log")

    def reports(self) -> list[Json]:
        """Its reports so far; other lines of its output are log lines."""
        lines = (self._folder / "shadow.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def until(self, found: "Any", seconds: float = _START_SECONDS) -> Json:
        """The first report for which `found` holds. Raises: AssertionError with its output."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self._child.process.poll() is None:
            for report in self.reports()[-1:]:
                if found(report):
                    return report
            await asyncio.sleep(0.2)
        raise AssertionError(f"shadow did not report it\n{self._child.tail(30)}")

    def stop(self) -> Json:
        """End it; its last report."""
        launcher.stop(self._child, 60)
        return self.reports()[-1]


@contextlib.contextmanager
def folder_of(chosen: Path | None) -> Iterator[Path]:
    """The folder that was chosen, or a temporary one."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def run(plan: Plan, folder: Path, plane: launcher.ControlPlane) -> Outcome:
    """Run the plan on this control plane."""
    items = [shadow_workload.node(number) for number in range(plan.nodes)]
    items += shadow_workload.services() + shadow_workload.volumes() + shadow_workload.priority_classes()
    for start in range(0, len(items), 500):
        listed = {"apiVersion": "v1", "kind": "List", "items": items[start : start + 500]}
        plane.kubectl("create", "-f", "-", stdin=json.dumps(listed), timeout=600)
    plane.start_scheduler(scheduler_config(plane, folder, plan.percentage))
    shadow = Shadow(kubeconfig(plane, folder), folder)
    await shadow.until(lambda report: report["worlds"])
    began = time.monotonic()
    async with shadow_workload.Cluster(plane) as cluster:
        bound = await _create(plan, cluster)
        seconds = time.monotonic() - began
        await shadow.until(lambda report: _settled(report) >= bound, 900)
    report = shadow.stop()
    return Outcome(report, access_log.requests(folder, {ACCOUNT}), shadow.page.read_text(), seconds, bound)


def _settled(report: Json) -> int:
    """How many bindings have an outcome."""
    found = report["comparison"]
    return int(sum(found[name] for name in ("same", "tied", "different", "order", "unknown", "error")))


async def _create(plan: Plan, cluster: shadow_workload.Cluster) -> int:
    """Create the pods, and delete some between; a pod that fits nowhere is deleted too. Returns how many were bound."""
    draw = random.Random(plan.seed)
    number = bound = 0
    while number < plan.pods:
        count = min(plan.burst, plan.pods - number)
        bodies = [shadow_workload.pod(number + each, draw) for each in range(count)]
        await asyncio.gather(*map(cluster.create_pod, bodies))
        names = [body["metadata"]["name"] for body in bodies]
        placed = await cluster.bound_of(names, PENDING_SECONDS + count / 50)
        number, bound = number + count, bound + len(placed)
        gone = sum(draw.random() < plan.churn / 10 for _ in range(count))
        present = sorted(cluster.bound)
        gone_names = {*names} - {*placed} | {*draw.sample(present, min(gone, len(present)))}
        for name in sorted(gone_names):
            await cluster.delete_pod(name)
        if gone_names:
            # kube-scheduler takes in deletions and new pods by separate handlers; either may be first.
            await asyncio.sleep(SETTLE_SECONDS)
    return bound


def main(arguments: Sequence[str]) -> int:
    """Run and print; returns 1 if a binding is neither the same nor tied while pods came one by one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--burst", type=int, default=1, help="create so many pods at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--percentage", type=int, default=100, help="percentageOfNodesToScore of kube-scheduler")
    parser.add_argument("--folder", type=Path, help="keep logs, report and audit log here")
    chosen = parser.parse_args(arguments)
    plan = Plan(chosen.nodes, chosen.pods, chosen.burst, seed=chosen.seed, percentage=chosen.percentage)
    with folder_of(chosen.folder) as folder, launcher.ControlPlane(options(folder)) as plane:
        outcome = asyncio.run(run(plan, folder, plane))
    found = outcome.report["comparison"]
    summary = {name: value for name, value in found.items() if name != "examples"}
    print(json.dumps({**summary, **outcome.report["worlds"]}, indent=1))
    print(f"first report after {outcome.report['firstReportSeconds']:.1f} s")
    print(f"{outcome.bound} pods bound in {outcome.seconds:.0f} s")
    print(f"{len(outcome.requests)} requests, {len(outcome.writes)} of them writes")
    for each in found["examples"][-5:]:
        print(json.dumps(each))
    disagreed = found["different"] + found["order"] + found["unknown"] + found["error"]
    return 1 if outcome.writes or (plan.burst == 1 and disagreed) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
