"""`trireme top`: what the scheduler does, at a glance, as it changes.

Throughput, latency, the queue, why pods wait, and the replicas of the phases. Keys: s sorts, p pauses, q quits.

Tests: tests/unit/cli/test_top.py.
"""

import argparse
import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable

from trireme.cli import display, frontend_connection
from trireme.framework import programs
from trireme_kube.componentbase.cli import arguments

# A frontend answers at once; a user who waits longer wants to know for what.
_SILENT_SECONDS = 1.0


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme top` to the commands."""
    parser = commands.add_parser(
        "top", help="watch the scheduler in the terminal", description=arguments.description_of(__doc__)
    )
    frontend_connection.add_connection_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the scheduler until a key ends it. Returns the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("Error: trireme top needs a terminal; in a pipe use trireme status", file=sys.stderr)
        return 1
    fetch = functools.partial(frontend_connection.fetch_report, options, programs.STATUS_PATH, {"pods": "0"})
    try:
        # Before the screen is taken over: a frontend that cannot be reached is an error, and no empty screen.
        first = asyncio.run(first_report(fetch, frontend_connection.address_text(options)))
    except frontend_connection.ReportUnavailable as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    # A screen library, which no other command needs.
    from trireme.cli import top_screen

    top_screen.TopScreen(fetch, first).run()
    return 0


async def first_report(
    fetch: Callable[[], Awaitable[display.Report]], address: str, silent_seconds: float = _SILENT_SECONDS
) -> display.Report:
    """The first report; says on stderr what is waited for, if it does not come at once. Raises: ReportUnavailable."""
    fetching = asyncio.ensure_future(fetch())
    done, _ = await asyncio.wait({fetching}, timeout=silent_seconds)
    if not done:
        limit = f"{frontend_connection.DEADLINE_SECONDS:.0f} s"
        print(f"Waiting up to {limit} for the first answer of the frontend at {address} …", file=sys.stderr, flush=True)
    return await fetching
