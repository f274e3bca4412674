"""What replicas are worth when a remote plugin is slow: `python -m tools.bench.inprocess_remote_plugin`.

A plugin takes 50 ms a call, depends on the node alone, and runs once beside each filter replica. Pods of 400 classes,
five of each, wait when the frontend starts; measured is the time until all are bound, and how often the plugin was
asked. Every service is a real process; the cluster is the embedded one, in memory. Three cases:

  serial, 1 replica       the plugin serves one call at a time
  serial, 4 replicas      the same, beside each of four filter replicas
  concurrent, 1 replica   the plugin takes calls as they come

Afterwards each case schedules one pod more of each class, whose answers are known by then, and counts the calls that
this took. Prints the figures, and whether they are what the design promises; --check makes the exit code say so too.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import installation

PLUGIN = Path(__file__).with_name("slow_plugin.py")
# The same text for every replica, and another socket for each: the plugin is the one beside it.
BESIDE = "unix:/proc/self/cwd/plugin.sock"


@dataclass(frozen=True)
class Case:
    """One way to run it."""

    name: str
    replicas: int
    at_once: int


CASES = (Case("serial, 1 replica", 1, 1), Case("serial, 4 replicas", 4, 1), Case("concurrent, 1 replica", 1, 0))


@dataclass(frozen=True)
class Figures:
    """What one case came to."""

    case: Case
    seconds: float
    pods_per_second: float
    calls: int
    calls_when_known: int
    cpu_seconds: dict[str, float]


@dataclass(frozen=True)
class Workload:
    """How much there is to do."""

    nodes: int
    classes: int
    pods: int
    milliseconds: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and print their figures; answers the exit code."""
    parser = argparse.ArgumentParser(description="Throughput with a slow remote plugin, by number of filter replicas.")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--pods", type=int, default=5, help="of each class")
    parser.add_argument("--milliseconds", type=float, default=50, help="that the plugin takes for a call")
    parser.add_argument("--check", action="store_true", help="exit with 1 where the figures are not as promised")
    options = parser.parse_args(argv)
    workload = Workload(options.nodes, options.classes, options.pods, options.milliseconds)
    figures = []
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="trireme-bench-") as folder:
            figures.append(asyncio.run(_run(case, workload, Path(folder))))
        print(_line(figures[-1]), flush=True)
    kept = _promises(figures)
    for promise, holds in kept:
        print(f"{'yes' if holds else 'NO '}  {promise}")
    return 1 if options.check and not all(holds for _, holds in kept) else 0


def _line(figures: Figures) -> str:
    return (
        f"{figures.case.name:<24}{figures.seconds:6.1f} s {figures.pods_per_second:8.1f} pods/s "
        f"{figures.calls:6} calls, {figures.calls_when_known} once known; CPU s: "
        + ", ".join(f"{name} {seconds:.1f}" for name, seconds in figures.cpu_seconds.items())
    )


def _promises(figures: Sequence[Figures]) -> list[tuple[str, bool]]:
    one, four, concurrent = figures
    gain = four.pods_per_second / one.pods_per_second
    reached = concurrent.pods_per_second / four.pods_per_second
    return [
        (f"four replicas schedule at least three times as many pods a second as one: {gain:.2f} times", gain >= 3),
        (f"one replica reaches nearly that where the plugin takes calls concurrently: {reached:.0%}", reached >= 0.8),
        ("a class whose answers are known costs no call", all(not entry.calls_when_known for entry in figures)),
    ]


