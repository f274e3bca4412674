"""Runs the frontend: its clients, its phases and leader election, up to a clean end.

`process` imports this module once the configuration is known to be valid.

Also change: docs/operating-plugins.md.

Tests: tests/contract/test_frontend_elector.py, tests/unit/frontend/test_supervised_processes.py,
tests/e2e/test_e2e_scheduling.py.
"""

import asyncio
import dataclasses
import enum
import functools
import gc
import logging
import socket
import time
from collections.abc import Callable

from trireme.config import commandline
from trireme.framework import release
from trireme.frontend import (
    app,
    candidates_api,
    configuration_reloader,
    early_lists,
    handle,
    leadership_runner,
    plugin_calls,
    plugin_discovery,
    plugin_monitor,
    reconfiguration,
    reload_signal,
    stop_signal,
)
from trireme.frontend.phase_clients import forker_client, local_phases
from trireme.frontend.serving import frontend_state, insight_status_feed, serving, serving_site
from trireme.frontend.term import Term
from trireme.frontend.tracing import traced_metrics
from trireme.remote import remote_client
from trireme.rpc.listen_flags import ListenError
from trireme_kube.client.events import event_recorder, event_series
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.leaderelection import election, lease, lease_candidate
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable, with_advice
from trireme_kube.componentbase import clocks, supervision
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

# Pods and classes live long and hold no cycles. Python's default, scanning all of them every few hundred allocations,
# costs a tenth of the process's time at 100,000 pods.
GC_THRESHOLDS = (50_000, 20, 50)


class _EndReason(enum.Enum):
    """Why the frontend ends."""

    STOPPED = "stopped"
    LEASE_LOST = "lease lost"
    FAILED = "failed"


async def run(
    completed: commandline.CompletedConfig,
    early: early_lists.EarlyLists,
    local: local_phases.LocalPhases,
    stop: stop_signal.StopSignal,
    reload: reload_signal.ReloadSignal | None = None,
) -> int:
    """Run until a signal to stop, the end of the Lease or of the namespace, or of a task that must not end.

    Returns the exit code.

    `early` has the lists requested so far, `local` are our own phases, which may be starting.
    `reload` has the configuration read again.

    Raises: ConfigurationError, naming the file and the field at fault.
    """
    try:
        async with plugin_discovery.following(early.api, completed) as discovery:
            reason = await _run_until_ended(completed, early, local, stop, reload, discovery)
    except (
        forker_client.LocalPhaseError,
        remote_client.HandshakeError,
        ListenError,
        serving.ServingError,
    ) as error:
        # First, so that the log ends with the cause and not with the end of our phases.
        await local.stop()
        klog.error(log, "command failed", err=str(error))
        return 1
    return _report_end(reason, completed.configuration.leader_election.leader_elect)


def _report_end(reason: _EndReason, elects: bool) -> int:
    """Log the line that kube-scheduler ends with, and return its exit code."""
    if reason is _EndReason.LEASE_LOST:
        klog.error(log, "Leaderelection lost")
    elif reason is _EndReason.STOPPED and elects:
        klog.info(log, 0, "Requested to terminate, exiting")
        return 0
    elif reason is _EndReason.STOPPED:
        klog.error(log, "command failed", err="finished without leader elect")
    return 1


