"""The embedded cluster as a whole: store, API server, simulated nodes and controllers in one asynchronous context.

`async with EmbeddedCluster(nodes=100) as cluster:` gives a cluster at `cluster.url`; `cluster.registry` and
`cluster.faults` reach inside it for tests. `python -m trireme_kube.embedded` runs the same as a process of its own.

Also change: internal/trireme/simulation/submission/submission.py (priority classes of the system).

Tests: tests/unit/embedded/test_parts.py, tests/e2e/test_e2e_up.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from pathlib import Path
from types import TracebackType

import orjson

from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import BY_KEY, NODES, Object
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.controllers.controller_manager import ControllerManager
from trireme_kube.embedded.endpoints.faults import Faults
from trireme_kube.embedded.endpoints.server import ApiServer
from trireme_kube.embedded.kubelet import simulated_nodes
from trireme_kube.embedded.kubelet.kubelets import KubeletPace, Kubelets
from trireme_kube.embedded.kubelet.simulated_nodes import NodeShape
from trireme_kube.embedded.registry.admission import DEFAULT_CLASS
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Store

_LOG = logging.getLogger(__name__)
# The default class, as in other local clusters: a claim without a class gets a volume where its first pod is placed.
_STORAGE_CLASS: Object = {
    "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
    "provisioner": "trireme.dev/simulated",
    "volumeBindingMode": "WaitForFirstConsumer",
}
_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Nodes created at the start between two turns of the event loop.
_NODES_AT_ONCE = 200


def _log_failed_background_task(task: asyncio.Task[None]) -> None:
    """Log failed kubelets and controllers: without them the cluster still answers requests."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("a part of the embedded cluster ended; start it again, and report this defect", exc_info=error)


class EmbeddedCluster:
    """An in-memory cluster that serves the Kubernetes API on a loopback address while its context is open."""

    def __init__(
        self,
        nodes: int = 0,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        shape: NodeShape | None = None,
        pace: KubeletPace | None = None,
        clock_and_ids: ClockAndIds | None = None,
        history: int = 10_000,
        watch_buffer: int = 10_000,
        bookmark_interval: float = 60.0,
        remote_faults: bool = False,
        pod_groups: bool = False,
    ) -> None:
        """`history` and `watch_buffer` are numbers of events: stored per resource, and buffered per slow client.

        `pod_groups` serves PodGroups, CompositePodGroups and Workloads, which the real server does not by default.
        """
        self._node_count = nodes
        self._shape = shape or NodeShape()
        self._pace = pace or KubeletPace()
        self._host = host
        self._port = port
        self.store = Store(history=history)
        self.registry = Registry(self.store, clock_and_ids or ClockAndIds(), ResourceCatalog(optional=pod_groups))
        self.server = ApiServer(
            self.registry,
            watch_buffer=watch_buffer,
            bookmark_interval=bookmark_interval,
            remote_faults=remote_faults,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the API."""
        return f"http://{self._host}:{self._port}"

    @property
    def faults(self) -> Faults:
        """Faults to arm."""
        return self.server.faults

    async def __aenter__(self) -> EmbeddedCluster:
        loop = asyncio.get_running_loop()
        kubelets = Kubelets(self.registry, self._pace, loop.time)
        controllers = ControllerManager(self.registry, loop.time)
        self._port = await self.server.start(self._host, self._port)
        controllers.system_objects.create(self._host, self._port)
        self._create_initial_objects()
        self._tasks = {loop.create_task(kubelets.run()), loop.create_task(controllers.run())}
        for task in self._tasks:
            task.add_done_callback(_log_failed_background_task)
        await self.add_nodes(self._node_count)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self.server.stop()

    def _create_initial_objects(self) -> None:
        """Create the objects that every cluster has."""
        for name, value in _PRIORITY_CLASSES.items():
            body: Object = {"metadata": {"name": name}, "value": value}
            self.registry.create(BY_KEY["priorityclasses.scheduling.k8s.io"], "", body)
        self.registry.create(BY_KEY["storageclasses.storage.k8s.io"], "", copy.deepcopy(_STORAGE_CLASS))

    async def add_nodes(self, count: int, shape: NodeShape | None = None) -> None:
        """Add simulated nodes, numbered after the existing ones."""
        shape = shape or self._shape
        first = self.store.count(NODES)
        for index in range(first, first + count):
            self.registry.create(NODES, "", simulated_nodes.node(shape, index))
            if index % _NODES_AT_ONCE == 0:
                await asyncio.sleep(0)

    def kubeconfig(self) -> Object:
        """A kubeconfig for this cluster."""
        name = "trireme"
        # @kubernetes/client-node refuses plain HTTP without this; all others ignore it for HTTP.
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": "embedded"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
            "current-context": name,
        }

    def write_kubeconfig(self, path: Path | str) -> Path:
        """Writes a kubeconfig for this cluster (JSON, which is YAML too); readers never see half of it."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + ".new")
        unfinished.write_bytes(orjson.dumps(self.kubeconfig(), option=orjson.OPT_INDENT_2) + b"\n")
        unfinished.chmod(0o600)
        unfinished.replace(path)
        return path
