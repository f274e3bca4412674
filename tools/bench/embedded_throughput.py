"""What a pod costs each process on the embedded cluster: `python -m tools.bench.embedded_throughput`.

5,000 nodes; 2,000 pods of one class, then of twenty classes interleaved, created as fast as 16 clients can. Every
service is a real process. Prints pods per second, the mean batch, CPU milliseconds a pod of each process, and (with
--profile, if py-spy is installed) where the frontend, the largest, spends its time. With --insight there is an insight
process too, whose own CPU is not in the sum.
"""

import argparse
import asyncio
import collections
import contextlib
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

import aiohttp

from tests.e2e import installation, witness

PROFILE_LINES = 25


async def batches(socket: pathlib.Path) -> tuple[float, float]:
    """Pods and batches that the frontend took from its queue so far."""
    connector = aiohttp.UnixConnector(path=str(socket))
    async with aiohttp.ClientSession(connector=connector) as session, session.get("http://frontend/metrics") as answer:
        text = await answer.text()
    found = {"sum": 0.0, "count": 0.0}
    for line in text.splitlines():
        for part in found:
            if line.startswith(f"trireme_batch_size_pods_{part}"):
                found[part] += float(line.rpartition(" ")[2])
    return found["sum"], found["count"]


async def measure(here: installation.Installation, socket: pathlib.Path, prefix: str, pods: int, classes: int) -> None:
    """One workload."""
    processes = [*here.frontends, *(one for group in here.phases.values() for one in group)]
    before = [installation.cpu_seconds(process.pid) for process in processes]
    taken, count = await batches(socket)
    started = time.monotonic()
    await here.create_pods(
        installation.pod(f"{prefix}-{number}", cpu=f"{10 + number % classes}m") for number in range(pods)
    )
    created = time.monotonic() - started
    await here.bound(int(taken) + pods)
    seconds = time.monotonic() - started
    after_taken, after_count = await batches(socket)
    print(
        f"{classes} classes: {pods} pods created in {created:.1f} s, bound in {seconds:.1f} s: {pods / seconds:.0f}/s"
    )
    print(f"  mean batch {(after_taken - taken) / max(after_count - count, 1):.1f} pods")
    total = 0.0
    for process, cpu in zip(processes, before, strict=True):
        spent = (installation.cpu_seconds(process.pid) - cpu) * 1000 / pods
        total += spent
        print(f"  {process.name:<12} {spent:.2f} ms of CPU a pod")
    print(f"  together     {total:.3f} ms")


@contextlib.contextmanager
def profiled(pid: int, folder: pathlib.Path, wanted: bool) -> Iterator[None]:
    """Where a process spends its time meanwhile, printed at the end."""
    program = shutil.which("py-spy")
    if not wanted or program is None:
        yield
        return
    file = folder / "profile.txt"
    spy = subprocess.Popen([program, "record", "-p", str(pid), "-d", "600", "-r", "200", "-f", "raw", "-o", str(file)])
    yield
    spy.send_signal(2)
    spy.wait()
    counts: collections.Counter[str] = collections.Counter()
    total = 0
    for line in file.read_text().splitlines():
        stack, _, samples = line.rpartition(" ")
        total += int(samples)
        for frame in set(stack.split(";")):
            counts[frame] += int(samples)
    for frame, samples in counts.most_common(PROFILE_LINES):
        print(f"  {100 * samples / total:5.1f} %  {frame}")


def insight_address(folder: pathlib.Path) -> str:
    """Where insight listens."""
    return f"unix:{folder}/insight.sock"


def insight_command(kind: str, folder: pathlib.Path) -> list[str]:
    """How to run insight, which records or not."""
    recording = ["--record-dir", str(folder / "recordings")] if kind == "recording" else []
    return [*installation.program("trireme.insight.process"), "--listen", insight_address(folder), *recording]


async def run(options: argparse.Namespace) -> None:
    """Measure both workloads."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-bench-"))
    socket = folder / "admin.sock"
    try:
        insight = installation.Process("insight", insight_command(options.insight, folder), folder / "insight.log")
        async with (
            installation.embedded(folder, "--nodes", str(options.nodes)) as here,
            witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
        ):
            own = {"admin": {"socket": str(socket)}}
            if options.insight:
                insight.start()
                await insight.listening()
                own["insight"] = {"endpoints": [insight_address(folder)]}
            await here.start(own=own)
            await here.create_pods(installation.pod(f"warm-{number}") for number in range(50))
            await here.bound(50)
            with profiled(here.frontends[0].pid, folder, options.profile):
                await measure(here, socket, "one", options.pods, 1)
            await measure(here, socket, "twenty", options.pods, 20)
            insight.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Parse the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--insight", choices=("following", "recording"), help="with an insight process (default: none)")
    parser.add_argument("--profile", action="store_true", help="where the frontend spends its time (needs py-spy)")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
