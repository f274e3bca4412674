"""The process that shows what insight has recorded: a console on the folder, on a socket that insight hands over.

It is started and asked by insight alone (`recorded_console.py`), and only reads. Insight follows the cluster, so this
process is of low priority, takes half of the memory that the container may have at most, and is the first that the
kernel ends where memory runs out; Kubernetes ends a container as a whole, which is why it has a limit of its own.
"""

import argparse
import asyncio
import contextlib
import os
import pathlib
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from trireme.insight.http_api import access, recorded_console, recorded_site
from trireme.rpc import parent_death
from trireme_kube.componentbase.cli import arguments
from trireme_kube.componentbase.server import plain_server

_NICE = 5
# The limit of the container's memory: of cgroups version 2 and 1.
_CGROUP_LIMITS = (
    pathlib.Path("/sys/fs/cgroup/memory.max"),
    pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_NO_LIMIT = 1 << 48


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    parser = argparse.ArgumentParser(description=arguments.description_of(__doc__))
    parser.add_argument("--socket-descriptor", type=int, required=True, help="of the socket that listens")
    parser.add_argument("--parent", type=int, required=True, help="process id of insight")
    parser.add_argument("--record-dir", type=pathlib.Path, required=True, help="folder that insight records in")
    options = parser.parse_args(argv)
    # Killed: one that hangs would outlive it.
    parent_death.exit_with_parent(options.parent, signal.SIGKILL)
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
    limit_memory(_CGROUP_LIMITS)
    asyncio.run(_serve(socket.socket(fileno=options.socket_descriptor), options.record_dir))
    return 0


def limit_memory(files: Sequence[pathlib.Path]) -> int | None:
    """Have allocations fail beyond half of the limit in the first of the files that has one; None: none has.

    Units: bytes.
    """
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            # Without a limit version 2 says `max`, version 1 a number that no machine has.
            limit = int(file.read_text())
            if limit < _NO_LIMIT:
                resource.setrlimit(resource.RLIMIT_DATA, (limit // 2, limit // 2))
                return limit // 2
    return None


async def _serve(listener: socket.socket, folder: pathlib.Path) -> None:
    """Serve until a signal."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    listener.setblocking(False)
    asyncio.get_running_loop().set_exception_handler(_on_exception)
    site = recorded_site.RecordedSite(folder, access.ForwardedAccess(), is_live=True, on_memory_error=_end)
    with contextlib.closing(site):
        async with plain_server.serve_application(site.application(), sock=listener):
            await stopping.wait()


def _on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """End where a connection cannot be read for want of memory."""
    if isinstance(context.get("exception"), MemoryError):
        _end()
    loop.default_exception_handler(context)


def _end() -> None:
    """End at once: what fills the memory would stay there, and no further request be read."""
    os._exit(recorded_console.OUT_OF_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
