"""What insight's two standing checks cost: `python -m tools.bench.standing_checks`.

On the embedded cluster, every service a real process: nothing to do for a minute; then pods that fit nowhere wait for
two minutes, which the check for missed wake-ups evaluates; then also pods come and go at a steady rate, whose decisions
the self-check makes again. Printed is the processor time of insight and of the frontend, in per cent of one processor,
and what insight itself counts of the self-check.
"""

import argparse
import asyncio
import pathlib
import shutil
import tempfile
import time

from tests.e2e import admin_socket, installation, witness
from tools.bench import embedded_throughput
from tools.controlplane import ports

CLASSES = 30


async def self_check(here: installation.Installation, metrics: str) -> tuple[float, float]:
    """The processor time of the self-check so far, in seconds, and how many decisions it has made again."""
    async with here.session.get(f"http://{metrics}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    seconds = float(values["trireme_insight_self_check_cpu_seconds_total"])
    return seconds, float(values["trireme_insight_self_checked_decisions_total"])


async def measure(here: installation.Installation, insight: installation.Process, metrics: str, seconds: float) -> str:
    """The shares of a processor in so many seconds."""
    pids = insight.pid, here.frontends[0].pid
    before, began = [installation.cpu_seconds(pid) for pid in pids], time.monotonic()
    checked_before = await self_check(here, metrics)
    await asyncio.sleep(seconds)
    checked, elapsed = await self_check(here, metrics), time.monotonic() - began
    of_insight, of_frontend = (
        (installation.cpu_seconds(pid) - at) / elapsed for pid, at in zip(pids, before, strict=True)
    )
    of_check = (checked[0] - checked_before[0]) / elapsed
    made = checked[1] - checked_before[1]
    return (
        f"insight {of_insight:.2%} of a processor, frontend {of_frontend:.2%}; self-check {of_check:.2%}, "
        f"{made:.0f} decisions"
    )


async def come_and_go(here: installation.Installation, per_second: float) -> None:
    """Create pods at this rate, and delete each one after ten seconds."""
    number, there = 0, round(10 * per_second)
    while True:
        await here.create_pods([installation.pod(f"comes-{number}", cpu="10m")])
        if number >= there:
            path = f"/api/v1/namespaces/default/pods/comes-{number - there}?gracePeriodSeconds=0"
            await here.request("DELETE", path)
        number += 1
        await asyncio.sleep(1 / per_second)


async def run(options: argparse.Namespace) -> None:
    """Measure one after the other."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-bench-"))
    (port,) = ports.free_ports(1)
    metrics, socket = f"127.0.0.1:{port}", folder / "admin.sock"
    command = [*embedded_throughput.insight_command("recording", folder), "--metrics-listen", metrics]
    insight = installation.Process("insight", command, folder / "insight.log")
    try:
        async with (
            installation.embedded(folder, "--nodes", str(options.nodes)) as here,
            witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
        ):
            insight.start()
            await insight.listening()
            address = embedded_throughput.insight_address(folder)
            await here.start(own={"admin": {"socket": str(socket)}, "insight": {"endpoints": [address]}})
            await here.logged(here.frontends[0], f"{address}: in step")
            await asyncio.sleep(5)
            print(f"idle: {await measure(here, insight, metrics, options.seconds / 2)}", flush=True)
            await here.create_pods(
                installation.pod(f"waits-{number}", cpu=f"{1000 + number % CLASSES}")
                for number in range(options.waiting)
            )
            await asyncio.sleep(5)
            print(f"{options.waiting} pods wait: {await measure(here, insight, metrics, options.seconds)}")
            print(f"  {(await admin_socket.scheduler_status(socket)).wake_up_check}", flush=True)
            coming = asyncio.create_task(come_and_go(here, options.rate))
            print(f"and {options.rate} pods a second come: {await measure(here, insight, metrics, options.seconds)}")
            coming.cancel()
            insight.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Parse the flags and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=300, help="pods that fit nowhere, of thirty classes")
    parser.add_argument("--rate", type=int, default=10, help="pods a second that come and go")
    parser.add_argument("--seconds", type=float, default=120)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
