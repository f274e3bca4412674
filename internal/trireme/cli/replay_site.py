"""`trireme replay FILE --serve`: the console on a recording, as of a moment that a slider sets, until Ctrl-C.

Also change: docs/console.md.

Tests: tests/e2e/test_console_past.py.
"""

import argparse
import asyncio
import contextlib
import signal
import sys

from trireme.insight.http_api import http_server, recorded_site
from trireme.recording import segment_reader
from trireme.rpc import listen_flags
from trireme_kube.componentbase.server import plain_server


def run(options: argparse.Namespace) -> int:
    """Serve the console. Returns the exit code."""
    try:
        asyncio.run(_serve(options))
    except (listen_flags.ListenError, segment_reader.RecordingError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Error: {error.filename or options.file}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    """Serve until a signal. Raises: ListenError, OSError, RecordingError, ValueError."""
    address = listen_flags.parse_address(options.serve, "--serve")
    if address.socket_path is not None or not address.local:
        raise listen_flags.ListenError(
            f"--serve: {options.serve!r} must be host:port on a loopback address: its readers are not authenticated"
        )
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    site = recorded_site.RecordedSite(options.file)
    with contextlib.closing(site):
        await site.open(options.at)
        with http_server.open_listener(address, "--serve") as listener:
            url = f"http://{address.with_port(listener.getsockname()[1]).text}"
            async with plain_server.serve_application(site.application(), sock=listener):
                print(f"the console of {options.file.resolve().name}: {url}/\nCtrl-C ends it", flush=True)
                await stopping.wait()
