"""The processes that end-to-end tests start."""

import os
import pathlib
import select
import subprocess
import sys

import grpc.aio

from tests.e2e import installation
from tools.controlplane import launcher

_STARTER = """
import pathlib, sys, time
from tests.e2e import installation
process = installation.Process("sleeper", ["sleep", "100"], pathlib.Path(sys.argv[1]))
process.start()
print(process.pid, flush=True)
time.sleep(100)
"""


def test_no_process_outlives_whoever_started_it(tmp_path: pathlib.Path) -> None:
    """A worker of pytest that is killed would leave schedulers and clusters behind, which slow down later tests."""
    command = [sys.executable, "-c", _STARTER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=launcher.REPOSITORY) as started:
        assert started.stdout is not None
        handle = os.pidfd_open(int(started.stdout.readline()))
        started.kill()
    readable, _, _ = select.select([handle], [], [], 60.0)  # a pidfd is readable once its process has ended
    os.close(handle)
    assert readable


def test_no_process_starts_once_its_parent_has_ended() -> None:
    """A parent that is killed right after the fork is gone before the kernel knows that the child depends on it."""
    command = launcher.ending_with_parent(["echo", "there"])
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"there\n"
    # Started by a shell, it has a parent other than this process, as if this one had ended.
    started = subprocess.run(["sh", "-c", '"$@"; true', "sh", *command], capture_output=True, check=True)
    assert started.stdout == b""


async def test_processes_start_beside_grpc(tmp_path: pathlib.Path) -> None:
    """With code between fork and exec, gRPC's fork handlers run in the child, which may hang before its program."""
    server = grpc.aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        for number in range(50):
            process = installation.Process(f"echo-{number}", ["echo", "there"], tmp_path / f"{number}.log")
            process.start()
            await installation.until(lambda process=process: "there" in process.said, 60.0, lambda: "echo says nothing")
            assert "epoll" not in process.said
            process.stop()
    finally:
        await server.stop(None)
