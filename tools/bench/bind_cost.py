"""What a bound pod costs the bind process: `python -m tools.bench.bind_cost [--pods N] [--batch M] [--profile]`.

Three processes: an API server that answers every request at once (so that its speed plays no part), the bind process,
and this one, which plays the frontend. Prints CPU time of the bind process per pod, and pods a second. With --profile
the bind process runs under cProfile, and the functions that cost most are printed; its figures are then inflated.
"""

# Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).

import argparse
import asyncio
import os
import pstats
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

import orjson
import uvloop
from grpc import aio

from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2, plugin_pb2, snapshot_pb2

BIND = str(Path(__file__).parents[2] / "cmd" / "bind" / "__main__.py")
_CREATED = orjson.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
_ANSWER = (
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_CREATED) + _CREATED
)


class _Http(asyncio.Protocol):
    """Answers 201 to each request, however the requests are cut into packets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports can write, but are no asyncio.WriteTransport for isinstance.
        self._transport = cast("asyncio.WriteTransport", transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(_ANSWER)


async def serve_http() -> None:
    """Serves until killed; prints the port."""
    server = await asyncio.get_running_loop().create_server(_Http, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def configuration() -> snapshot_pb2.Configuration:
    """A profile with DefaultBinder."""
    plugins = [snapshot_pb2.WeightedPlugin(name="DefaultBinder")]
    plugin_set = snapshot_pb2.PluginSet(extension_point=plugin_pb2.EXTENSION_POINT_BIND, plugins=plugins)
    return snapshot_pb2.Configuration(
        profiles=[snapshot_pb2.Profile(scheduler_name="default-scheduler", plugin_sets=[plugin_set])]
    )


async def drive(address: str, pods: int, batch: int, calls: int) -> tuple[int, int]:
    """Binds pods, a few calls at a time; answers how many succeeded and how many messages told so."""
    bound = messages = 0
    fence = cycle_pb2.Fence(epoch=1, lease_valid_ms=60_000)
    cycle = cycle_pb2.Cycle(fence=fence, config_hash=1, profile="default-scheduler")
    async with aio.insecure_channel(address) as channel:
        stub = bind_phase_pb2_grpc.BindPhaseStub(channel)
        await stub.Fence(
            bind_phase_pb2.FenceRequest(fence=fence, config_hash=1, configuration=configuration()), timeout=5
        )
        starts = iter(range(0, pods, batch))

        async def work() -> None:
            nonlocal bound, messages
            for start in starts:
                items = [
                    bind_pb2.BindItem(
                        pod=cycle_pb2.PodIdentity(namespace="default", name=f"pod-{number}", uid=f"{number:036d}"),
                        node_name="node-1",
                    )
                    for number in range(start, min(start + batch, pods))
                ]
                async for response in stub.Bind(bind_pb2.BindRequest(cycle=cycle, items=items), timeout=60):
                    messages += 1
                    bound += sum(result.status.code == 1 for result in response.results)

        await asyncio.gather(*(work() for _ in range(calls)))
    return bound, messages


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--calls", type=int, default=2, help="batches under way at once")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--http", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.http:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_http())
    with tempfile.TemporaryDirectory() as folder:
        http = subprocess.Popen([sys.executable, __file__, "--http"], stdout=subprocess.PIPE, text=True)
        assert http.stdout is not None
        master = f"http://127.0.0.1:{http.stdout.readline().strip()}"
        profiler = ["-m", "cProfile", "-o", f"{folder}/profile"] if options.profile else []
        flags = ["--master", master, "--kube-api-qps=-1", "--leader-elect=false", "--listen", f"unix:{folder}/b.sock"]
        bind = subprocess.Popen([sys.executable, *profiler, BIND, *flags], stdout=subprocess.PIPE, text=True)
        assert bind.stdout is not None
        try:
            address = bind.stdout.readline().removeprefix("listening on ").strip()
            uvloop.run(drive(address, 1000, options.batch, options.calls))
            before, started = cpu_seconds(bind.pid), time.monotonic()
            bound, messages = uvloop.run(drive(address, options.pods, options.batch, options.calls))
            seconds, cpu = time.monotonic() - started, cpu_seconds(bind.pid) - before
        finally:
            bind.terminate()
            bind.wait(20)
            http.terminate()
            http.wait(20)
        print(
            f"{bound} of {options.pods} pods bound in {seconds:.2f} s ({bound / seconds:.0f} a second), "
            f"{messages} messages; bind process: {cpu / options.pods * 1e6:.0f} µs of CPU a pod"
        )
        if options.profile:
            pstats.Stats(f"{folder}/profile").sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
