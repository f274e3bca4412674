"""How much faster several replicas of a slow plugin are than one: a plugin that takes 50 ms and one call at a time.

Run it with `python -m tools.bench.plugin_replicas`. It starts the replicas of slow_plugin.py as processes, calls Filter
through the connection that filter uses, from as many callers as filter has classes under way, and prints calls per
second for each number of replicas, and how that compares with one replica.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from trireme.remote import remote_client, remote_connection
from trireme.v1 import filter_pb2, snapshot_pb2

PLUGIN = Path(__file__).with_name("slow_plugin.py")
CALLERS = 32
_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)


def _start(folder: Path, number: int, milliseconds: float) -> "tuple[str, subprocess.Popen[bytes]]":
    """Start a replica; returns its address and process."""
    address = f"unix:{folder}/{number}.sock"
    command = [sys.executable, str(PLUGIN), "--listen", address, "--counted", str(folder / f"{number}.count")]
    return address, subprocess.Popen([*command, "--milliseconds", str(milliseconds)], stderr=subprocess.DEVNULL)


async def _calls_per_second(addresses: list[str], seconds: float) -> float:
    """Call the plugin for so long; returns how many calls ended in a second."""
    infos = [await remote_client.handshake("Slow", address, deadline_seconds=60) for address in addresses]
    config = snapshot_pb2.RemotePlugin(name="Slow", endpoints=addresses, deadline_ms=60_000, info=infos[0])
    connection = remote_connection.PluginConnection(config)
    request = filter_pb2.FilterRequest().SerializeToString()
    ended, end = 0, time.monotonic() + seconds

    async def call_on_and_on() -> None:
        nonlocal ended
        while time.monotonic() < end:
            await connection.call(_FILTER, request, lambda response: None)
            ended += time.monotonic() < end

    try:
        await asyncio.gather(*(call_on_and_on() for _ in range(CALLERS)))
    finally:
        await connection.close()
    return ended / seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--milliseconds", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 2, 4])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started = [_start(Path(folder), number, options.milliseconds) for number in range(max(options.replicas))]
        try:
            alone = 0.0
            for count in options.replicas:
                addresses = [address for address, _ in started[:count]]
                rate = asyncio.run(_calls_per_second(addresses, options.seconds))
                alone = alone or rate
                print(f"{count} replicas: {rate:.1f} calls/s, {rate / alone:.2f} times {options.replicas[0]}")
        finally:
            for _, process in started:
                process.terminate()
            for _, process in started:
                process.wait()


if __name__ == "__main__":
    main()
