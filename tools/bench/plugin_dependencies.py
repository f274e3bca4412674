"""What declaring a dependency buys: `python -m tools.bench.plugin_dependencies`.

A plugin that answers at once is called through filter's and score's own evaluation, about pods of one class, and after
each pod that pod is placed on a node, as it is in a cluster. Printed for each declared dependency: the first answer,
about all nodes, and each further one, as wall-clock time and as CPU time of our side and of the plugin, with the number
of nodes that it was called about. CPU times are medians over rounds and do not depend on what else the machine does.

With `--languages` the plugin is the one of each language in tools/bench/noop_plugins, built if need be.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.evaluation.scoring import score_chain, score_evaluator
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import plugin_control, remote_endpoint, remote_plugins
from trireme.rpc import dialing
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, meta_pb2, plugin_pb2, snapshot_pb2

NOOP = Path(__file__).with_name("noop_plugin.py")
DEPENDENCIES = ("NODE", "NODE_PODS", "CLUSTER")
_PROFILE = "default-scheduler"


@dataclass(frozen=True)
class Cost:
    """What one answer about one pod costs, in milliseconds."""

    wall: float
    own_cpu: float
    plugin_cpu: float


class Measured:
    """One plugin, over real gRPC, and the evaluation of both phases over a cluster."""

    def __init__(self, config: snapshot_pb2.RemotePlugin, pid: int, nodes: int) -> None:
        self.snap = snapshot.Snapshot()
        self.remotes = remote_plugins.RemotePlugins(self.snap)
        self._pid = pid
        self._placed = 0
        points = config.info.extension_points
        filters: tuple[interfaces.AnyFilterPlugin, ...] = ()
        scores: tuple[scorers.AnyScorePlugin, ...] = ()
        if plugin_pb2.EXTENSION_POINT_FILTER in points:
            filters = (self.remotes.make_filter_plugin(config, _PROFILE),)
        if plugin_pb2.EXTENSION_POINT_SCORE in points:
            scores = (self.remotes.make_score_plugin(config, _PROFILE),)
        weights = {plugin.name: 1 for plugin in scores}
        chain = filter_chain.FilterChain(filters)
        self._filter = filter_evaluator.FilterEvaluator(self.snap, {_PROFILE: chain})
        self._score = score_evaluator.ScoreEvaluator(self.snap, {_PROFILE: score_chain.ScoreChain(weights, scores)})
        self._nodes = nodes
        entries = [snapshot_pb2.NodeEntry(slot=slot, node=_node(slot), json=b"{}") for slot in range(nodes)]
        self.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1, nodes=entries))

    def add_class(self, number: int) -> None:
        """A class of pods that has not been evaluated."""
        pod = core_pb2.Pod(metadata=meta_pb2.ObjectMeta(namespace=f"team-{number}"))
        self._apply(snapshot_pb2.Delta(classes=[snapshot_pb2.PodClass(id=number, pod=pod)]))

    async def answer(self, number: int) -> Cost:
        """Have Filter and Score answered for the class, as for a pod of it."""
        plugin_before, own_before, began = self._plugin_cpu(), time.process_time(), time.perf_counter()
        pod_class = self.snap.classes[number]
        await self._filter.evaluate(_PROFILE, pod_class)
        found = await self._score.evaluate(_PROFILE, pod_class)
        wall, own = time.perf_counter() - began, time.process_time() - own_before
        if isinstance(found, status.Status):
            raise SystemExit(f"the plugin failed: {found.message}")
        return Cost(wall * 1000, own * 1000, (self._plugin_cpu() - plugin_before) * 1000)

    def place(self, number: int) -> None:
        """A pod of the class is placed on some node."""
        row = self._placed
        self._placed += 1
        pods = snapshot_pb2.PodColumns(
            row=[row],
            pod_class=[number],
            slot=[row * 7 % self._nodes],
            uid=[f"uid-{row}"],
            name=[f"pod-{row}"],
            start_time_s=[0],
            flags=[0],
        )
        self._apply(snapshot_pb2.Delta(pods=pods))

    def _apply(self, delta: snapshot_pb2.Delta) -> None:
        delta.from_generation = self.snap.generation
        delta.to_generation = self.snap.generation + 1
        self.snap.apply(delta)

    def _plugin_cpu(self) -> float:
        """CPU seconds of the plugin so far, to the nanosecond."""
        schedstats = Path(f"/proc/{self._pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in schedstats) / 1e9


def _node(slot: int) -> core_pb2.Node:
    metadata = meta_pb2.ObjectMeta(name=f"node-{slot}", labels={"topology.kubernetes.io/zone": f"zone-{slot % 3}"})
    return core_pb2.Node(metadata=metadata)


async def _measure(address: str, pid: int, options: argparse.Namespace) -> tuple[Cost, Cost]:
    """The first answer about a class, and each further one: medians."""
    config = await _config_of(address)
    measured = Measured(config, pid, options.nodes)
    first: list[Cost] = []
    later: list[Cost] = []
    try:
        # The first round warms up: imports, connections, compilation.
        for number in range(1, options.rounds + 2):
            measured.add_class(number)
            first.append(await measured.answer(number))
            for _ in range(options.pods):
                measured.place(number)
                later.append(await measured.answer(number))
    finally:
        await measured.remotes.connections.close()
    return _median(first[1:]), _median(later[options.pods :])


async def _config_of(address: str) -> snapshot_pb2.RemotePlugin:
    """How to call the only plugin at the address."""
    connection = dialing.Dialer(None).open(address, remote_endpoint.OPTIONS)
    try:
        for attempt in range(200):
            try:
                answer = await plugin_control.get_plugin_info(connection.channel, 5)
                break
            except Exception:
                if attempt == 199:
                    raise
                await asyncio.sleep(0.1)
        (info,) = answer.plugins
        arguments = plugin_pb2.ConfigureRequest(plugin=info.name, profile=_PROFILE, args_json=b"{}")
        await plugin_control.configure(connection.channel, [arguments], 0, 20)
    finally:
        await connection.close()
    return snapshot_pb2.RemotePlugin(name=info.name, endpoints=[address], deadline_ms=60_000, info=info)


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.own_cpu for cost in costs),
        statistics.median(cost.plugin_cpu for cost in costs),
    )


def _run(
    command: Sequence[str | Path], folder: Path, options: argparse.Namespace, depends_on: str
) -> tuple[Cost, Cost]:
    """Start a plugin that declares this, measure it and end it."""
    environment = {**os.environ, "DEPENDS_ON": depends_on}
    address = f"unix:{folder}/plugin.sock"
    with (folder / "plugin.log").open("w") as log:
        process = subprocess.Popen([*command, "--listen", address], stdout=log, stderr=log, env=environment)
        try:
            return asyncio.run(_measure(address, process.pid, options))
        finally:
            process.terminate()
            process.wait(20)


def _row(name: str, first: Cost, later: Cost, nodes: str) -> str:
    return (
        f"| {name} | {first.wall:.0f} ms | {first.own_cpu:.1f} ms | {first.plugin_cpu:.1f} ms | {nodes} | "
        f"{later.wall:.2f} ms | {later.own_cpu:.2f} ms | {later.plugin_cpu:.2f} ms |"
    )


def _print_dependencies(options: argparse.Namespace) -> None:
    """A row for each dependency that a plugin may declare."""
    for name in DEPENDENCIES:
        with tempfile.TemporaryDirectory() as folder:
            counted = Path(folder) / "counted"
            command = (sys.executable, NOOP, "--counted", counted)
            first, later = _run(command, Path(folder), options, name)
            _, nodes = map(int, counted.read_text().split())
            rounds = options.rounds + 1
            of_pods = (nodes - rounds * 2 * options.nodes) / (rounds * options.pods)
            print(_row(name, first, later, f"{of_pods:.0f}"), flush=True)


def _print_languages(options: argparse.Namespace) -> None:
    """A row for each language and dependency."""
    from tools.bench.noop_plugins import noop_builds  # noqa: PLC0415  # the SDKs' packages are only needed here

    for language in options.languages:
        command = noop_builds.COMMANDS[language]()
        for depends_on in ("NODE", "NODE_PODS"):
            with tempfile.TemporaryDirectory() as folder:
                first, later = _run(command, Path(folder), options, depends_on)
                print(_row(f"{language}, {depends_on}", first, later, "-"), flush=True)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5, help="classes that are measured, after one to warm up")
    parser.add_argument("--pods", type=int, default=20, help="further pods of each class")
    parser.add_argument("--languages", nargs="*", default=[], help="python go rust java typescript")
    options = parser.parse_args()
    head = ("first: wall", "own CPU", "plugin's CPU", "then, nodes a pod", "wall", "own CPU", "plugin's CPU")
    print(f"| {'plugin' if options.languages else 'depends_on'} | {' | '.join(head)} |")
    print("| --- " * (len(head) + 1) + "|")
    if options.languages:
        _print_languages(options)
    else:
        _print_dependencies(options)


if __name__ == "__main__":
    main()
