"""A cluster as one scheduler sees it, with the frontend's cache, queue and cycles, and evaluation in process.

It is assembled as the frontend is (`scheduling/assembly.py`). Only its ports differ: filter and score are an engine in
this process, on a snapshot that follows the cache, and the effects are the caller's. A world whose scheduler is not run
only follows what the watch shows.

Tests: tests/unit/scheduling/test_assembly.py.
"""

import asyncio
from collections.abc import Sequence, Set
from typing import NoReturn

from trireme.cache import class_registry, cluster_cache, node_json
from trireme.config import commandline, scheduler_configuration
from trireme.evaluation import engine
from trireme.extenders import extender_assembly
from trireme.framework import amounts
from trireme.frontend import app, phase_configuration
from trireme.in_process import in_process_evaluators
from trireme.registry import filter_profiles, score_profiles
from trireme.scheduling import assembly, in_memory, ports, scheduler_ports, scheduler_settings
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2
from trireme_kube.componentbase import supervision


class ClusterModel:
    """The state and the scheduling of one cluster. Make it within an event loop."""

    def __init__(
        self, completed: commandline.CompletedConfig, effects: ports.Effects, clocks: ports.Clocks = app.CLOCKS
    ) -> None:
        """Raises: ValueError: a plugin's arguments cannot be used."""
        message = phase_configuration.make_configuration(completed, {})
        self._cluster = app.build_cluster(completed, {}, _without_extenders)
        self.snap = snapshot.Snapshot()
        self.snap.amount_rules = amounts.rules_of(message.feature_gates)
        #: The plugins, from which an engine on another snapshot can be made.
        self.engine_profiles = (
            filter_profiles.make_profiles(message),
            score_profiles.make_profiles(message),
        )
        self.engine = engine.Engine(self.snap, *self.engine_profiles)
        self.evaluators = in_process_evaluators.InProcessEvaluators(self.engine)
        self._wakeup = asyncio.Event()
        self.scheduling = assembly.assemble(
            scheduler_settings.of_configuration(completed),
            scheduler_ports.SchedulerPorts(
                cache=self.cache,
                waits=self._cluster.waits,
                evaluation=scheduler_ports.EvaluationPorts(
                    self.evaluators, self.publish, None, lambda: True, in_memory.BindingLog()
                ),
                effects=effects,
                queue_plugins=in_memory.queue_plugins(),
                observer=in_memory.observer(),
                clocks=clocks,
                json_of=self.node_json.take,
                wakeup=self._wakeup,
            ),
        )
        #: Takes the events of informers.
        self.handlers = self.scheduling.handlers

    @property
    def cache(self) -> cluster_cache.ClusterCache:
        """The state of the cluster."""
        return self._cluster.cache

    @property
    def node_json(self) -> node_json.NodeJson:
        """What reads nodes from JSON, as informers need it."""
        return self._cluster.node_json

    @property
    def extra_pod_fields(self) -> Set[str]:
        """The fields of pods that plugins read beside the usual ones."""
        return self._cluster.pod_reads.paths

    def publish(self) -> int:
        """Bring the snapshot up to the cache; returns the generation."""
        while (delta := self.cache.take_delta()) is not None:
            # Its own copy, as if it came by a stream: the cache goes on with its messages.
            self.snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))
        return self.cache.generation

    def record_arrivals(self, pods: int) -> None:
        """Count pods that arrived just now, by which batches are paced, and have the scheduler look at the queue."""
        self.scheduling.pacer.record_arrivals(pods)
        self.wake()

    def wake(self) -> None:
        """Have the scheduler check again whether a batch is possible."""
        self._wakeup.set()

    @property
    def is_busy(self) -> bool:
        """Whether pods are being scheduled, or could be."""
        scheduling = self.scheduling
        return scheduling.queue.ready() or scheduling.scheduler.in_cycle or scheduling.binding.binding_count > 0

    async def run_scheduler(self) -> NoReturn:
        """Schedule until cancelled. Raises: an exception group if a task ends that must not."""
        scheduling = self.scheduling
        try:
            async with asyncio.TaskGroup() as group:
                for name, work in (("scheduler", scheduling.scheduler.run), ("status outbox", scheduling.outbox.run)):
                    group.create_task(supervision.supervise(name, work), name=name)
                await supervision.failure_of(scheduling.supervisors())
        finally:
            await scheduling.close()


def _without_extenders(
    configured: Sequence[scheduler_configuration.Extender],
    registry: class_registry.ClassRegistry,
    cache: cluster_cache.ClusterCache,
) -> extender_assembly.OpenExtenders | None:
    """No extenders: calling them would be an effect."""
    return None
