"""The process that shows what insight has recorded: a console on the folder, on a socket that insight hands over.

It is started and asked by insight alone (`recorded_console.py`), and only reads. It is of low priority, and the first
that the kernel ends where memory runs out: insight follows the cluster.
"""

import argparse
import asyncio
import contextlib
import os
import pathlib
import signal
import socket
import sys
from collections.abc import Sequence

from trireme.insight.http_api import access, recorded_site
from trireme.rpc import parent_death
from trireme_kube.componentbase.server import plain_server

_NICE = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket-descriptor", type=int, required=True, help="of the socket that listens")
    parser.add_argument("--parent", type=int, required=True, help="process id of insight")
    parser.add_argument("--record-dir", type=pathlib.Path, required=True, help="folder that insight records in")
    options = parser.parse_args(argv)
    parent_death.exit_with_parent(options.parent)
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000")
    asyncio.run(_serve(socket.socket(fileno=options.socket_descriptor), options.record_dir))
    return 0


async def _serve(listener: socket.socket, folder: pathlib.Path) -> None:
    """Serve until a signal."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    listener.setblocking(False)
    site = recorded_site.RecordedSite(folder, access.ForwardedAccess(), is_live=True)
    with contextlib.closing(site):
        async with plain_server.serve_application(site.application(), sock=listener):
            await stopping.wait()


if __name__ == "__main__":
    sys.exit(main())
