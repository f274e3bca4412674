"""One simulation: the cluster, its load, faults and invariants, in turns of storm and calm.

Import it after `substituted_sources.install`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import pathlib
import resource
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TextIO

from tests.simulation import pod_demands, simulated_cluster, simulated_features, simulated_process, simulation_plan
from tests.simulation.answer_checks import AnswerChecks
from tests.simulation.configuration_checks import ConfigurationChecks
from tests.simulation.error_checks import ErrorChecks
from tests.simulation.frontend_checks import FrontendChecks
from tests.simulation.insight_checks import InsightChecks
from tests.simulation.invariants import Invariants
from tests.simulation.leader_checks import LeaderChecks
from tests.simulation.leader_writes import LeaderWrites, observe_actions
from tests.simulation.lease_checks import LeaseChecks
from tests.simulation.leftover_checks import LeftoverChecks
from tests.simulation.oracle_checks import OracleChecks
from tests.simulation.queue_checks import QueueChecks
from tests.simulation.quota_checks import QuotaChecks
from tests.simulation.report_checks import ReportChecks
from tests.simulation.simulated_cluster import Cluster
from tests.simulation.simulated_faults import Faults
from tests.simulation.simulated_load import LOADS, Load, ZonedLoad
from tests.simulation.simulation_plan import STORM_SECONDS, Options, PlannedEvent, Storm
from tests.simulation.simulation_timeline import Entry, Timeline
from tests.simulation.simulation_trace import Trace
from tests.simulation.stream_checks import StreamChecks
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wake_up_checks import WakeUpChecks
from trireme.bind import service as bind_service
from trireme.frontend import app

# After a storm there is calm until nothing is pending that fits, which must be within so long: the queue tries
# everything again after five minutes. Units: seconds.
CALM_SECONDS = 400.0
# What a calm takes at most by plan: a Lease that runs out, another leader that catches up, and a long back-off. If one
# takes longer, the outcome says what it waited for.
PLANNED_CALM_SECONDS = 60.0
# How often it is looked whether everything is well, which takes time; and if something has not been well for long, how
# much of that time passes before it is looked again.
CHECK_SECONDS, CHECK_SHARE = 1.0, 0.1
FRONTENDS = 3
# After so many storms all garbage is collected.
STORMS_BETWEEN_COLLECTIONS = 5
# The part of the timeline that is shown for a failed run.
TIMELINE_ENTRIES = 150


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    options: Options
    #: In the order in which they were found.
    violations: tuple[str, ...]
    sha256: str
    #: Of virtual time, and of processor time. Units: seconds.
    seconds: float
    cpu_seconds: float
    pods_bound: int
    faults: int
    memory_mib: int
    #: What was compared with kube-scheduler's decisions.
    comparison: str
    #: What was done to the cluster, up to the first violation.
    events: tuple[PlannedEvent, ...]
    timeline: tuple[Entry, ...]
    #: The calms that took longer than planned, and what they waited for.
    delays: tuple[str, ...] = ()
    #: Where it differs from the trace that it repeats; empty if it does not.
    difference: str = ""
    equal_lines: int = 0

    @property
    def summary(self) -> str:
        """One line."""
        speed = self.seconds / max(self.cpu_seconds, 0.001)
        return (
            f"{self.seconds / 3600:.2f} h, {self.pods_bound} pods bound, {self.faults} faults, "
            f"{speed:.0f} virtual seconds per CPU second, {self.memory_mib} MiB, {self.comparison}"
        )


class Simulation:
    """One run."""

    def __init__(self, loop: VirtualLoop, folder: pathlib.Path, options: Options, trace: Trace) -> None:
        """`folder` is for the processes' files."""
        self._loop = loop
        self._options = options
        self._trace = trace
        names = simulated_features.drawn(options.seed) if options.features is None else options.features
        self._features = simulated_features.checked(names)
        pod_demands.has_closed_nodes = "plugins" in self._features
        self._cluster = Cluster(loop, folder, options.seed, trace.note)
        self._leaders = LeaderChecks(self._cluster.store, lambda: loop.now)
        self._invariants = Invariants(self._cluster.store, self._leaders.knew_limits)
        self._writes = LeaderWrites(lambda: self._invariants.epoch_in_force)
        self._lease = LeaseChecks(lambda: loop.now)
        self._streams = StreamChecks()
        self._wake_ups = WakeUpChecks()
        self._queues = QueueChecks()
        self._errors = ErrorChecks()
        self._answers = AnswerChecks()
        self._reports = ReportChecks(
            self._cluster.store, self._invariants.placed, lambda: loop.now, self._cluster.latest_wall
        )
        self._configurations = ConfigurationChecks(self._cluster.configurations)
        self._frontends = FrontendChecks(self._cluster.store, self._invariants.placed, self._on_built)
        self._leftovers = LeftoverChecks(self._cluster.store, self._invariants.placed, lambda: loop.now)
        self._insight = InsightChecks()
        self._quotas = QuotaChecks(self._cluster.store, self._cluster.registry.clock_and_ids.clock)
        self._oracle = OracleChecks(self._cluster.store, self._configurations.of_cache, options.seed)
        load = ZonedLoad if "zones" in self._features else Load
        if "zones" in self._features:
            simulated_cluster._FLAGS = simulated_features.ZONES_FLAGS
        self._load = load(self._cluster.registry, LOADS[options.load], options.nodes, options.seed)
        if "repeats" in self._features:
            self._load.repeats = simulated_features.REPEATS
        self._faults = Faults(self._cluster, options.seed)
        self._cluster.store.listen_to_all(self._invariants.on_write)
        self._cluster.store.listen_to_all(self._writes.on_write)
        self._cluster.store.listen_to_all(self._lease.on_write)
        self._cluster.store.listen_to_all(trace.on_write)
        observe_bind_requests(self._on_bind_request)
        observe_actions(self._writes.on_actions)
        self._events: list[PlannedEvent] = []
        self._delays: list[str] = []

    async def run(self, cpu_seconds: Callable[[], float], progress: Callable[[str], None]) -> Outcome:
        """Run it; `progress` gets a line after each storm."""
        started = cpu_seconds()
        simulated_features.build(self._cluster, FRONTENDS, self._features, self._options.seed)
        await self._cluster.start()
        self._load.prepare()
        drawn = self._options.events is None
        end = self._loop.now + self._options.hours * 3600 if drawn else float("inf")
        for storm in simulation_plan.storms(self._options, self._faults.weights, self._load.intervals):
            await self._storm(storm, min(STORM_SECONDS, end - self._loop.now))
            await self._calm(storm.number, lift_gates=storm.number % 2 == 1)
            if self._over() or self._loop.now >= end:
                break
            # Mostly of what the storm has made: looking at all that there is takes as long as seconds of a storm.
            gc.collect(0 if (storm.number + 1) % STORMS_BETWEEN_COLLECTIONS else 2)
            progress(self._outcome(cpu_seconds() - started).summary)
        for failure in self._violations():
            self._trace.note(f"FAILED {failure}")
        if self._trace.comparison is not None:
            self._trace.comparison.finish()
        return self._outcome(cpu_seconds() - started)

    async def _storm(self, storm: Storm, seconds: float) -> None:
        """Load, and faults, for so long or until something fails."""
        if storm.description:
            self._trace.note(f"storm, {storm.description}")
        began = self._loop.now
        task = asyncio.create_task(self._carry_out(storm, began))
        while self._loop.now < began + seconds and not self._over():
            await asyncio.sleep(min(CHECK_SECONDS, began + seconds - self._loop.now))
            if task.done():
                task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _carry_out(self, storm: Storm, began: float) -> None:
        for event in storm.events:
            await asyncio.sleep(began + event.at - self._loop.now)
            self._events.append(event)
            if event.what == "fault":
                self._faults.inject(event)
            else:
                self._load.change(event)

    async def _calm(self, number: int, *, lift_gates: bool) -> None:
        """No faults and no load until nothing is pending that fits; then decisions are compared."""
        self._oracle.begin_sample()
        self._faults.calm()
        if lift_gates:
            self._load.lift_gates()
        began = self._loop.now
        waits = [
            await self._until("pending, though they fit", self._invariants.pods_that_fit),
            await self._until("wrong at rest", self._wrong_at_rest),
            await self._until("explained wrongly", self._insight.differences),
            await self._until("not checked for missed wake-ups", self._wake_ups.check),
        ]
        if self._loop.now - began > PLANNED_CALM_SECONDS:
            causes = "; ".join(filter(None, waits))
            self._delays.append(f"the calm after storm {number} took {self._loop.now - began:.0f} s: {causes}")
        if not self._over():
            self._oracle.compare()
        self._trace.note(f"calm after {self._loop.now - began:g} s, {self._loop.callbacks} callbacks")

    def _wrong_at_rest(self) -> list[str]:
        return (
            self._invariants.useless_claims()
            or self._quotas.differences()
            or self._configurations.differences()
            or self._leftovers.differences()
            or self._frontends.differences()
        )

    async def _until(self, what: str, problems: Callable[[], list[str] | Awaitable[list[str]]]) -> str:
        """Wait until there are no such problems; it is a failure if there are some for too long.

        Returns the last problems that there were, and for how long there were any; empty: none.
        """
        began, last = self._loop.now, ""
        while not self._over():
            await asyncio.sleep(max(CHECK_SECONDS, CHECK_SHARE * (self._loop.now - began)))
            answer = problems()
            found = answer if isinstance(answer, list) else await answer
            if not found:
                break
            last = f"{what} for {self._loop.now - began:.0f} s, at last {found}"
            if self._loop.now - began > CALM_SECONDS:
                self._cluster.failures.append(f"{what} {CALM_SECONDS:g} s after the last fault: {found}")
        return last

    def _violations(self) -> list[str]:
        return [
            *self._invariants.violations,
            *self._writes.violations,
            *self._quotas.violations,
            *self._lease.violations,
            *self._leaders.violations,
            *self._wake_ups.violations,
            *self._queues.violations,
            *self._errors.violations,
            *self._answers.violations,
            *self._reports.violations,
            *self._leftovers.violations,
            *self._streams.violations,
            *self._configurations.violations,
            *self._oracle.violations,
            *self._cluster.failures,
        ]

    def _over(self) -> bool:
        """Whether there is nothing more to learn: something failed, or the run has left the one that it repeats."""
        comparison = self._trace.comparison
        return bool(self._violations()) or (
            comparison is not None and (bool(comparison.difference) or comparison.ended)
        )

    def _on_built(self, built: app.App) -> None:
        self._leaders.add(built)
        self._leftovers.add(built)
        self._wake_ups.add(built)
        self._configurations.add(built)

    def _on_bind_request(self, uid: str, pod: str, node: str, epoch: int) -> None:
        self._trace.timeline.add(f"gets a request to bind {pod} to {node} from the leader of epoch {epoch}")
        self._invariants.on_bind_request(uid, node, epoch)

    def _outcome(self, cpu_seconds: float) -> Outcome:
        violations = tuple(self._violations())
        comparison = self._trace.comparison
        return Outcome(
            options=self._options,
            violations=violations,
            sha256=self._trace.sha256(),
            seconds=self._loop.now,
            cpu_seconds=cpu_seconds,
            pods_bound=self._invariants.bound,
            faults=self._faults.injected,
            memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            comparison=self._oracle.summary,
            events=tuple(self._events),
            timeline=tuple(self._trace.timeline.about(violations, TIMELINE_ENTRIES)) if violations else (),
            delays=tuple(self._delays),
            difference="" if comparison is None else comparison.difference,
            equal_lines=0 if comparison is None else comparison.equal_lines,
        )


