"""Runs the controllers of the embedded cluster.

Also change: docs/embedded-cluster.md.

Tests: tests/unit/embedded/controllers/test_controller_ref_manager.py, tests/contract/test_bind_service.py.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.controllers.cron_jobs import CronJobController
from trireme_kube.embedded.controllers.custom_resources import CustomResourceController
from trireme_kube.embedded.controllers.daemon_sets import DaemonSetController
from trireme_kube.embedded.controllers.deployments import REPLICA_SETS, DeploymentController
from trireme_kube.embedded.controllers.disruption import DisruptionController
from trireme_kube.embedded.controllers.endpoints import EndpointsController
from trireme_kube.embedded.controllers.garbage_collector import GarbageCollector
from trireme_kube.embedded.controllers.jobs import JobController
from trireme_kube.embedded.controllers.namespaces import NamespaceController
from trireme_kube.embedded.controllers.node_lifecycle import NodeLifecycleController
from trireme_kube.embedded.controllers.owner_index import OwnerIndex
from trireme_kube.embedded.controllers.persistent_volumes import PersistentVolumeController
from trireme_kube.embedded.controllers.replica_sets import ReplicaSetController
from trireme_kube.embedded.controllers.resource_claims import ResourceClaimController
from trireme_kube.embedded.controllers.resource_quotas import ResourceQuotaController
from trireme_kube.embedded.controllers.stateful_sets import StatefulSetController
from trireme_kube.embedded.controllers.system_objects import SystemObjectsController
from trireme_kube.embedded.controllers.taint_eviction import TaintEvictionController
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry


class Controller(Protocol):
    """One control loop, which listens to the store and processes work queues.

    Implementers: trireme_kube.embedded.controllers.*, trireme_kube.embedded.kubelet.kubelets.Kubelets.
    """

    @property
    def queues(self) -> tuple[WorkQueue[Any], ...]:
        """Its work queues."""


class ControllerManager:
    """All control loops of a cluster."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        pods = OwnerIndex(registry.store, PODS)
        self.system_objects = SystemObjectsController(registry, monotonic)
        self._all: tuple[Controller, ...] = (
            self.system_objects,
            CustomResourceController(registry, monotonic),
            NodeLifecycleController(registry, monotonic),
            ReplicaSetController(registry, REPLICA_SETS, pods, monotonic),
            ReplicaSetController(registry, BY_KEY["replicationcontrollers"], pods, monotonic),
            DeploymentController(registry, monotonic),
            StatefulSetController(registry, pods, monotonic),
            DaemonSetController(registry, pods, monotonic),
            JobController(registry, pods, monotonic),
            CronJobController(registry, monotonic),
            DisruptionController(registry, monotonic),
            EndpointsController(registry, monotonic),
            GarbageCollector(registry, monotonic),
            NamespaceController(registry, monotonic),
            PersistentVolumeController(registry, monotonic),
            ResourceClaimController(registry, monotonic),
            ResourceQuotaController(registry, monotonic),
            TaintEvictionController(registry, monotonic),
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
