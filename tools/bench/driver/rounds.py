"""One round: a fresh control plane, one side's processes, one workload; and what it all came to.

Everything starts anew for every round, so that no side meets an API server that another has filled or warmed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from pathlib import Path

import uvloop
import yaml

from tools.bench.driver import execution, figures, sides
from tools.bench.driver.api import Api
from tools.bench.driver.processes import ProcessTree
from tools.bench.driver.workload import Workload
from tools.controlplane import launcher, ports

BENCH = Path(__file__).resolve().parent.parent
# As scheduler_perf runs its API server: pods may carry a bare priority, and nodes come untainted.
DISABLED_ADMISSION = ("ServiceAccount", "TaintNodesByCondition", "Priority")
# The API groups that a feature gate needs served.
GROUPS = {"GenericWorkload": {"scheduling.k8s.io/v1beta1": True}}


@dataclasses.dataclass(slots=True)
class Started:
    """The processes of a side, once they run."""

    side: sides.Side
    cluster: launcher.ControlPlane
    workload: Workload
    stack: contextlib.ExitStack
    children: list[launcher.Child] = dataclasses.field(default_factory=list)

    def start(self) -> list[int]:
        """Starts every process of the side, and returns their ids."""
        directory = self.cluster.directory / "side"
        directory.mkdir()
        config = directory / "config.yaml"
        chosen = ports.free_ports(sides.processes(self.side))
        names = {
            "python": sys.executable,
            "controlplane": str(self.cluster.binary),
            "repository": str(launcher.REPOSITORY),
            "bench": str(BENCH),
            "kubeconfig": str(self.cluster.kubeconfig),
            "config": str(config),
            "directory": str(directory),
            "first_port": str(chosen[0]),
        }
        own = sides.filled(self.side, self.side.configuration, names)
        config.write_text(sides.configuration(self.cluster.kubeconfig, own))
        for name, content in self.side.files.items():
            (directory / name).write_text(yaml.safe_dump(sides.filled(self.side, content, names), sort_keys=False))
        for number, command in enumerate(sides.commands(self.side, names, chosen, self.workload.feature_gates)):
            child = launcher.spawn(f"{self.side.name}-{number}", command, directory / f"{number}.log")
            self.stack.callback(launcher.stop, child)
            self.children.append(child)
        return [child.process.pid for child in self.children]

    def check(self) -> None:
        """Raises where a process has ended, with the end of its log."""
        for child in self.children:
            if child.process.poll() is not None:
                raise RuntimeError(f"{child.name} ended with exit code {child.process.returncode}\n{child.tail()}")


def run(side: sides.Side, workload: Workload) -> figures.Figures:
    """Runs one workload with one side on a fresh control plane. Raises what went wrong where it did."""
    gates = workload.feature_gates
    options = launcher.Options(
        disable_admission=DISABLED_ADMISSION,
        feature_gates=gates,
        runtime_config={
            group: on for gate, groups in GROUPS.items() if gates.get(gate) for group, on in groups.items()
        },
    )
    with launcher.ControlPlane(options) as cluster, contextlib.ExitStack() as stack:
        started = Started(side, cluster, workload, stack)
        others = {
            "API server": ProcessTree([cluster.children["kube-apiserver"].process.pid]),
            "etcd": ProcessTree([cluster.children["etcd"].process.pid]),
            # The driver's own children are counted above, under their names.
            "driver": ProcessTree([os.getpid()], descend=False),
        }
        competitor = execution.Competitor(started.start, started.check)
        return figures.figures(uvloop.run(_execute(cluster.kubeconfig, workload, competitor, others)))


async def _execute(
    kubeconfig: Path, workload: Workload, competitor: execution.Competitor, others: dict[str, ProcessTree]
) -> figures.Window:
    async with Api.connect(kubeconfig) as api:
        return await execution.Execution(api, workload, competitor, others).run()