def observe_bind_requests(observe: Callable[[str, str, str, int], None]) -> None:
    """Have `observe` called for each pod of every Bind call that a bind replica gets.

    Its arguments are the pod's UID and name, the node, and the leader's epoch.
    """
    original = bind_service.BindPhase.Bind

    def bind(self: Any, request: Any, context: Any) -> Any:
        for item in request.items:
            observe(item.pod.uid, item.pod.name, item.node_name, request.cycle.fence.epoch)
        return original(self, request, context)

    bind_service.BindPhase.Bind = bind


def show_log(level: str, loop: VirtualLoop, timeline: Timeline) -> None:
    """Add the processes' warnings to the timeline; print all of `level` to stderr, if it is not empty."""

    class Handler(logging.StreamHandler[TextIO]):
        def emit(self, record: logging.LogRecord) -> None:
            process = simulated_process.current()
            name = "simulation" if process is None else process.name
            text = record.getMessage()
            text += "".join(f" {key}={value}" for key, value in getattr(record, "values", {}).items())
            if record.exc_info and record.exc_info[1] is not None:
                text += f" ({record.exc_info[1]!r})"
            if record.levelno >= logging.WARNING:
                timeline.add(text, name, general=True)
            if level and record.levelno >= logging.getLevelName(level):
                self.stream.write(f"{loop.now:.6f} {record.levelname} {name}: {text}\n")

    root = logging.getLogger()
    root.handlers = [Handler()]
    root.setLevel(level or logging.WARNING)
