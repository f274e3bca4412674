"""What insight costs the scheduler for each pod: `python -m tools.bench.insight_cost` (needs py-spy on the PATH).

Two runs, with and without insight, differ by more than insight costs: batches depend on what else runs. So this looks
into one run with insight. Every service is a real process, on the embedded cluster; pods of twenty classes come in a
burst, or at a steady rate (--rate). py-spy samples the frontend, and the samples of what it does for insight alone are
counted: the queue, the state and the decisions that it sends, and the stream to insight, one of three that cost the
same. Of its other threads, which are gRPC's, the stream to insight is counted with the share that it has of what the
main thread does in streams and calls. Filter, score and bind do nothing for insight unless remote plugins take part.

Printed is what insight adds to the processor time of frontend, filter, score and bind without it, in per cent, with the
95 % confidence interval of so many samples; with --rounds also the least and the most of the rounds.
"""

import argparse
import asyncio
import collections
import contextlib
import math
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.e2e import installation, witness
from tools.bench import embedded_throughput

SAMPLES_PER_SECOND = 100
CLASSES = 20
# How many functions that run for insight alone are printed, with their samples.
FUNCTIONS = 20
# Files, and functions of others, that the frontend runs for insight alone.
OF_INSIGHT = (
    "frontend/insight_queue_feed.py",
    "frontend/serving/insight_status_feed.py",
    "frontend/serving/scheduler_status.py",
    "phase_clients/insight_replicas.py",
    "phase_clients/decision_log.py",
    "phase_clients/recording_evaluators.py",
    "take_changed_pods (",
    "last_by_uid (",
)
# What it runs for each replica that follows: filter, score and insight.
OF_STREAMS = ("phase_clients/replica_link.py", "FollowerReplicas.publish (")
STREAMS = 3
# What it runs for calls and streams, which gRPC's threads work for.
OF_GRPC = ("grpc/aio/", "cygrpc", "phase_clients/")


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of the frontend's main thread."""

    total: int
    insight: int  # of what is for insight alone
    streams: int  # of the streams to all replicas
    grpc: int  # of calls and streams
    functions: "collections.Counter[str]"  # by function, of those that were for insight alone

    @property
    def of_insight(self) -> float:
        """The samples of what is done for insight."""
        return self.insight + self.streams / STREAMS


def read_samples(file: pathlib.Path) -> Samples:
    """Count the samples of the main thread in py-spy's output: a line for each stack, its count at the end."""
    total = insight = streams = grpc = 0
    functions = collections.Counter[str]()
    for line in file.read_text().splitlines():
        stack, _, text = line.rpartition(" ")
        if "MainThread" not in stack.partition(";")[0]:
            continue
        count = int(text)
        total += count
        if any(part in stack for part in OF_INSIGHT):
            insight += count
            for function in {frame.rpartition(":")[0] for frame in stack.split(";") if "trireme/" in frame}:
                functions[function] += count
        elif any(part in stack for part in OF_STREAMS):
            streams += count
        if any(part in stack for part in OF_GRPC):
            grpc += count
    return Samples(total, insight, streams, grpc, functions)


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of one run in seconds, and the samples of the frontend's main thread."""

    all_processes: float
    main_thread: float
    other_threads: float  # of the frontend
    samples: Samples

    def added(self, of_insight: float) -> float:
        """What so many samples for insight add to the time without insight, as a share of it."""
        of_grpc = self.samples.streams / STREAMS / max(self.samples.grpc, 1)
        for_insight = of_insight / self.samples.total * self.main_thread + of_grpc * self.other_threads
        return for_insight / (self.all_processes - for_insight)

    def interval(self) -> tuple[float, float, float]:
        """What insight adds, and the bounds of the 95 % confidence interval."""
        found = self.samples.of_insight
        spread = 1.96 * math.sqrt(max(found, 1) * (1 - found / self.samples.total))
        return self.added(found), self.added(max(found - spread, 0)), self.added(found + spread)