async def _run(case: Case, workload: Workload, folder: Path) -> Figures:
    async with installation.embedded(folder, "--nodes", str(workload.nodes), "--cpu", "1000", "--pods", "1000") as here:
        beside = [folder / f"beside-{number}" for number in range(case.replicas)]
        plugins = [_plugin(case, workload, place) for place in beside]
        try:
            for plugin in plugins:
                plugin.start()
            await asyncio.gather(*(plugin.listening() for plugin in plugins))
            await _phases(here, beside)
            await here.create_pods(_pods(workload, "first", workload.pods))
            frontend = _frontend(here, beside[0])
            before = _cpu(here, plugins)
            seconds = await _scheduled(here, frontend)
            spent = _cpu(here, plugins)
            cpu = {name: spent[name] - before.get(name, 0.0) for name in spent}
            calls = _calls(beside)
            await here.create_pods(_pods(workload, "second", 1))
            await _all_bound(here, 120)
            rate = workload.classes * workload.pods / seconds
            return Figures(case, seconds, rate, calls, _calls(beside) - calls, cpu)
        finally:
            here.stop()
            for plugin in plugins:
                plugin.stop()


def _plugin(case: Case, workload: Workload, place: Path) -> installation.Process:
    place.mkdir()
    command = [sys.executable, "-u", str(PLUGIN), "--listen", f"unix:{place}/plugin.sock"]
    command += ["--milliseconds", str(workload.milliseconds), "--at-once", str(case.at_once)]
    command += ["--counted", str(place / "calls")]
    return installation.Process(f"plugin in {place.name}", command, place / "plugin.log")


async def _phases(here: installation.Installation, beside: Sequence[Path]) -> None:
    """Start the phases, each filter replica in the folder of its plugin."""
    for place in beside:
        _in_folder(here.add_phase("filter"), place)
    here.add_phase("score")
    here.add_phase("bind")
    processes = [process for group in here.phases.values() for process in group]
    for process in processes:
        process.start()
    await asyncio.gather(*(process.listening() for process in processes))


def _frontend(here: installation.Installation, place: Path) -> installation.Process:
    """A frontend whose profile has the plugin at Filter, beside the first of them for the handshake."""
    profile = {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "Slow"}]}}}
    plugin = {"name": "Slow", "address": BESIDE, "extensionPoints": ["filter"], "deadline": "10s"}
    process = here.add_frontend({"profiles": [profile]}, {"remotePlugins": [plugin]})
    _in_folder(process, place)
    return process


def _in_folder(process: installation.Process, folder: Path) -> None:
    process.command = ["env", "-C", str(folder), *process.command]


def _pods(workload: Workload, wave: str, count: int) -> list[installation.Json]:
    """Pods of all classes; what tells the classes apart is how much CPU they ask for."""
    return [
        installation.pod(f"{wave}-{number}-{one}", cpu=f"{100 + number}m")
        for number in range(workload.classes)
        for one in range(count)
    ]


async def _scheduled(here: installation.Installation, frontend: installation.Process) -> float:
    """Start the frontend; the seconds from when it knows the cluster until all pods are bound."""
    frontend.start()
    await here.leads(frontend)
    began = time.monotonic()
    await _all_bound(here, 300)
    return time.monotonic() - began


async def _all_bound(here: installation.Installation, seconds: float) -> None:
    """Return once all pods have a node; asked so that the answer costs the cluster next to nothing."""
    path = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D&limit=1"
    (frontend,) = here.frontends

    async def none_waits() -> bool:
        assert frontend.running, f"the frontend has ended:\n{frontend.log.read_text()[-2000:]}"
        return not (await here.request("GET", path))["items"]

    await installation.until(none_waits, seconds, lambda: f"pods wait:\n{frontend.log.read_text()[-2000:]}")


def _cpu(here: installation.Installation, plugins: Sequence[installation.Process]) -> dict[str, float]:
    """CPU seconds so far, by what the processes are."""
    groups = {**here.phases, "frontend": here.frontends, "plugin": plugins}
    return {
        name: sum(installation.cpu_seconds(process.pid) for process in group if process.running)
        for name, group in groups.items()
    }


def _calls(beside: Sequence[Path]) -> int:
    return sum(int((place / "calls").read_text()) for place in beside)


if __name__ == "__main__":
    raise SystemExit(main())
