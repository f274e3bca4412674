"""Runs the controllers of the embedded cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.controllers.cron_jobs import CronJobs
from trireme_kube.embedded.controllers.custom_resources import CustomResources
from trireme_kube.embedded.controllers.daemon_sets import DaemonSets
from trireme_kube.embedded.controllers.deployments import REPLICA_SETS, Deployments
from trireme_kube.embedded.controllers.disruption import Disruption
from trireme_kube.embedded.controllers.endpoints import Endpoints
from trireme_kube.embedded.controllers.garbage_collector import GarbageCollector
from trireme_kube.embedded.controllers.jobs import Jobs
from trireme_kube.embedded.controllers.namespaces import Namespaces
from trireme_kube.embedded.controllers.node_lifecycle import NodeLifecycle
from trireme_kube.embedded.controllers.owner_index import Children
from trireme_kube.embedded.controllers.persistent_volumes import Volumes
from trireme_kube.embedded.controllers.replica_sets import ReplicaSets
from trireme_kube.embedded.controllers.resource_claims import DeviceClaims
from trireme_kube.embedded.controllers.stateful_sets import StatefulSets
from trireme_kube.embedded.controllers.system_objects import SystemObjects
from trireme_kube.embedded.controllers.taint_eviction import TaintEviction
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry


class Controller(Protocol):
    """One control loop, which listens to the store and processes work queues."""

    @property
    def queues(self) -> tuple[WorkQueue[Any], ...]:
        """Its work queues."""


class Controllers:
    """All control loops of a cluster."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        pods = Children(registry.store, PODS)
        self.system_objects = SystemObjects(registry, monotonic)
        self._all: tuple[Controller, ...] = (
            self.system_objects,
            CustomResources(registry, monotonic),
            NodeLifecycle(registry, monotonic),
            ReplicaSets(registry, REPLICA_SETS, pods, monotonic),
            ReplicaSets(registry, BY_KEY["replicationcontrollers"], pods, monotonic),
            Deployments(registry, monotonic),
            StatefulSets(registry, pods, monotonic),
            DaemonSets(registry, pods, monotonic),
            Jobs(registry, pods, monotonic),
            CronJobs(registry, monotonic),
            Disruption(registry, monotonic),
            Endpoints(registry, monotonic),
            GarbageCollector(registry, monotonic),
            Namespaces(registry, monotonic),
            Volumes(registry, monotonic),
            DeviceClaims(registry, monotonic),
            TaintEviction(registry, monotonic),
        )

    @property
    def queues(self) -> tuple[WorkQueue[Any], ...]:
        """The work queues of all controllers."""
        return tuple(queue for controller in self._all for queue in controller.queues)

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for queue in self.queues:
                tasks.create_task(queue.run())
