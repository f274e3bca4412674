"""Taints that follow a node's state: not ready, unreachable, under pressure, cordoned.

A scheduler reads taints, not conditions; this controller derives the taints from the conditions, and removes the taint
that every node is created with once the node is ready.

Source: k8s.io/kubernetes, pkg/controller/nodelifecycle.

Also change: internal/trireme/framework/tolerations.py, internal/trireme/simulation/manifests.py,
internal/trireme_kube/embedded/registry/pod_defaults.py (taints of nodes).

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import NODES, Object
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import DELETED, Event

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_MANAGED = frozenset({*_BY_CONDITION.values(), UNSCHEDULABLE})
_EVICTING = frozenset({NOT_READY, UNREACHABLE})

Taint = tuple[str, str]


def expected_taints(node: Object) -> dict[Taint, None]:
    """Key and effect of the taints that a node's state requires, in order."""
    conditions = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()}
    expected: dict[Taint, None] = {}
    if "Ready" not in conditions:
        expected[(NOT_READY, "NoSchedule")] = None
    for condition in conditions.items():
        key = _BY_CONDITION.get(condition)
        if key is not None:
            expected[(key, "NoSchedule")] = None
            if key in _EVICTING:
                expected[(key, "NoExecute")] = None
    if node["spec"].get("unschedulable"):
        expected[(UNSCHEDULABLE, "NoSchedule")] = None
    return expected


class NodeLifecycleController:
    """Updates the taints of every node."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._queue: WorkQueue[str] = WorkQueue("node lifecycle", self._sync_taints, monotonic)
        self.queues = (self._queue,)
        registry.store.listen(NODES, self._on_node)

    def _on_node(self, event: Event) -> None:
        if event.type != DELETED:
            self._queue.add(event.record.name)

    def _sync_taints(self, name: str) -> None:
        """Give a node the taints that its conditions and its spec require, and no others of those it manages."""
        before = self._registry.store.get(NODES, "", name)
        if before is None:
            return
        node = before.object
        expected = expected_taints(node)
        present = node["spec"].get("taints") or []
        remaining = [one for one in present if one["key"] not in _MANAGED or (one["key"], one["effect"]) in expected]
        have = {(one["key"], one["effect"]) for one in remaining}
        added: list[Object] = []
        for key, effect in expected:
            if (key, effect) not in have:
                added.append({"key": key, "effect": effect, "timeAdded": self._registry.clock_and_ids.now()})
        if len(remaining) == len(present) and not added:
            return
        spec = {key: value for key, value in node["spec"].items() if key != "taints"}
        if remaining or added:
            spec["taints"] = [*remaining, *added]
        self._registry.update_fields(NODES, before, spec=spec)