async def _run_until_ended(
    completed: commandline.CompletedConfig,
    early: early_lists.EarlyLists,
    local: local_phases.LocalPhases,
    stop: stop_signal.StopSignal,
    reload: reload_signal.ReloadSignal | None,
    discovery: plugin_discovery.PluginDiscovery,
) -> _EndReason:
    """Assemble the frontend and its servers, run it until something ends it, and return what that was.

    That is a signal, the end of leadership, the deletion of its namespace, or a failure. Whatever fails before it runs
    (a plugin's handshake, an address, a certificate) is raised, once all that was started has been closed.
    """
    stopping = asyncio.Event()
    # Set from the loop, so that the loop wakes up.
    stop.call_on_stop(functools.partial(asyncio.get_running_loop().call_soon_threadsafe, stopping.set))
    monitor = plugin_monitor.PluginMonitor(completed)
    await monitor.start()
    supervisor = supervision.Supervisor()
    metrics = traced_metrics.of_configuration(completed)
    observer = metrics.request_observer(completed.connection.host.rpartition("://")[2])
    early.observe(observer)
    scheduling = early.api
    async with await client.connect(early.settings, observer) as writing:
        clients = app.Clients(scheduling, writing, early.lists)
        built = app.build(completed, clients, monitor.infos(), metrics, rejected=monitor.rejected)
        elector = Elector(completed, early.settings, built.context.leader.observe_holder)
        leadership = leadership_runner.LeadershipRunner(
            completed,
            built,
            scheduling,
            local,
            functools.partial(local_phases.fallback_phases, completed),
            time.monotonic,
            find_absent=elector.find_absent,
        )
        try:
            # The modules loaded so far live as long as the process: exclude them from garbage collection.
            gc.freeze()
            gc.enable()
            gc.set_threshold(*GC_THRESHOLDS)
            remote = built.scheduling.queue_executor.remote
            calls = plugin_calls.PluginStatisticsPoller(
                monitor, built.phases.links, remote, built.phases.streams.statistics
            )
            watch = functools.partial(monitor.run, built.plugin_updates.apply, built.phases.streams.unsynced_seconds)
            supervisor.keep("remote plugins", watch)
            supervisor.keep("calls to remote plugins", calls.run)
            supervisor.start(elector.look_for_candidates())
            handles = handle.HandleService(
                completed.trireme, built.scheduling.waiting, built.scheduling.queue_executor.activate
            )
            changes = reconfiguration.Reconfiguration(completed, built, monitor, handles.configure, discovery)
            supervisor.keep("endpoints of plugins", functools.partial(discovery.run, changes.follow_addresses))
            reloader = _make_reloader(built, changes)
            supervisor.keep("configuration", reloader.run)
            if reload is not None:
                reload.call_on_reload(
                    functools.partial(asyncio.get_running_loop().call_soon_threadsafe, reloader.request)
                )
            state = frontend_state.state_of_app(
                built, local, calls.plugins, elector.candidate_synced, elector.lease_error
            )
            state = dataclasses.replace(
                state, configuration=changes, reloads=reloader.statistics, absent_elsewhere=elector.absent
            )
            if built.phases.links.insight is not None:
                feed = insight_status_feed.InsightStatusFeed(built.phases.links.insight, state)
                supervisor.keep("status for insight", feed.run)
            async with (
                serving.serve(completed, state, scheduling, supervisor) as site,
                handle.serve(completed.trireme, handles),
            ):
                return await _run_until_something_ends(
                    built=built,
                    leadership=leadership,
                    elector=elector,
                    local=local,
                    stopping=stopping,
                    site=site,
                    supervisor=supervisor,
                )
        finally:
            await supervisor.close()
            await monitor.close()
            await built.close()


def _make_reloader(
    built: app.App, changes: reconfiguration.Reconfiguration
) -> configuration_reloader.ConfigurationReloader:
    """What reads the configuration again; while we lead by a Lease, each reload is an event of that."""

    def report(*, refused: bool, text: str) -> None:
        term = built.context.leader.term
        if term is None or term.lease is None:
            return
        kind, reason = (
            (event_recorder.WARNING, "ConfigurationRefused")
            if refused
            else (event_recorder.NORMAL, "ConfigurationReloaded")
        )
        profile = changes.current.profiles[0].scheduler_name
        built.recorder.record_legacy(term.lease, kind, reason, text, profile)

    return configuration_reloader.ConfigurationReloader(
        lambda: changes.current, changes.apply, report, monotonic=time.monotonic, wall=clocks.wall
    )


async def _run_until_something_ends(
    *,
    built: app.App,
    leadership: leadership_runner.LeadershipRunner,
    elector: "Elector",
    local: local_phases.LocalPhases,
    stopping: asyncio.Event,
    site: serving_site.FrontendSite,
    supervisor: supervision.Supervisor,
) -> _EndReason:
    """Run leadership and our own phases, and watch the servers, until something ends; end all, and say what it was.

    Our phases end before the Lease is released. A frontend whose namespace is being deleted stays until it is killed.
    """
    running = asyncio.create_task(
        supervision.supervise("frontend", functools.partial(leadership.run, elector.wait_until_elected))
    )
    keeping = asyncio.create_task(
        supervision.supervise("local phases", functools.partial(local.keep_running, built.context.wakeup.set))
    )
    failing = asyncio.create_task(supervisor.failure())
    stopped = asyncio.create_task(stopping.wait())
    lost = asyncio.create_task(elector.lost.wait())
    leaving = asyncio.create_task(built.namespace.deleted.wait())
    tasks = (running, keeping, failing, stopped, lost, leaving)
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    site.begin_shutdown()
    if leaving in done:
        name = built.namespace.name
        klog.info(log, 0, "This pod's namespace is being deleted, so this frontend leads no more", namespace=name)
    requested = stopped in done or leaving in done
    reason = _EndReason.LEASE_LOST if lost in done else _EndReason.STOPPED if requested else _EndReason.FAILED
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(running, keeping, failing, return_exceptions=True)
    if built.context.leader.leading:
        klog.info(log, 2, "Scheduling queue is closed")
    # First, so that nothing is written any more once another frontend may lead.
    await local.stop()
    await elector.stop()
    if leaving in done:
        await stopping.wait()  # a pod that ended now would be restarted, only to be deleted
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            _log_ended_tasks(result)
            reason = _EndReason.FAILED
    return reason


