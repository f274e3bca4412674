"""Hours of steady load on the embedded cluster, and whether anything grows: `make soak`.

Two frontends with a Lease of eight seconds and two replicas each of filter, score and bind, as processes of their own.
Every ten seconds the memory, file descriptors, threads and gauges of each are read, and the 99th percentile of the time
from a pod's creation to its binding. A process that ends by itself, such as a frontend that loses its Lease for want of
processor time, is started again and counted. Ends with 1 if a quantity grows, or a pod was bound twice. The samples go
to a file, from which `--from` makes table and plot again.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import json
import pathlib
import shutil
import sys
import tempfile
import time

from tests.e2e import installation, witness
from tools.controlplane import launcher, ports
from tools.soak import process_samples, slopes, soak_load, soak_report, supervisor

SAMPLE_SECONDS = 10.0
SETTLING_SECONDS = 900.0
# How long the memory of a new process grows, by its kind. What score derives from terms of affinity and spread is kept
# until all of it takes 32 MiB, which takes an hour; a frontend has seen each kind of burst after half an hour.
MEMORY_SETTLING_SECONDS = {"score": 3600.0, "frontend": 1800.0}
BLOCK_SECONDS = 300.0
BLOCKS_OF_A_SHORT_RUN = 24
SETTLINGS_OF_A_SHORT_RUN = 8


@dataclasses.dataclass
class Recording:
    """The samples of each quantity, and what happened meanwhile."""

    series: dict[str, list[slopes.Sample]] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    pods: int = 0
    node_replacements: int = 0
    leader_changes: int = 0
    double_bindings: list[str] = dataclasses.field(default_factory=list)
    restarts: list[str] = dataclasses.field(default_factory=list)

    def add(self, quantity: str, value: float, span: str) -> None:
        """A value of now."""
        self.series.setdefault(quantity, []).append(slopes.Sample(self.seconds, value, span))

    def write(self, file: pathlib.Path) -> None:
        """As JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, file: pathlib.Path) -> Recording:
        """What `write` wrote."""
        raw = json.loads(file.read_text())
        series = {name: [slopes.Sample(**each) for each in samples] for name, samples in raw.pop("series").items()}
        return cls(series=series, **raw)


class Installed:
    """The processes, and where each serves its metrics."""

    def __init__(self, here: installation.Installation) -> None:
        self.here = here
        self._addresses: dict[str, str] = {}

    async def start(self) -> None:
        """Start everything, and return once a frontend leads and the other is ready."""
        here = self.here
        for phase in ("filter", "score", "bind"):
            for _ in range(2):
                process = here.add_phase(phase)
                (port,) = ports.free_ports(1)
                address = self._addresses[process.name] = f"127.0.0.1:{port}"
                # A program of its own, as in production, and not a fork of a process with the modules loaded.
                flags = process.command[len(installation.program(f"trireme.{phase}.process")) :]
                program = str(launcher.REPOSITORY / "cmd" / phase)
                process.command = [sys.executable, program, *flags, "--metrics-listen", address]
                process.start()
        await asyncio.gather(*(process.listening() for group in here.phases.values() for process in group))
        for number in range(2):
            socket = f"{here.folder}/frontend-{number}.sock"
            frontend = here.add_frontend(installation.SHORT_LEASE, {"admin": {"socket": socket}})
            frontend.start()
            await here.ready(frontend)
        await soak_load.leading(here)

    async def sample(self, recording: Recording) -> None:
        """Add a sample of each process. One that is just being replaced has none."""
        for phase in self.here.phases.values():
            for process in phase:
                await self._sample_one(recording, process, self._addresses[process.name])
        for frontend in self.here.frontends:
            await self._sample_one(recording, frontend, soak_load.admin_socket(self.here, frontend))

    async def _sample_one(self, recording: Recording, process: installation.Process, address: str) -> None:
        try:
            page = process_samples.gauges(await process_samples.metrics_page(address))
            values = {**process_samples.of_process(process.pid), **page}
        except OSError:
            return
        span = f"{process.pid} {'leads' if page.get('leader_election_master_status') else 'follows'}"
        for name, value in values.items():
            recording.add(f"{process.name}: {name}", value, span)


