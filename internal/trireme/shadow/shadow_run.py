"""One run of shadow: follows the cluster, compares decisions, schedules a simulated cluster, and reports regularly.

Also change: docs/shadow.md.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from trireme.cache import absent_apis, cluster_informers
from trireme.framework import canaries
from trireme.scheduling import in_memory, ports
from trireme.shadow import (
    cluster_model,
    decision_comparison,
    durations,
    flags,
    inbox,
    interruptions,
    measures,
    report,
    report_file,
    report_lines,
    report_page,
    settings,
    simulated_cluster,
    time_series,
)
from trireme.shadow.judgement import Outcome
from trireme.shadow.migration import check
from trireme.shadow.migration.finding import Finding
from trireme_kube.client.informers import informer
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import clocks, supervision

log = logging.getLogger(__name__)

# So often the start looks whether everything is listed, and later the run whether a sample or a report is due.
_LOOK_SECONDS = 0.2
# So long the last report waits for events that are still to be judged.
LAST_SECONDS = 10.0
# The least time between samples.
_SAMPLE_SECONDS = 1.0
# A run cannot go without these; without others it goes on and says so.
_REQUIRED = ("pods", "nodes")
# The statuses with which the API server refuses a request.
_REFUSED = (401, 403)


class StartError(Exception):
    """The run cannot begin; the text says what is missing and what to do."""


class ShadowRun:
    """The parts of one run."""

    def __init__(
        self,
        chosen: flags.Flags,
        configured: settings.ShadowConfiguration,
        api: client.ApiClient,
        clock: Callable[[], float],
        began: float,
    ) -> None:
        """`clock` returns monotonic seconds, `began` is the start of the process by it.

        Raises: ValueError: a plugin's arguments cannot be used.
        """
        self._chosen, self._configured, self._api = chosen, configured, api
        self._clock, self._began, self._began_wall = clock, began, clocks.wall() - (clock() - began)
        completed = configured.completed
        profiles = [profile.scheduler_name for profile in completed.profiles]
        # The observed world schedules nothing.
        observed = cluster_model.ClusterModel(completed, ports.Effects(in_memory.Binder(), in_memory.Events()))
        self.comparison = decision_comparison.DecisionComparison(observed, profiles, clock, clocks.wall)
        self.own = simulated_cluster.SimulatedCluster(completed, clock) if not chosen.no_own_world else None
        self.inbox = inbox.Inbox(self.comparison, self.own)
        self.informers = cluster_informers.make_informers(
            api,
            {},
            completed.gates.enabled,
            observed.extra_pod_fields,
            None,
            self.inbox,
            json=observed.node_json,
            shares=canaries.Shares(),
        )
        nodes = next(entry.resource for entry in self.informers if entry.resource.name == "nodes")
        self._probe = interruptions.ServerProbe(api, nodes, clocks.wall)
        self._interruptions = interruptions.Interruptions()
        self._history = time_series.History(_SAMPLE_SECONDS)
        self._findings: list[Finding] = []
        self._check_problem = self._report_problem = ""
        self._first_report = 0.0
        self.newest_page = ""

    @property
    def synced(self) -> bool:
        """Whether everything that may be read has been listed."""
        return all(
            entry.synced or (entry.resource.name not in _REQUIRED and self._refusal(entry)) for entry in self.informers
        )

    async def run(self, stopping: asyncio.Event, show: Callable[[str], None]) -> None:
        """Run until `stopping` is set or the duration is over; `show` takes the lines of the terminal.

        Raises: StartError: the API server cannot be reached, or pods or nodes may not be read. An exception group if a
        task ends that must not.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [_keep(group, f"informer {entry.resource.name}", entry.run) for entry in self.informers]
            tasks.append(_keep(group, "comparison", self.inbox.run))
            try:
                if await self._wait_until_listed(stopping):
                    if absent := absent_apis.find(self.informers):
                        log.warning("%s; they are looked for again now and then", absent_apis.sentence(absent))
                    self.inbox.begin_judging()
                    if self.own is not None:
                        self.own.begin()
                        tasks.append(_keep(group, "simulated cluster", self.own.model.run_scheduler))
                    tasks.append(_keep(group, "probe", self._probe.run))
                    await self._check_migration()
                    await self._report_until_stopped(stopping, show)
                else:
                    log.warning("stopped before the cluster was listed, so there is no report; let it run longer")
            finally:
                for task in tasks:
                    task.cancel()

    async def _wait_until_listed(self, stopping: asyncio.Event) -> bool:
        """Wait until everything is listed that may be read, and applied; False: stopped before. Raises: StartError."""
        while not (self.synced and self.inbox.is_empty):
            if stopping.is_set():
                return False
            for entry in self.informers:
                if not entry.synced:
                    self._check_start(entry, entry.statistics().last_error)
            await _wait(stopping, _LOOK_SECONDS)
        return True

    def _check_start(self, entry: informer.Informer[Any], problem: str) -> None:
        """Check whether a collection that is not listed is worth waiting for. Raises: StartError: it is not.

        `problem` is its last error; empty: it has had no answer yet.
        """
        name, waited = entry.resource.name, self._clock() - self._began
        if self._refusal(entry):
            if name in _REQUIRED:
                needs = f"shadow needs list and watch of {' and '.join(_REQUIRED)} (deploy/overlays/shadow has a role)"
                raise StartError(f"{name} may not be read: {problem}; {needs}")
            return
        for flag, seconds in (("--start-timeout", self._chosen.start_timeout), ("--duration", self._chosen.duration)):
            if seconds and waited > seconds:
                why = problem or "its list is not complete"
                raise StartError(f"{name} cannot be listed at {self._api.host} within {flag} ({seconds:g} s): {why}")

    async def _check_migration(self) -> None:
        """Run the migration check once; a failure is a notice."""
        try:
            self._findings = await check.of_cluster(self._api)
        except (ApiError, ApiUnreachable) as error:
            self._check_problem = f"the migration check could not read the cluster's scheduler: {error}"
        except Exception as error:
            log.exception("the migration check failed; report this defect")
            self._check_problem = f"the migration check failed: {type(error).__name__}: {error}"

    async def _report_until_stopped(self, stopping: asyncio.Event, show: Callable[[str], None]) -> None:
        """Sample and report until the end, and again then."""
        ends = self._began + self._chosen.duration if self._chosen.duration else float("inf")
        next_report = self._clock()
        while not stopping.is_set() and self._clock() < ends:
            now = self._clock()
            self._note_interruptions()
            await self.comparison.close_decisions(now)
            if self.own is not None:
                self.own.evict_by_taints()
            if self._history.is_due(now - self._began):
                self._history.add(self._sample(now))
            if now >= next_report:
                await self._write(show, is_final=False)
                next_report = now + self._chosen.interval
            await _wait(stopping, min(_LOOK_SECONDS, max(0.0, ends - self._clock())))
        await self._wait_until_judged()
        await self.comparison.close_decisions(float("inf"))
        self._history.add(self._sample(self._clock()))
        await self._write(show, is_final=True)

    async def _wait_until_judged(self) -> None:
        """Return once all that came is judged, after LAST_SECONDS at most: the stop of a process waits for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self.inbox.emptied.wait()

    def _sample(self, now: float) -> time_series.Sample:
        """Both clusters as they are."""
        comparison, own = self.comparison, self.own
        comparison.publish()
        there = time_series.WorldSample(
            measures.measure(comparison.snap),
            own.pending_there if own is not None else comparison.pending_count,
            comparison.counts.preempted,
            *(_quantiles(own.waits_there) if own is not None else (0.0, 0.0)),
        )
        here = None
        if own is not None:
            own.model.publish()
            here = time_series.WorldSample(
                measures.measure(own.model.snap), own.pending_here, own.counts.evicted, *_quantiles(own.waits_here)
            )
        counts = comparison.counts
        agreed = counts.outcomes[Outcome.SAME] + counts.outcomes[Outcome.TIED]
        return time_series.Sample(now - self._began, there, here, counts.compared, agreed)

    async def _write(self, show: Callable[[str], None], *, is_final: bool) -> None:
        """Write the report and show its lines. A file that cannot be written is a notice, and is tried again."""
        made = self.make_report(is_final=is_final)
        self.newest_page = report_page.page(made)
        problem = await asyncio.to_thread(_write_file, self._chosen, self.newest_page)
        if problem and problem != self._report_problem:
            log.warning("%s; it is tried again at the next interval", problem)
        self._report_problem = problem
        if not self._first_report and not problem:
            self._first_report = self._clock() - self._began
        if self._chosen.output == "json":
            show(orjson.dumps(report.to_json(dataclasses.replace(made, first_report=self._first_report))).decode())
            return
        show("\n".join([*report_lines.lines(made), *report_lines.notices(made), ""]))

    def make_report(self, *, is_final: bool) -> report.Report:
        """The report of this moment."""
        counts, completed = self.comparison.counts, self._configured.completed
        return report.Report(
            server=self._api.host,
            configuration=self._chosen.config,
            profiles=tuple(profile.scheduler_name for profile in completed.profiles),
            began=self._began_wall,
            written=clocks.wall(),
            first_report=self._first_report,
            is_final=is_final,
            notices=tuple(self._notices()),
            counts=dict(counts.outcomes),
            compared=counts.compared,
            agreement=counts.agreement,
            waiting_for_order=self.comparison.open_count,
            unexamined=counts.unexamined,
            born_bound=counts.born_bound,
            examples=self.comparison.examples,
            samples=list(self._history.samples),
            followed=0 if self.own is None else self.own.counts.followed,
            node_losses=0 if self.own is None else self.own.counts.node_losses,
            missing=0 if self.own is None else self.own.missing,
            findings=list(self._findings),
        )

    def _notices(self) -> list[str]:
        """Notices: parts that are left out, and errors."""
        out = list(self._configured.notices)
        for entry in self.informers:
            name, statistics = entry.resource.name, entry.statistics()
            problem = statistics.last_error
            if problem and self._refusal(entry):
                out.append(f"{name} may not be read, and count as if there were none: {problem}")
            if statistics.undecodable:
                out.append(
                    f"{statistics.undecodable:,} events of {name} cannot be decoded and do not count (see the log)"
                )
        self._note_interruptions()
        out += self._interruptions.lines(clocks.wall())
        if relists := self.inbox.relists:
            names = ", ".join(f"{name} {count}" for name, count in relists.items())
            out.append(f"listed again, because the watch was interrupted (times): {names}")
        if self.inbox.queued > inbox.MAX_QUEUED:
            out.append(f"{self.inbox.queued:,} events wait: bindings are not judged until there are fewer")
        return [*out, *filter(None, (self._check_problem, self._report_problem))]

    def _note_interruptions(self) -> None:
        """Take note of the watches that fail now, and of a server that does not answer."""
        problems = {
            entry.resource.name: problem
            for entry in self.informers
            if (problem := entry.statistics().last_error) and not self._refusal(entry)
        }
        self._interruptions.update(problems, self._probe.silent_since, clocks.wall())

    def _refusal(self, entry: informer.Informer[Any]) -> bool:
        return not entry.synced and entry.statistics().last_status in _REFUSED


def _keep(group: asyncio.TaskGroup, name: str, work: supervision.Work) -> asyncio.Task[Any]:
    """Start a task of the group that must not end before it is cancelled."""
    return group.create_task(supervision.supervise(name, work), name=name)


def _write_file(chosen: flags.Flags, content: str) -> str:
    """Write the report; returns the error, empty if there is none."""
    try:
        report_file.write(chosen.report, content)
    except report_file.ReportError as error:
        return str(error)
    return ""


def _quantiles(waits: durations.Durations) -> Sequence[float]:
    """The median and the 99th percentile."""
    return waits.quantile(0.5), waits.quantile(0.99)


async def _wait(stopping: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the run is to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        pass