def together(costs: list[Cost]) -> Cost:
    """All rounds as one."""
    parts = [each.samples for each in costs]
    return Cost(
        sum(each.all_processes for each in costs),
        sum(each.main_thread for each in costs),
        sum(each.other_threads for each in costs),
        Samples(
            *(sum(getattr(part, name) for part in parts) for name in ("total", "insight", "streams", "grpc")),
            sum((part.functions for part in parts), collections.Counter()),
        ),
    )


def thread_seconds(pid: int) -> tuple[float, float]:
    """The processor time of a process's main thread, and of its others."""
    ticks = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks[int(task.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return ticks[pid], sum(ticks.values()) - ticks[pid]


@contextlib.asynccontextmanager
async def running(nodes: int, folder: pathlib.Path) -> AsyncIterator[installation.Installation]:
    """A scheduler with insight, and fifty pods bound."""
    insight = installation.Process(
        "insight", embedded_throughput.insight_command("following", folder), folder / "insight.log"
    )
    async with (
        installation.embedded(folder, "--nodes", str(nodes)) as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        insight.start()
        try:
            await insight.listening()
            await here.start(own={"insight": {"endpoints": [embedded_throughput.insight_address(folder)]}})
            await here.create_pods(installation.pod(f"warm-{number}") for number in range(50))
            await here.bound(50)
            yield here
        finally:
            insight.stop()


async def create(here: installation.Installation, pods: int, rate: float) -> None:
    """Create the pods as fast as possible, or so many a second, and wait until all are bound."""
    every = [installation.pod(f"pod-{number}", cpu=f"{10 + number % CLASSES}m") for number in range(pods)]
    started, created = time.monotonic(), 0
    while created < pods:
        due = min(int((time.monotonic() - started) * rate), pods) if rate else pods
        if due > created:
            await here.create_pods(every[created:due])
            created = due
        await asyncio.sleep(0.02)
    await here.bound(50 + pods)


async def measure(options: argparse.Namespace) -> Cost:
    """One round."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-bench-"))
    try:
        async with running(options.nodes, folder) as here:
            processes = [*here.frontends, *(one for group in here.phases.values() for one in group)]
            pid, file = here.frontends[0].pid, folder / "samples"
            command = ["py-spy", "record", "-p", str(pid), "-d", "600", "-r", str(SAMPLES_PER_SECOND), "-t"]
            spy = subprocess.Popen(
                [*command, "-f", "raw", "-o", str(file)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            try:
                before, threads = sum(installation.cpu_seconds(each.pid) for each in processes), thread_seconds(pid)
                await create(here, options.pods, options.rate)
                after = sum(installation.cpu_seconds(each.pid) for each in processes)
                main, others = (now - then for now, then in zip(thread_seconds(pid), threads, strict=True))
            finally:
                spy.send_signal(signal.SIGINT)
                spy.wait()
            return Cost(after - before, main, others, read_samples(file))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def describe(cost: Cost, pods: int) -> str:
    """A cost in one line."""
    added, least, most = cost.interval()
    return (
        f"{cost.all_processes / pods * 1e3:.3f} ms a pod; insight adds {added:.2%} (95 %: {least:.2%} to {most:.2%}); "
        f"{cost.samples.total} samples, {cost.samples.insight} for insight alone, {cost.samples.streams} in "
        f"{STREAMS} streams"
    )


def main() -> None:
    """Parse the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=0, help="pods a second (default: as fast as can be)")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    costs = []
    for _ in range(options.rounds):
        costs.append(asyncio.run(measure(options)))
        print(describe(costs[-1], options.pods), flush=True)
    added = sorted(each.added(each.samples.of_insight) for each in costs)
    for function, samples in together(costs).samples.functions.most_common(FUNCTIONS):
        print(f"  {samples:5} {function}")
    print(f"together: {describe(together(costs), options.pods * len(costs))}; rounds {added[0]:.2%} to {added[-1]:.2%}")


if __name__ == "__main__":
    main()
