"""What a remote plugin costs a scheduler: `python -m tools.bench.plugin_profiles`.

One real control plane and one scheduler with two profiles, one with a plugin without work at Filter and Score.
Waves of pods take turns: of the profile without the plugin, of the one with it, and then the other way round. What else
the machine does for longer than a wave weighs on both, and no wave meets an API server that another has not warmed.
Each wave has a namespace of its own, so its classes are new, and so are they to the plugin, which reads the namespace:
the first answers about them are in the figures. The first wave of each profile warms up and is not counted.

Printed for each side of sides.yaml that has the plugin Noop: complete pods a second of both profiles and, wave by wave,
the ratio; processor time a pod of frontend and phases, and what it is more with the plugin; that of the plugin.

With `--reads metadata.namespace,spec.containers` the plugin of the side `trireme-noop` tells the twenty classes of a
wave apart.
"""

# Also change: tools/bench/driver/execution.py (requests for nodes and pods).
# Also change: tools/bench/README.md.

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvloop

from tools.bench.driver import api, execution, processes, rounds, sides, template, workload
from tools.controlplane import launcher

BENCH = Path(__file__).resolve().parent


SIDES = ("trireme-noop", "trireme-noop-go", "trireme-noop-rust", "trireme-noop-java", "trireme-noop-typescript")
WITHOUT, WITH = "default-scheduler", "with-plugin"
POD = BENCH / "workloads" / "templates" / "pod-of-twenty-classes.yaml"
# A pod without a node, or an event that does not come, for so long ends the run.
PATIENCE_SECONDS = 120.0
# After a wave, for what the scheduler does beside binding.
PAUSE_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Wave:
    """What a wave came to."""

    profile: str
    pods_per_s: float
    """Complete ones: bound, and with their events."""
    cpu_ms: float
    """Processor time of frontend and phases, for a pod."""
    plugin_cpu_ms: float
    elsewhere_percent: float
    """The machine's use by processes that have no part in this."""


class Waves:
    """Creates waves of pods in a cluster, and measures them."""

    def __init__(self, client: api.Api, cluster: launcher.ControlPlane, pids: Sequence[int], pods: int) -> None:
        """`pids`: the plugin's process and, last, the frontend's."""
        self._client = client
        self._pods = pods
        self._count = 0
        self._bound, self._events = api.bound_pods(), api.scheduled_events()
        self._plugin, self._scheduler = processes.ProcessTree(pids[:-1]), processes.ProcessTree(pids[-1:])
        own = [*(child.process.pid for child in cluster.children.values()), os.getpid()]
        self._others = processes.ProcessTree(own, descend=False)

    @contextlib.asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Follow pods and events until the block ends."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.follow(self._client)) for each in (self._bound, self._events)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def run(self, profile: str) -> Wave:
        """Create one wave, and wait until it is complete. Raises TimeoutError where it stalls."""
        self._count += 1
        namespace = f"wave-{self._count}"
        body = template.Template(execution.NAMESPACE, "the built-in namespace").make(namespace, {})[1]
        await self._client.create("/api/v1/namespaces", body)
        requests = list(self._requests(namespace, profile))
        keys = [f"{namespace}/pod-{number}" for number in range(self._pods)]
        bound, told = self._bound.expect(keys), self._events.expect(keys)
        before, started = self._spent(), time.perf_counter()
        await _in_parallel(iter(requests))
        await bound.wait(PATIENCE_SECONDS)
        await told.wait(PATIENCE_SECONDS)
        last = max(max(self._bound.seen_at[key], self._events.seen_at[key]) for key in keys)
        await asyncio.sleep(PAUSE_SECONDS)
        machine, scheduler, plugin, others = (after - was for after, was in zip(self._spent(), before, strict=True))
        elsewhere = max(machine - scheduler - plugin - others, 0.0)
        return Wave(
            profile,
            self._pods / (last - started),
            1000 * scheduler / self._pods,
            1000 * plugin / self._pods,
            100 * elsewhere / (processes.CPUS * (time.perf_counter() - started)),
        )

    def _requests(self, namespace: str, profile: str) -> Iterator[Coroutine[Any, Any, None]]:
        def amend(pod: dict[str, Any]) -> None:
            pod["spec"]["schedulerName"] = profile

        pod = template.Template.load(POD, amend)
        for number in range(self._pods):
            body = pod.make(f"pod-{number}", {"Index": number, "Count": self._pods})[1]
            yield self._client.create(f"/api/v1/namespaces/{namespace}/pods", body)

    def _spent(self) -> tuple[float, float, float, float]:
        """Processor seconds so far of the machine, the scheduler, the plugin, and API server, etcd and this driver."""
        return processes.machine_cpu_s(), self._scheduler.cpu_s(), self._plugin.cpu_s(), self._others.cpu_s()


async def _in_parallel(requests: Iterator[Coroutine[Any, Any, None]]) -> None:
    """Make requests with as many workers as the benchmark's driver."""

    async def work() -> None:
        for request in requests:
            await request

    async with asyncio.TaskGroup() as group:
        for _ in range(execution.CREATORS):
            group.create_task(work())


