"""NoExecute taints: deletes pods that do not tolerate them, at once or after their tolerationSeconds.

Source: k8s.io/kubernetes, pkg/controller/tainteviction.

Tests: tests/unit/embedded/controllers/test_controllers.py.
"""

from collections.abc import Callable

from trireme_kube.embedded.api.resources import NODES, PODS, Object
from trireme_kube.embedded.controllers.owner_index import is_active
from trireme_kube.embedded.controllers.tolerations import tolerated_seconds
from trireme_kube.embedded.controllers.work_queue import WorkQueue
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import with_condition
from trireme_kube.embedded.storage.store import DELETED, Event

Key = tuple[str, str]


def _no_execute_taints(node: Object) -> list[Object]:
    return [one for one in node["spec"].get("taints") or () if one["effect"] == "NoExecute"]


class TaintEvictionController:
    """Evicts pods from tainted nodes."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._store = registry.store
        self._queue: WorkQueue[Key] = WorkQueue("taint eviction", self._evict_when_due, monotonic)
        self.queues = (self._queue,)
        self._monotonic = monotonic
        self._since: dict[Key, float] = {}
        """For pods that tolerate their node's taints temporarily: when the taints were first observed."""
        self._tainted: set[str] = set()
        """Names of the nodes with such taints; usually none, and then pods cost nothing here."""
        self._store.listen(NODES, self._on_node)
        self._store.listen(PODS, self._on_pod)

    def _on_node(self, event: Event) -> None:
        """Queue the pods of a node whose NoExecute taints changed."""
        name = event.record.name
        taints = _no_execute_taints(event.record.object) if event.type != DELETED else []
        if not taints:
            if name in self._tainted:
                self._tainted.discard(name)
                self._queue_pods_of_node(name)
        elif event.before is None or _no_execute_taints(event.before.object) != taints:
            self._tainted.add(name)
            self._queue_pods_of_node(name)

    def _queue_pods_of_node(self, node: str) -> None:
        for pod in self._store.scan(PODS):
            if pod.object["spec"].get("nodeName") == node:
                self._queue.add(pod.key)

    def _on_pod(self, event: Event) -> None:
        """Queue a pod on a tainted node."""
        if event.type == DELETED:
            self._since.pop(event.record.key, None)
        elif event.record.object["spec"].get("nodeName") in self._tainted:
            self._queue.add(event.record.key)

    def _evict_when_due(self, key: Key) -> None:
        """Evict a pod from its node once it has tolerated the node's NoExecute taints for long enough."""
        record = self._store.get(PODS, *key)
        if record is None or not is_active(record.object):
            self._since.pop(key, None)
            return
        node = self._store.get(NODES, "", record.object["spec"].get("nodeName", ""))
        taints = _no_execute_taints(node.object) if node is not None else []
        seconds = tolerated_seconds(record.object["spec"].get("tolerations") or (), taints)
        if not taints or seconds is None:
            self._since.pop(key, None)
            return
        wait = self._since.setdefault(key, self._monotonic()) + seconds - self._monotonic()
        if wait > 0:
            self._queue.add(key, wait)
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        status = dict(record.object.get("status") or {})
        status["conditions"] = with_condition(status.get("conditions"), condition, self._registry.clock_and_ids.now())
        self._registry.update_fields(PODS, record, status=status)
        self._registry.delete(PODS, *key)
