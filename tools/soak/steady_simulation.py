"""One simulation of a steady load, with faults at set times, and samples of what its processes hold at rest.

Import it after `substituted_sources.install`.
"""

from __future__ import annotations

import asyncio
import gc
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.invariants import Invariants
from tests.simulation.simulated_cluster import Cluster, SupervisedProcess
from tests.simulation.simulated_process import Process, State
from tests.simulation.simulation import observe_bind_requests
from tests.simulation.virtual_loop import VirtualLoop
from tools.soak import container_sizes, slopes
from tools.soak.steady_load import SteadyLoad
from trireme.bind import service as bind_service
from trireme.cache import class_registry
from trireme.filter import service as filter_service
from trireme.frontend import app
from trireme.frontend.phase_clients import class_answers, replica_link
from trireme.plugin_kit import volumes_attachments
from trireme.queueing import transition_log
from trireme.score import service as score_service
from trireme.snapshot import derived, dictionary, objects, placement_log, slot_changes, snapshot
from trireme_kube.embedded.api.resources import LEASES

NODES, PODS = 12, 80
# What keeps a number of entries, however many there were, keeps fewer here, so that it is full before the first sample
# that counts. Of classes that no pod has or that are gone, transitions of pods, and changes of placements.
IDLE_CLASSES, TRANSITIONS, PLACEMENTS = 24, 256, 64
# Changes of objects (some kinds change with the nodes alone), and of slots (of domains of a selector there are
# a few an hour), and values that are numbered. Changes of objects and values may be twice as many as exist and so many,
# which the twelve nodes reach when about fifteen of them have been replaced.
OBJECT_CHANGES, SLOT_CHANGES, VALUES = 4, 4, 2
# What is derived from a snapshot, beside the data of its class: bytes, and entries.
DERIVED_BYTES, DERIVED_ENTRIES = 16 * 1024, 8
# Units of what follows: seconds. A pod is replaced so often, a node, and the leader.
POD_SECONDS, NODE_SECONDS, LEADER_SECONDS = 10.0, 300.0, 8 * 3600.0
# One replica of each phase is killed so often; the other one of each runs from the beginning to the end.
REPLICA_SECONDS = 8 * 3600.0
# All watches are ended, and the store forgets old versions, so often.
WATCH_SECONDS = 3600.0
SAMPLE_SECONDS = 900.0
# Nothing is changed for so long before a sample, so that all are taken at rest.
QUIET_SECONDS = 120.0
# Those that are killed.
REPLICAS = ("filter-1", "score-1", "bind-1")