def with_two_profiles(side: sides.Side) -> sides.Side:
    """The side with a profile without the plugin beside the one with it."""
    (profile,) = side.configuration["profiles"]
    profiles = [{"schedulerName": WITHOUT}, {**profile, "schedulerName": WITH}]
    return dataclasses.replace(side, configuration={"profiles": profiles})


async def _measure(cluster: launcher.ControlPlane, pids: Sequence[int], options: argparse.Namespace) -> list[Wave]:
    """Create the nodes, and run the waves: the pairs that count, in order."""
    async with api.Api.connect(cluster.kubeconfig) as client:
        node = template.Template(execution.NODE, "the built-in node")
        bodies = [node.make(f"node-{number}", {})[1] for number in range(options.nodes)]
        await _in_parallel(client.create("/api/v1/nodes", body) for body in bodies)
        waves = Waves(client, cluster, pids, options.pods)
        async with waves.followed():
            for profile in (WITHOUT, WITH):
                await waves.run(profile)
            order = [(WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT) for number in range(options.rounds)]
            return [await waves.run(profile) for pair in order for profile in pair]


def _run(side: sides.Side, options: argparse.Namespace) -> list[Wave]:
    """Start a control plane and the side's processes, and measure."""
    (variant,) = [
        each
        for each in workload.load(BENCH / "workloads/performance-config.yaml", ["twentyclasses"], {})
        if each.nodes == 5000
    ]
    started_with = launcher.Options(disable_admission=rounds.DISABLED_ADMISSION)
    with launcher.ControlPlane(started_with) as cluster, contextlib.ExitStack() as stack:
        started = rounds.Started(with_two_profiles(side), cluster, variant, stack)
        pids = started.start()
        try:
            return uvloop.run(_measure(cluster, pids, options))
        except BaseException:
            started.check()
            raise


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A side's medians over pairs of waves, and the ranges of what is compared in a pair."""

    without: float
    with_plugin: float
    ratio: tuple[float, float, float]
    """Median, lowest, highest: pods a second with the plugin as a share of those without."""
    cpu_ms: float
    """Of frontend and phases without the plugin."""
    more_cpu_ms: tuple[float, float, float]
    plugin_cpu_ms: float
    elsewhere_percent: float


def compare(waves: Sequence[Wave]) -> Comparison:
    """Compare the waves of each pair."""
    pairs = [sorted(waves[at : at + 2], key=lambda wave: wave.profile) for at in range(0, len(waves), 2)]
    return Comparison(
        without=statistics.median(without.pods_per_s for without, _ in pairs),
        with_plugin=statistics.median(plugged.pods_per_s for _, plugged in pairs),
        ratio=_spread(plugged.pods_per_s / without.pods_per_s for without, plugged in pairs),
        cpu_ms=statistics.median(without.cpu_ms for without, _ in pairs),
        more_cpu_ms=_spread(plugged.cpu_ms - without.cpu_ms for without, plugged in pairs),
        plugin_cpu_ms=statistics.median(plugged.plugin_cpu_ms for _, plugged in pairs),
        elsewhere_percent=statistics.median(wave.elsewhere_percent for wave in waves),
    )


def _spread(values: Iterable[float]) -> tuple[float, float, float]:
    """Median, lowest, highest."""
    listed = list(values)
    return statistics.median(listed), min(listed), max(listed)


def row(name: str, found: Comparison) -> str:
    """The comparison as a row of a table."""
    (ratio, *ratios), (more, *mores) = found.ratio, found.more_cpu_ms
    return (
        f"| {name} | {found.without:.0f} | {found.with_plugin:.0f} | {ratio:.2f} ({ratios[0]:.2f} to {ratios[1]:.2f}) "
        f"| {found.cpu_ms:.2f} | {more:+.2f} ({mores[0]:+.2f} to {mores[1]:+.2f}) | {found.plugin_cpu_ms:.3f} "
        f"| {found.elsewhere_percent:.0f} % |"
    )


HEAD = (
    "| side | without | with it | ratio | CPU ms/pod | more with it | plugin's | busy elsewhere |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", nargs="*", default=list(SIDES))
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2000, help="of a wave")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of waves that count")
    parser.add_argument("--reads", default="metadata.namespace", help="fields of pods, for the plugin of trireme-noop")
    parser.add_argument("--result", type=Path, help="a file for the single waves, as JSON")
    options = parser.parse_args()
    os.environ["POD_FIELDS"] = options.reads
    chosen = sides.select(sides.read((BENCH / "sides.yaml").read_text()), options.sides)
    print(HEAD, flush=True)
    waves = {}
    for side in chosen:
        waves[side.name] = _run(side, options)
        print(row(side.name, compare(waves[side.name])), flush=True)
    if options.result:
        listed = {name: [dataclasses.asdict(wave) for wave in each] for name, each in waves.items()}
        options.result.write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
