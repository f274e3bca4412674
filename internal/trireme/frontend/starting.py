"""Starts the frontend: from its arguments to `running.run`.

Tests: tests/e2e/test_e2e_scheduling.py.
"""

import asyncio
import functools
import importlib
import logging
import sys
from collections.abc import Mapping, Sequence

import uvloop

from trireme.config import commandline, gate_effects
from trireme.config.telemetry_flags import LoggingOptions
from trireme.frontend import early_lists, reload_signal, stop_signal
from trireme.frontend.phase_clients import local_phases
from trireme.rpc import forker
from trireme.tracing import exporting
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


def start(
    argv: Sequence[str] | None,
    stop: stop_signal.StopSignal,
    reload: reload_signal.ReloadSignal,
    forker_connection: forker.ForkerConnection,
) -> int:
    """Run until a signal to stop arrives or the Lease is lost. Returns the exit code.

    `forker_connection` is to the forker, which ends with this process.
    """
    build = functools.partial(_configure_logging_and_run, stop, reload, forker_connection)
    return commandline.run(sys.argv[1:] if argv is None else argv, build=build, lookup=_look_up_authentication_settings)


def _configure_logging_and_run(
    stop: stop_signal.StopSignal,
    reload: reload_signal.ReloadSignal,
    forker_connection: forker.ForkerConnection,
    completed: commandline.CompletedConfig,
) -> int:
    """Set up the log, log the start as kube-scheduler does, and run on uvloop; returns the exit code."""
    klog.setup(_log_options(completed.options.logging, completed.gates.enabled("ContextualLogging")))
    klog.info(log, 0, "Starting Kubernetes Scheduler", version=completed.version)
    for text in gate_effects.warnings(completed.gates):
        log.warning("%s; leave it out", text)
    with (
        exporting.exporting("trireme-frontend"),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_run_with_local_phases(stop, reload, forker_connection, completed))


async def _run_with_local_phases(
    stop: stop_signal.StopSignal,
    reload: reload_signal.ReloadSignal,
    forker_connection: forker.ForkerConnection,
    completed: commandline.CompletedConfig,
) -> int:
    """Start our own phases while the frontend imports its modules, then run it; returns the exit code."""
    local = local_phases.phases_of_configuration(completed, forker_connection)
    try:
        await local.request_start()
        async with early_lists.request_lists(completed) as early:
            # The remaining imports take most of a start; the phases' imports and the API server's lists go on at the
            # same time.
            running = await asyncio.to_thread(importlib.import_module, "trireme.frontend.running")
            code: int = await running.run(completed, early, local, stop, reload)
            return code
    except ConfigurationError as error:
        # First, so that the log ends with the cause and not with the end of our phases.
        await local.stop()
        klog.error(log, "command failed", err=str(error))
        return 1
    finally:
        await local.stop()


def _look_up_authentication_settings(connection: Connection) -> Mapping[str, str]:
    """Read the cluster's authentication settings; the import waits until they are needed."""
    from trireme.delegated_access import serving_trust

    return serving_trust.read_authentication_settings(connection)


def _log_options(options: LoggingOptions, contextual: bool) -> klog.LogOptions:
    """The log settings of the flags."""
    json = options.format == "json"
    return klog.LogOptions(
        options.format,
        options.verbosity,
        [(module.pattern, module.level) for module in options.vmodule],
        options.json_split_stream if json else options.text_split_stream,
        (options.json_info_buffer_size if json else options.text_info_buffer_size).value(),
        options.flush_frequency.seconds,
        contextual,
        packages=("trireme",),
    )