class SteadySimulation:
    """A cluster of two frontends and two replicas of each phase, and their samples."""

    def __init__(self, loop: VirtualLoop, folder: pathlib.Path) -> None:
        """`folder` is for the processes' files."""
        self._loop = loop
        self._cluster = Cluster(loop, folder, 0, lambda line: None)
        self._invariants = Invariants(self._cluster.store)
        self._cluster.store.listen_to_all(self._invariants.on_write)
        observe_bind_requests(lambda uid, _, node, epoch: self._invariants.on_bind_request(uid, node, epoch))
        self._load = SteadyLoad(self._cluster.registry, NODES, PODS)
        self._roots: dict[str, tuple[Process, Any]] = {}
        _observe_roots(self._roots)
        _reduce_bounds()
        # When it was last looked at what is due; the rest before a sample is no reason to leave it out.
        self._looked_at = 0.0
        self.series: dict[str, list[slopes.Sample]] = {}
        self.faults = 0

    async def run(self, hours: float, progress: Callable[[str], None]) -> None:
        """Run it. Raises: RuntimeError, if an invariant is violated or a pod that fits is pending at rest."""
        self._cluster.build(2, 2, 2, 2)
        await self._cluster.start()
        self._load.prepare()
        while self._loop.now < hours * 3600:
            await self._change_until_quiet()
            await asyncio.sleep(QUIET_SECONDS)
            problems = [*self._invariants.violations, *self._cluster.failures, *self._invariants.pods_that_fit()]
            if problems:
                raise RuntimeError(f"after {self._loop.now:.0f} s: {problems}")
            self._sample()
            progress(self.summary)

    @property
    def summary(self) -> str:
        """What happened so far, in a line."""
        return (
            f"{self._loop.now / 3600:.2f} virtual hours, {self._invariants.bound} pods bound, "
            f"{self._load.replacements} nodes replaced, {self.faults} faults"
        )

    async def _change_until_quiet(self) -> None:
        """Replace pods and nodes, with faults, until the next sample is near."""
        end = (self._loop.now // SAMPLE_SECONDS + 1) * SAMPLE_SECONDS - QUIET_SECONDS
        while self._loop.now + POD_SECONDS <= end:
            await asyncio.sleep(POD_SECONDS)
            self._load.replace_pod()
            if self._is_due(NODE_SECONDS):
                self._load.replace_node()
            self._inject_due()
            self._looked_at = self._loop.now

    def _is_due(self, period: float, offset: float = 300.0) -> bool:
        """Whether a multiple of the period, and the offset, has passed since it was last looked at what is due."""
        return (self._looked_at - offset) // period != (self._loop.now - offset) // period

    def _inject_due(self) -> None:
        if self._is_due(LEADER_SECONDS):
            self._kill(self._leader())
        for number, name in enumerate(REPLICAS):
            if self._is_due(REPLICA_SECONDS, 3600.0 * (number + 1)):
                self._kill(self._cluster.processes[name])
        if self._is_due(WATCH_SECONDS):
            self.faults += 1
            self._cluster.api.drop_watches()
            self._cluster.store.compact()

    def _kill(self, process: SupervisedProcess) -> None:
        self.faults += 1
        process.kill()

    def _leader(self) -> SupervisedProcess:
        """The frontend that holds the Lease."""
        lease = self._cluster.store.get(LEASES, "kube-system", "kube-scheduler")
        holder = lease.object["spec"].get("holderIdentity") or "" if lease is not None else ""
        return next(each for each in self._cluster.kind("frontend") if holder.startswith(each.name + "_"))

    def _sample(self) -> None:
        """Add what each process holds, and all of them together."""
        gc.collect()
        for name, process in self._cluster.processes.items():
            if process.current is None or name in ("apiserver", "plugin-0"):
                continue
            leads = name.startswith("frontend") and process is self._leader()
            span = f"{process.starts} {'leads' if leads else 'follows'}"
            for quantity, value in self._held_by(name, process.current).items():
                self._add(f"{name}: {quantity}", value, span)
        for resource, count in self._stored().items():
            self._add(f"API server: {resource}", count, "all")
        samples = sum(map(len, self.series.values()))
        self._add("all processes, the API server and checks: Python objects", len(gc.get_objects()) - samples, "all")

    def _add(self, quantity: str, value: float, span: str) -> None:
        self.series.setdefault(quantity, []).append(slopes.Sample(self._loop.now, float(value), span))

    def _held_by(self, name: str, process: Process) -> Mapping[str, float]:
        """Its tasks, connections, and the entries of all containers of its service or, of a frontend, of all of it."""
        tasks = [task for known in process._tasks if (task := known()) is not None and not task.done()]
        host = process.host
        connections = sum(each.host == host for each in self._loop.network._endpoints)
        found: dict[str, float] = {"tasks": len(tasks), "connections": connections}
        owner, root = self._roots[name]
        assert owner is process
        assert process.state is State.RUNNING
        return {**found, **container_sizes.sizes(root)}

    def _stored(self) -> Mapping[str, int]:
        """How many objects of each kind there are: what the load holds steady."""
        return self._cluster.store.statistics().objects


def _reduce_bounds() -> None:
    """Let bounded containers be full within minutes."""
    bounds: tuple[tuple[Any, int], ...] = (
        (class_registry.ClassRegistry, IDLE_CLASSES),
        (class_answers.ClassAnswers, IDLE_CLASSES),
        (placement_log.PlacementLog, PLACEMENTS),
    )
    for owner, bound in bounds:
        (_,) = owner.__init__.__defaults__
        owner.__init__.__defaults__ = (bound,)
    transition_log.LENGTH = TRANSITIONS
    replica_link.MAX_CAPACITIES = volumes_attachments.SLACK = snapshot.SPARE_CLASSES = IDLE_CLASSES
    objects._LOG_SLACK, slot_changes.LOG_ENTRIES, dictionary.SLACK = OBJECT_CHANGES, SLOT_CHANGES, VALUES
    derived.MAX_BYTES, derived.MAX_BYTES_PER_NODE, derived.MIN_ENTRIES = DERIVED_BYTES, 0, DERIVED_ENTRIES


def _observe_roots(roots: dict[str, tuple[Process, Any]]) -> None:
    """Keep in `roots` the service of each replica and the assembled frontends, by the name of the process."""

    def note(root: Any) -> None:
        process = simulated_process.current()
        assert process is not None
        roots[process.name] = process, root

    for owner in (filter_service.FilterPhase, score_service.ScorePhase, bind_service.BindPhase):
        _observe_class(owner, note)
    build = app.build

    def built(*arguments: Any, **named: Any) -> Any:
        made = build(*arguments, **named)
        note(made)
        return made

    app.build = built


def _observe_class(owner: Any, note: Callable[[Any], None]) -> None:
    original = owner.__init__

    def made(service: Any, *arguments: Any, **named: Any) -> None:
        original(service, *arguments, **named)
        note(service)

    owner.__init__ = made
