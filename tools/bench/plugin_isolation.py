"""What a broken plugin costs the profiles that do not use it: `python -m tools.bench.plugin_isolation`.

Two installations run at the same time, each with an embedded cluster and two profiles, one with a remote filter
plugin under Ignore. Pods of both profiles arrive at once; what is measured is how many pods of the other profile are
bound in a second. One installation has a good plugin and the other one that behaves so (`broken_plugin.py`); in the
second half of a round it is the reverse, so that what else the machine does weighs on both. A warm-up, in which circuit
breakers open, is not measured.
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
from collections.abc import AsyncIterator, Iterator, Sequence

from tests.e2e import installation, witness
from tools.bench import broken_plugin

ROOT = pathlib.Path(__file__).resolve().parents[2]


Place = tuple[installation.Installation, str]
"""An installation, and the address of its plugin."""

# As in tests/e2e: a loop that starts the plugin again whenever it ends.
_AGAIN = "import subprocess, sys\nwhile True:\n    subprocess.run(sys.argv[1:])\n"


@contextlib.contextmanager
def plugin(address: str, behaviour: str) -> Iterator[None]:
    """The plugin's process, started again whenever it ends."""
    program = [sys.executable, str(ROOT / "tools/bench/broken_plugin.py"), "--listen", address]
    command = [sys.executable, "-c", _AGAIN, *program, "--behaviour", behaviour]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.wait()


@contextlib.asynccontextmanager
async def scheduler(folder: pathlib.Path, nodes: int) -> AsyncIterator[Place]:
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


async def measure(place: Place, behaviour: str, prefix: str, options: argparse.Namespace) -> float:
    """Pods bound in a second beside a plugin that behaves so."""
    here, address = place
    with plugin(address, behaviour):
        await asyncio.sleep(1)
        await bound_per_second(here, f"warm-{prefix}", 20, 10)
        await here.clear()
        found = await bound_per_second(here, f"run-{prefix}", options.pods, options.classes)
        await here.clear()
    return found


async def compare(places: Sequence[Place], behaviour: str, number: int, options: argparse.Namespace) -> list[float]:
    """Pods bound in a second beside one that behaves so, as a share of those beside a good one: once in each place."""
    shares = []
    for bad_place, good_place in (places, places[::-1]):
        prefix = f"{number}-{len(shares)}-{behaviour}"
        bad, good = await asyncio.gather(
            measure(bad_place, behaviour, prefix, options), measure(good_place, "good", prefix, options)
        )
        print(f"  {behaviour}: {bad:.0f} pods/s, {good:.0f} beside a good plugin", flush=True)
        shares.append(bad / good)
    return shares


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=600)
    parser.add_argument("--classes", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--behaviours", nargs="*", default=list(broken_plugin.BEHAVIOURS[1:]))
    options = parser.parse_args()
    async with contextlib.AsyncExitStack() as stack:
        folders = [pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        places = [await stack.enter_async_context(scheduler(folder, options.nodes)) for folder in folders]
        for behaviour in options.behaviours:
            rounds = [await compare(places, behaviour, number, options) for number in range(options.rounds)]
            # What is different between the places cancels in the mean of a round.
            means = [statistics.geometric_mean(shares) - 1 for shares in rounds]
            text = f"{behaviour}: {statistics.median(means):+.1%}, from {min(means):+.1%} to {max(means):+.1%}"
            print(text, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
