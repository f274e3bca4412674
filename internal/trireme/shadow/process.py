"""The shadow program: parses its flags, connects with reading in mind, runs, and reports errors in one line.

Tests: tests/contract/test_shadow_run.py, tests/unit/shadow/test_migration_findings.py.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence

from trireme.framework import release
from trireme.shadow import flags, report_server, settings, shadow_run
from trireme.shadow.migration import check
from trireme.shadow.migration.finding import Finding
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.rest import client, content_types, credentials
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.cli import arguments, log_flags, versions
from trireme_kube.componentbase.logs import klog

_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, Ctrl-C or the end of the duration. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="trireme-shadow", description=arguments.description_of(__doc__), allow_abbrev=False
    )
    for declared in (flags.ConnectionFlags, flags.Flags, log_flags.LogFlags):
        arguments.add(parser, declared)
    options = parser.parse_args(argv)
    klog.setup(arguments.read(log_flags.LogFlags, options).options("trireme"))
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Run with these options. Returns the exit code."""
    began = time.monotonic()
    try:
        chosen = arguments.read(flags.Flags, options)
        chosen.check()
        return asyncio.run(_run(arguments.read(flags.ConnectionFlags, options), chosen, began))
    except (flags.FlagsError, shadow_run.StartError, ValueError) as error:
        return _fail(error)
    except BaseExceptionGroup as group:
        for ended in supervision.ended_tasks(group):
            return _fail(ended)
        started = group.subgroup(shadow_run.StartError)
        if started is None:
            raise
        return _fail(started.exceptions[0])


def run_check(options: argparse.Namespace) -> int:
    """Print the findings of the migration check.

    Returns the exit code: 1 if nothing could be read, or if the frontend does not start with what was.
    """
    try:
        found = asyncio.run(_check(options))
    except (ConfigurationError, ApiError, ApiUnreachable) as error:
        return _fail(error)
    print(*check.lines(found), sep="\n")
    refused = list(dict.fromkeys(each.subject for each in found if each.refused))
    return _fail(f"the frontend does not start with {', '.join(refused)}") if refused else 0


async def _check(options: argparse.Namespace) -> list[Finding]:
    """The findings about the file that was given, else about the cluster."""
    if options.kube_scheduler_config:
        return check.of_file(options.kube_scheduler_config, options.kube_scheduler_flags)
    async with _connect(arguments.read(flags.ConnectionFlags, options).source()) as api:
        return await check.of_cluster(api)


async def _run(connection: flags.ConnectionFlags, chosen: flags.Flags, began: float) -> int:
    """Connect and run. Returns the exit code."""
    async with _connect(connection.source()) as api:
        configured = settings.load(chosen.config, chosen.feature_gates, api.host)
        stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        running = shadow_run.ShadowRun(chosen, configured, api, time.monotonic, began)
        async with _serve(chosen, running):
            await running.run(stopping, lambda text: print(text, flush=True))
    return 0


@contextlib.asynccontextmanager
async def _serve(chosen: flags.Flags, running: shadow_run.ShadowRun) -> AsyncIterator[None]:
    """Serve the report within the block, if the flags say so. Raises: FlagsError: the address cannot be used."""
    if not chosen.listen:
        yield
        return
    async with report_server.serve(chosen.listen, lambda: running.newest_page):
        yield


@contextlib.asynccontextmanager
async def _connect(source: credentials.Source) -> AsyncIterator[client.ApiClient]:
    """A client for the block; it is used for get, list and watch alone. Raises: ConfigurationError."""
    user_agent = release.user_agent("shadow", versions.KUBERNETES)
    settings_of_client = client.ClientSettings(
        source, user_agent, accept=content_types.accept_header("", content_types.PROTOBUF)
    )
    async with await client.connect(settings_of_client) as api:
        yield api


def _fail(error: BaseException | str) -> int:
    """Print the error; returns the exit code."""
    print(f"Error: {error}", file=sys.stderr)
    return _FAILED
