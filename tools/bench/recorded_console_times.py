"""What looking back costs: `python -m tools.bench.recorded_console_times`.

Records a cluster of 5,000 nodes and 50,000 pods, and messages that move twenty pods each, then asks a console for
moments of it as a page does. Printed are the time of each answer, on the clock and of the processor, the memory of the
process that reads the recording, and for how long the event loop of the process that forwards, which is insight's, did
not run meanwhile.
"""

# Also change: internal/trireme/insight/http_api/recorded_paths.py (the paths).

import argparse
import asyncio
import contextlib
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import AsyncIterator

import numpy as np
import orjson
from aiohttp import test_utils

from tests.helpers import insight_http, recordings
from tools.bench import console_times, proposal_times
from trireme.insight.http_api import access, api, recorded_console
from trireme.recording import segment_writer
from trireme.snapshot import snapshot
from trireme.v1 import recording_pb2, snapshot_pb2

PODS_PER_MESSAGE = 20
_TICK_SECONDS = 0.002


def _record(folder: pathlib.Path, nodes: int, pods: int, messages: int) -> None:
    """Record the cluster, and so many messages, one each second."""
    state, snap = proposal_times.full_sync(nodes, pods), snapshot.Snapshot()
    snap.apply(state)
    head = recordings.header(hello=snapshot_pb2.Hello(configuration=console_times._configuration()))
    writer = segment_writer.RecordingWriter(folder, segment_writer.Limits(1 << 30, 1e9))
    writer.begin(head)
    frame = recording_pb2.RecordedFrame(unix_time_ns=recordings.BEGIN, message=snapshot_pb2.SyncRequest(delta=state))
    frame.state_part = recording_pb2.STATE_PART_LAST
    writer.append(frame.SerializeToString(), completes_state=True)
    draw, generation = np.random.default_rng(1), snap.generation
    for number in range(1, messages + 1):
        rows = draw.choice(snap.pods.size, PODS_PER_MESSAGE, replace=False)
        columns = snapshot_pb2.PodColumns(
            row=rows.tolist(),
            pod_class=snap.pods.pod_class[rows].tolist(),
            slot=draw.integers(0, nodes, PODS_PER_MESSAGE).tolist(),
            uid=[""] * PODS_PER_MESSAGE,
            name=[""] * PODS_PER_MESSAGE,
            start_time_s=[0] * PODS_PER_MESSAGE,
            flags=[0] * PODS_PER_MESSAGE,
        )
        delta = snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, pods=columns)
        generation += 1
        frame = recording_pb2.RecordedFrame(
            unix_time_ns=recordings.BEGIN + number * recordings.SECOND, message=snapshot_pb2.SyncRequest(delta=delta)
        )
        writer.append(frame.SerializeToString())
    writer.end(recordings.BEGIN + messages * recordings.SECOND)
    writer.release()


@contextlib.asynccontextmanager
async def _lag() -> AsyncIterator[list[float]]:
    """By how many seconds the loop was late, within the block."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(_TICK_SECONDS)
            late.append(time.perf_counter() - started - _TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    try:
        yield late
    finally:
        ticking.cancel()


def _memory(pid: int) -> int:
    """The resident memory of a process, in MB."""
    text = pathlib.Path(f"/proc/{pid}/statm").read_text()
    return int(text.split()[1]) * resource.getpagesize() // 1_000_000


def _processor_seconds(pid: int) -> float:
    """The processor time of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _run(options: argparse.Namespace, folder: pathlib.Path) -> None:
    """Record, ask, and print."""
    _record(folder, options.nodes, options.pods, options.messages)
    begin, whole = recordings.BEGIN // 1_000_000, options.messages * 1000
    recorded = recorded_console.RecordedConsole(folder)
    application = api.HttpApi(await insight_http.replica(), access.LoopbackAccess(), recorded=recorded).application()
    steps = (
        ("from when to when, the process started for it", None),
        ("the newest moment", whole),
        ("the same again", whole),
        ("a quarter before it", whole * 3 // 4),
        ("a second later", whole * 3 // 4 + 1000),
        ("half of it", whole // 2),
        ("a quarter of it, in place of another one", whole // 4),
    )
    async with test_utils.TestClient(test_utils.TestServer(application)) as client, _lag() as late:
        for name, after in steps:
            path = "/v1/recording" if after is None else f"/v1/recorded/{begin + after}/nodes"
            late.clear()
            before = _processor_seconds(recorded.pid) if recorded.pid else 0.0
            started = time.perf_counter()
            status = 503
            while status == 503:
                async with client.get(path) as response:
                    status, size = response.status, len(await response.read())
            seconds = time.perf_counter() - started
            assert status == 200, (status, orjson.loads(await response.read()))
            print(
                f"{name}: {seconds:.2f} s, {_processor_seconds(recorded.pid) - before:.2f} s of processor time, "
                f"{size // 1000} kB; the process has {_memory(recorded.pid)} MB; "
                f"insight's loop was late by {max(late, default=0) * 1000:.0f} ms at most"
            )
        await recorded.close()


def main() -> None:
    """Parse the flags, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--messages", type=int, default=1800, help="after the full state, one each second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_run(options, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