def _log_ended_tasks(error: BaseException) -> None:
    """Log each task of the frontend that ended though it must not.

    Raises: LocalPhaseError if one of our own phases cannot be started; then nothing more is logged.
    """
    for ended in supervision.ended_tasks(error):
        if isinstance(ended.__cause__, forker_client.LocalPhaseError):
            raise ended.__cause__
        klog.error(log, "A task ended that must not; the scheduler exits", task=ended.name, err=ended.how)
    log.error("the frontend ended with an error; report this defect", exc_info=error)


class Elector:
    """Contends for the Lease, or leads without one if leader election is off. `lost` is set when leadership ends."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        settings: client.ClientSettings,
        observe_holder: Callable[[str], None],
    ) -> None:
        """`observe_holder` gets the identity of the Lease's holder each time that it changes."""
        self._config = completed.configuration.leader_election
        self._server = completed.connection.host
        self._own_binders = not completed.trireme.phase("bind").endpoints
        self._settings = settings
        self._observe_holder = observe_holder
        self._version = completed.version
        self._completed = completed
        self._elector: lease.LeaseElector | None = None
        self._leading: asyncio.Future[election.Leading] = asyncio.get_running_loop().create_future()
        self._candidates = candidates_api.CandidatesApi(settings)
        self.lost = asyncio.Event()

    async def wait_until_elected(self) -> Term:
        """Return the term of our leadership once we lead; without leader election that is at once.

        The term also says for how long a predecessor's writes may take effect. While the API server cannot be reached,
        it waits.
        """
        if not self._config.leader_elect:
            return await self._term_without_election()
        config = self._config
        lock = f"{config.resource_namespace}/{config.resource_name}"
        while (leading := await self._contend(lock)) is None:
            klog.info(log, 0, "The API server serves LeaseCandidates by now: contending as one of them", lock=lock)
        assert self._elector is not None
        klog.info(log, 0, "Successfully acquired lease", lock=lock)
        uid = str((leading.lease.raw.get("metadata") or {}).get("uid") or "")
        lease_reference = event_series.ObjectReference(
            "Lease",
            config.resource_namespace,
            config.resource_name,
            uid,
            "coordination.k8s.io/v1",
            str(leading.epoch),
        )
        # A Lease that was deleted and created again looks like that of a new cluster, so assume an earlier leader.
        return Term(
            leading.epoch,
            self._elector.settings.identity,
            self._remaining_lease_seconds,
            predecessor_seconds=min(leading.predecessor_seconds, lease.MAX_TRUST_SECONDS),
            lease=lease_reference,
            scheduler_id=uid,
        )

    async def _contend(self, lock: str) -> election.Leading | None:
        """Contend for the Lease until we lead, as a candidate if the API server serves LeaseCandidates.

        If it begins to serve them meanwhile, return None, with the contest over.
        """
        config, identity = self._config, lease.make_identity()
        coordinated = self._wants_candidates and await self._candidates.wait_until_known()
        self._leading = asyncio.get_running_loop().create_future()
        self._elector = lease.LeaseElector(
            election.ElectionSettings(
                identity,
                config.resource_namespace,
                config.resource_name,
                config.lease_duration.seconds,
                config.renew_deadline.seconds,
                config.retry_period.seconds,
                coordinated=coordinated,
            ),
            dataclasses.replace(self._settings, user_agent=release.user_agent("leader-election", self._version)),
            self._on_notice,
            candidacy=self._make_candidate(identity) if coordinated else None,
        )
        klog.info(log, 0, "Attempting to acquire leader lease...", lock=lock)
        self._elector.start()
        if coordinated:
            return await self._leading
        served = asyncio.create_task(self._candidates.served.wait())
        try:
            await asyncio.wait((self._leading, served), return_when=asyncio.FIRST_COMPLETED)
        finally:
            served.cancel()
        if self._leading.done():
            return self._leading.result()
        await self._elector.stop()  # its notices have all come when it has ended: none is taken for the next contest's
        return None

    @property
    def _wants_candidates(self) -> bool:
        return self._config.leader_elect and self._completed.gates.enabled(lease_candidate.GATE)

    async def look_for_candidates(self) -> None:
        """Find out whether the API server serves LeaseCandidates, if they are wanted; return once it does."""
        if self._wants_candidates:
            await self._candidates.run()

    async def find_absent(self) -> list[resources.Resource]:
        """LeaseCandidates, if they are wanted and the API server does not serve them; waits until it has said so.

        Without them it chooses no leader: the Lease is then acquired as without coordinated leader election.
        """
        if self._wants_candidates:
            await self._candidates.wait_until_known()
        return self.absent()

    def absent(self) -> list[resources.Resource]:
        """What `find_absent` has found."""
        return [lease_candidate.CANDIDATES] if self._candidates.absent else []

    def candidate_synced(self) -> bool:
        """Whether the informer of our LeaseCandidate has synced, if one is needed; False before the election."""
        return self._elector is not None and self._elector.candidate_synced

    def lease_error(self) -> str:
        """Why the last request for the Lease failed; empty: it did not."""
        return "" if self._elector is None else self._elector.last_error

    def _make_candidate(self, identity: str) -> lease.Candidate:
        emulated = ".".join(map(str, self._completed.gates.effective.emulated))
        # Without -beta.0 and the like, which would be before the version that it emulates.
        binary = ".".join(map(str, versions.BINARY.components))
        return lease.Candidate(lease_candidate.Candidacy(identity, binary, f"{emulated}.0"), self._settings)

    async def stop(self) -> None:
        """Release the Lease, if we contend for one: another frontend may lead at once."""
        if self._elector is not None:
            await self._elector.stop()

    def _remaining_lease_seconds(self) -> float:
        """For how long nobody else can acquire the Lease; 0 without one."""
        return 0.0 if self._elector is None else self._elector.remaining_seconds

    async def _term_without_election(self) -> Term:
        """Make a term that does not end, as nobody else schedules; its epoch is the version of a list made now.

        It waits until the API server answers. Our own bind replicas end with us, so no earlier frontend's bindings can
        still be in flight; those of configured replicas may be.
        """
        async with await client.connect(self._settings) as connection:
            while True:
                try:
                    epoch = await informer.fetch_newest_version(connection, resources.PODS, 10.0)
                    scheduler_id = await self._fetch_scheduler_id(connection)
                    break
                except (ApiError, ApiUnreachable) as error:
                    log.warning(
                        "the API server does not report its version: %s; the request is sent again", with_advice(error)
                    )
                    await asyncio.sleep(1.0)
        return Term(
            epoch,
            f"{socket.gethostname()}_{clocks.wall_ns()}",
            lambda: 3600.0,
            sole_writer=self._own_binders,
            predecessor_seconds=self._config.lease_duration.seconds,
            scheduler_id=scheduler_id,
        )

    async def _fetch_scheduler_id(self, connection: client.ApiClient) -> str:
        """The scope of an epoch without a Lease.

        A cluster is identified by the UID of its namespace kube-system, or by its address where we may not read that; a
        scheduler in it by the Lease that it would hold.

        Raises: ApiError, ApiUnreachable.
        """
        cluster = self._server
        try:
            response = await connection.read(f"{resources.NAMESPACES.path}/kube-system", deadline=10.0)
            cluster = str((response.json().get("metadata") or {}).get("uid") or cluster)
        except ApiError as error:
            if error.status != 403 and not error.not_found:
                raise
        return f"{cluster}/{self._config.resource_namespace}/{self._config.resource_name}"

    def _on_notice(self, notice: election.Notice) -> None:
        """Take a notice of the election: we lead, have lost the Lease, or another one holds it."""
        if isinstance(notice, election.Leading) and not self._leading.done():
            self._leading.set_result(notice)
        elif isinstance(notice, election.Lost) and not notice.requested:
            log.error("the Lease is lost: %s; this frontend exits, and another one may lead", notice.reason)
            self.lost.set()
        elif isinstance(notice, election.Observed):
            self._observe_holder(notice.holder)