async def record(folder: pathlib.Path, shape: soak_load.Shape, nodes: int, seconds: float, seed: int) -> Recording:
    """Run the load, and sample until the time is over or the load fails."""
    recording = Recording()
    async with (
        installation.embedded(folder, "--nodes", str(nodes)) as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        installed = Installed(here)
        await installed.start()
        supervising = supervisor.Supervisor([*itertools.chain(*here.phases.values()), *here.frontends])
        load = soak_load.Load(here, shape, seed, supervising)
        running = asyncio.create_task(load.run())
        began = time.monotonic()
        try:
            while recording.seconds < seconds and not running.done():
                await asyncio.wait([running], timeout=SAMPLE_SECONDS)
                recording.seconds = time.monotonic() - began
                await installed.sample(recording)
                latencies = sorted(load.latencies())
                if latencies:
                    recording.add("p99 of scheduling, ms", 1000 * latencies[int(0.99 * (len(latencies) - 1))], "all")
                assert not here.witness.failure, here.witness.failure
                recording.pods, recording.double_bindings = load.pods, load.double_bindings
                recording.node_replacements, recording.leader_changes = load.node_replacements, load.leader_changes
                recording.restarts = supervising.restarts
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.wait([running])
    return recording


def report(recording: Recording, plot: pathlib.Path | None) -> int:
    """Print what the recording says. Returns the exit code."""
    settling = min(SETTLING_SECONDS, recording.seconds / SETTLINGS_OF_A_SHORT_RUN)
    of_memory = {kind: seconds * settling / SETTLING_SECONDS for kind, seconds in MEMORY_SETTLING_SECONDS.items()}
    judged = soak_report.judge(
        recording.series,
        min(BLOCK_SECONDS, recording.seconds / BLOCKS_OF_A_SHORT_RUN),
        settling,
        memory_settling_seconds=of_memory,
    )
    print(soak_report.table(judged))
    left_out = ", ".join(f"{seconds:.0f} s of that of a {kind}" for kind, seconds in of_memory.items())
    print(f"\nleft out: the first {settling:.0f} s of each role; of the private memory the first {left_out}")
    print(
        f"\n{recording.seconds / 3600:.2f} hours, {recording.pods} pods, {recording.node_replacements} nodes replaced, "
        f"{recording.leader_changes} changes of the leader, {len(recording.double_bindings)} pods bound twice, "
        f"{len(recording.restarts)} processes that ended by themselves"
    )
    if plot is not None:
        soak_report.plot(recording.series, plot)
    growing = [name for name, slope in judged.items() if not slope.is_flat]
    for name in growing:
        print(f"grows: {name}")
    for each in recording.restarts:
        print(f"started again: {each}")
    for each in recording.double_bindings:
        print(f"bound twice: {each}")
    return 1 if growing or recording.double_bindings else 0


def main() -> int:
    """Parse the flags, run and report. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=100.0, help="pods created, and deleted, a second")
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--leader-minutes", type=float, default=30.0, help="time between two changes of the leader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--result", type=pathlib.Path, default=launcher.REPOSITORY / "build" / "soak.json", help="file for the samples"
    )
    parser.add_argument("--plot", type=pathlib.Path, help="file for the plot, as SVG")
    parser.add_argument("--from", dest="recorded", type=pathlib.Path, help="report on such a file again; run nothing")
    options = parser.parse_args()
    if options.recorded is not None:
        return report(Recording.read(options.recorded), options.plot)
    shape = soak_load.Shape(pods_per_second=options.rate, leader_period=60 * options.leader_minutes)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-soak-"))
    try:
        recording = asyncio.run(record(folder, shape, options.nodes, 3600 * options.hours, options.seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    recording.write(options.result)
    return report(recording, options.plot)


if __name__ == "__main__":
    sys.exit(main())
