"""What a broken plugin costs the profiles that do not use it: `python tests/bench/plugin_isolation.py`.

An embedded cluster, real processes, and two profiles, of which one has a remote filter plugin under Ignore. Pods of
both arrive at once; what is measured is how many pods of the other profile are bound in a second.
Each behaviour of the plugin (`broken_plugin.py`) takes turns with a good plugin, so that what else the machine does
weighs on both; a warm-up of the broken plugin, in which circuit breakers open, is not measured.
"""

import argparse
import asyncio
import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / folder) for folder in ("e2e", "controlplane", "helpers", "bench")]

import broken_plugin  # noqa: E402  # it lies beside this program
import installation  # noqa: E402  # it lies beside the end-to-end tests
import witness  # noqa: E402  # as above

# As in tests/e2e: a loop that starts the plugin again whenever it ends.
_AGAIN = "import subprocess, sys\nwhile True:\n    subprocess.run(sys.argv[1:])\n"


@contextlib.contextmanager
def plugin(address: str, behaviour: str) -> Iterator[None]:
    """The plugin's process, started again whenever it ends."""
    program = [sys.executable, str(ROOT / "tests/bench/broken_plugin.py"), "--listen", address]
    command = [sys.executable, "-c", _AGAIN, *program, "--behaviour", behaviour]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.wait()


@contextlib.asynccontextmanager
async def scheduler(folder: pathlib.Path, nodes: int) -> AsyncIterator[tuple[installation.Installation, str]]:
    """A cluster and a scheduler with both profiles; yields them, and the plugin's address."""
    address = f"unix:{folder}/plugin.sock"
    configuration = {
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "with-plugin", "plugins": {"filter": {"enabled": [{"name": "Broken"}]}}},
        ]
    }
    remote = {"name": "Broken", "address": address, "extensionPoints": ["filter"], "failurePolicy": "Ignore"}
    async with (
        installation.embedded(folder, "--nodes", str(nodes), "--cpu", "64") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        with plugin(address, "good"):
            await here.start(configuration=configuration, own={"remotePlugins": [remote]})
        yield here, address


async def bound_per_second(here: installation.Installation, prefix: str, pods: int, classes: int) -> float:
    """Pods of the profile without the plugin that are bound in a second, while pods of the other one arrive too."""
    own = [installation.pod(f"{prefix}-own-{n}", cpu=f"{10 + n % 20}m") for n in range(pods)]
    other = [
        installation.pod(f"{prefix}-other-{n}", cpu=f"{50 + n}m", schedulerName="with-plugin") for n in range(classes)
    ]
    started = time.monotonic()
    await asyncio.gather(here.create_pods(own), here.create_pods(other, at_once=2))
    last = started
    wanted = f"{prefix}-own-"
    while True:
        found = [
            here.witness.bound_at[uid]
            for uid, name in here.witness.names.items()
            if name.startswith(wanted) and uid in here.witness.bound_at
        ]
        if len(found) == pods:
            last = max(found)
            return pods / (last - started)
        await asyncio.sleep(0.05)


async def compare(
    here: installation.Installation, address: str, prefix: str, behaviour: str, options: argparse.Namespace
) -> tuple[float, float]:
    """Pods bound in a second beside a good plugin, and then beside one that behaves so."""
    rates = []
    for each in ("good", behaviour):
        with plugin(address, each):
            await asyncio.sleep(1)
            await bound_per_second(here, f"warm-{prefix}-{each}", 20, 10)
            await here.clear()
            rates.append(await bound_per_second(here, f"run-{prefix}-{each}", options.pods, options.classes))
            await here.clear()
    return rates[0], rates[1]


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--classes", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--behaviours", nargs="*", default=list(broken_plugin.BEHAVIOURS[1:]))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with scheduler(pathlib.Path(folder), options.nodes) as (here, address):
            for behaviour in options.behaviours:
                names = [f"{number}-{behaviour}" for number in range(options.rounds)]
                found = [await compare(here, address, name, behaviour, options) for name in names]
                good, bad = (statistics.median(rates) for rates in zip(*found, strict=True))
                text = f"{behaviour}: {bad:.0f} pods/s, {good:.0f} beside a good plugin: {bad / good - 1:+.1%}"
                print(text, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
