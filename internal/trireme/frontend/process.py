"""The frontend process: configuration, children, clients, leader election; and a clean end.

Exit codes as kube-scheduler's: 0 when told to end, 1 when the configuration is wrong or the Lease is lost. Without
leader election kube-scheduler takes every end for an error, and so do we: whoever watches exit codes of one sees the
same of the other.
"""

import asyncio
import enum
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Sequence

import uvloop

from trireme.config import commandline
from trireme.config.options import LoggingOptions
from trireme.frontend import (
    app,
    children,
    handle,
    metrics_observed,
    remote_plugins,
    serving,
    serving_site,
    serving_trust,
)
from trireme.kube import client, credentials, election, informer, lease, resources
from trireme.kube.errors import ApiError, ApiUnreachable, KubeconfigError
from trireme.replica import remote_client
from trireme.replica.listening import ListenError
from trireme.telemetry import klog

log = logging.getLogger(__name__)

# Pods and classes live long and hold no cycles: to look through all of them every few hundred allocations, as Python
# does by default, costs a tenth of the process's time at 100,000 pods.
GC_THRESHOLDS = (50_000, 20, 50)

_PHASES = ("filter", "score", "bind")


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to end, or until the Lease is lost. Returns the exit code."""
    return commandline.run(sys.argv[1:] if argv is None else argv, build=_build, lookup=serving_trust.look_up)


class _Ending(enum.Enum):
    """Why the frontend ends."""

    ASKED = "asked"
    LEASE_LOST = "lease lost"
    FAILED = "failed"


def _build(completed: commandline.CompletedConfig) -> int:
    klog.setup(_log_options(completed.options.logging))
    klog.info(log, 0, "Starting Kubernetes Scheduler", version=completed.version)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            ending = runner.run(_run(completed))
    except (
        KubeconfigError,
        children.ChildError,
        remote_client.HandshakeError,
        ListenError,
        serving.ServingError,
    ) as error:
        klog.error(log, "command failed", err=str(error))
        return 1
    return _last_words(ending, completed.configuration.leader_election.leader_elect)


def _last_words(ending: _Ending, elects: bool) -> int:
    """The log line that kube-scheduler ends with, and its exit code."""
    if ending is _Ending.LEASE_LOST:
        klog.error(log, "Leaderelection lost")
    elif ending is _Ending.ASKED and elects:
        klog.info(log, 0, "Requested to terminate, exiting")
        return 0
    elif ending is _Ending.ASKED:
        klog.error(log, "command failed", err="finished without leader elect")
    return 1


async def _run(completed: commandline.CompletedConfig) -> _Ending:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stopping)
    source = _source(completed)
    connection = completed.configuration.client_connection
    settings = client.ClientSettings(
        source, client.user_agent("kube-scheduler", completed.version, "scheduler"), connection.qps, connection.burst
    )
    infos = await remote_plugins.introduced(completed)
    arguments = _child_arguments(completed, source)
    local = children.Children(arguments, _child_counts(completed))

    def make_children(phase: str) -> children.Children:
        return children.Children(arguments, {phase: completed.trireme.phase(phase).local_replicas})

    observed = metrics_observed.Observations(completed.profiles)
    watching = observed.request_observer(completed.connection.host)
    async with (
        await client.connect(settings, watching) as scheduling,
        await client.connect(settings, watching) as writing,
    ):
        clients = app.Clients(scheduling, writing)
        frontend = app.Frontend(completed, clients, local, infos, make_children, observed)
        try:
            await local.start()
            # What is loaded now lives as long as the process: the collector need not look at it again.
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            handles = handle.HandleService(frontend.waiting, frontend.activate)
            async with (
                serving.serve(completed, frontend) as served,
                handle.served(completed.trireme, handles),
            ):
                return await _until_stopped(completed, settings, frontend, local, stopping, served)
        finally:
            await frontend.close()
            await local.stop()


async def _until_stopped(
    completed: commandline.CompletedConfig,
    settings: client.ClientSettings,
    frontend: app.Frontend,
    local: children.Children,
    stopping: asyncio.Event,
    served: serving_site.FrontendSite,
) -> _Ending:
    elector = _Elector(completed, settings)
    running = asyncio.create_task(frontend.run(elector.elected), name="frontend")
    keeping = asyncio.create_task(local.keep(frontend.wake), name="children")
    stop = asyncio.create_task(stopping.wait())
    lost = asyncio.create_task(elector.lost.wait())
    done, _ = await asyncio.wait({running, keeping, stop, lost}, return_when=asyncio.FIRST_COMPLETED)
    served.ending()
    ending = _Ending.LEASE_LOST if lost in done else _Ending.ASKED if stop in done else _Ending.FAILED
    for task in (running, keeping, stop, lost):
        task.cancel()
    results = await asyncio.gather(running, keeping, return_exceptions=True)
    await elector.stop()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            log.error("the frontend ended with an error", exc_info=result)
            ending = _Ending.FAILED
    return ending


class _Elector:
    """Contends for the Lease, or goes without."""

    def __init__(self, completed: commandline.CompletedConfig, settings: client.ClientSettings) -> None:
        self._config = completed.configuration.leader_election
        self._settings = settings
        self._elector: lease.LeaseElector | None = None
        self._leading: asyncio.Future[election.Leading] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()

    async def elected(self) -> app.Term:
        """Return once we lead."""
        if not self._config.leader_elect:
            return await self._without_election()
        config = self._config
        self._elector = lease.LeaseElector(
            election.ElectionSettings(
                lease.new_identity(),
                config.resource_namespace,
                config.resource_name,
                config.lease_duration.seconds,
                config.renew_deadline.seconds,
                config.retry_period.seconds,
            ),
            self._settings,
            self._on_notice,
        )
        lock = f"{config.resource_namespace}/{config.resource_name}"
        klog.info(log, 0, "Attempting to acquire leader lease...", lock=lock)
        self._elector.start()
        leading = await self._leading
        klog.info(log, 0, "Successfully acquired lease", lock=lock)
        first = leading.lease.transitions == 0
        return app.Term(leading.epoch, self._elector.settings.identity, self._seconds_left, first)

    async def stop(self) -> None:
        """Give the Lease back."""
        if self._elector is not None:
            await self._elector.stop()

    def _seconds_left(self) -> float:
        return 0.0 if self._elector is None else self._elector.seconds_left

    async def _without_election(self) -> app.Term:
        """The epoch is the version of a list made now; nobody else schedules, so it does not end."""
        async with await client.connect(self._settings) as connection:
            while True:
                try:
                    epoch = await informer.newest_version(connection, resources.PODS, 10.0)
                    break
                except (ApiError, ApiUnreachable) as error:
                    log.warning("the API server does not say its version: %s", error)
                    await asyncio.sleep(1.0)
        return app.Term(epoch, f"{socket.gethostname()}_{time.time_ns()}", lambda: 3600.0)

    def _on_notice(self, notice: election.Notice) -> None:
        if isinstance(notice, election.Leading) and not self._leading.done():
            self._leading.set_result(notice)
        elif isinstance(notice, election.Lost) and not notice.asked:
            log.error("the Lease is lost: %s", notice.reason)
            self.lost.set()


def _log_options(options: LoggingOptions) -> klog.LogOptions:
    json = options.format == "json"
    return klog.LogOptions(
        options.format,
        options.verbosity,
        [(module.pattern, module.level) for module in options.vmodule],
        options.json_split_stream if json else options.text_split_stream,
        (options.json_info_buffer_size if json else options.text_info_buffer_size).value(),
        options.flush_frequency.seconds,
    )


def _source(completed: commandline.CompletedConfig) -> credentials.Source:
    kubeconfig = completed.configuration.client_connection.kubeconfig
    return credentials.Source(kubeconfig, completed.options.master)


def _child_counts(completed: commandline.CompletedConfig) -> dict[str, int]:
    phases = {name: completed.trireme.phase(name) for name in _PHASES}
    return {name: 0 if phase.endpoints else phase.local_replicas for name, phase in phases.items()}


def _child_arguments(completed: commandline.CompletedConfig, source: credentials.Source) -> dict[str, list[str]]:
    config = completed.configuration
    election_config = config.leader_election
    bind = [
        f"--leader-elect={str(election_config.leader_elect).lower()}",
        f"--leader-elect-resource-name={election_config.resource_name}",
        f"--leader-elect-resource-namespace={election_config.resource_namespace}",
        f"--kube-api-qps={config.client_connection.qps}",
        f"--kube-api-burst={config.client_connection.burst}",
    ]
    if source.kubeconfig:
        bind.append(f"--kubeconfig={source.kubeconfig}")
    if source.master:
        bind.append(f"--master={source.master}")
    logging_options = completed.options.logging
    logs = [f"-v={logging_options.verbosity}", f"--logging-format={logging_options.format}"]
    return {"filter": logs, "score": logs, "bind": [*bind, *logs]}


def _on_signal(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        sys.exit(1)
    stopping.set()
