"""What hints see of the cluster: the frontend's cache, read only, and pods as the classes that plugins know.

Plugins derive what they need of a pod once and store it on its class, so an event that is evaluated for thousands of
classes parses nothing twice. What is derived of a class lives as long as the registry has the class. The pod of an
event may be of one that is gone already; of those the latest are remembered, by their message.

Also change: internal/trireme/plugin_api/hints.py (views of the cluster for hints).

Tests: tests/unit/queueing/test_cluster_view.py, tests/unit/plugins/test_hints_table.py,
tests/unit/plugins/test_node_resources_fit_hints.py.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from trireme.cache import cluster_cache
from trireme.snapshot import classes
from trireme.v1 import core_pb2

# Events come in runs of a few classes: the replicas of a controller that grows or goes.
_REMEMBERED = 256


class CacheView:
    """The cluster as the cache has it."""

    def __init__(self, cache: cluster_cache.ClusterCache) -> None:
        self._cache = cache
        # By the identity of the message, which is stored beside so that no other can get the same.
        self._known: OrderedDict[int, tuple[core_pb2.Pod, classes.PodClass]] = OrderedDict()

    def class_of_waiting_pod(self, class_id: int) -> classes.PodClass:
        """The class of a pod that waits. Raises: KeyError for a pod whose fields cannot be read."""
        entry = self._cache.registry[class_id]
        if entry.pod_class is None:
            entry.pod_class = classes.PodClass(class_id, entry.pod, rules=self._cache.registry.rules)
        return entry.pod_class

    def class_of(self, pod: core_pb2.Pod) -> classes.PodClass:
        """The class of the pod of an event."""
        known = self._known.get(id(pod))
        if known is None:
            known = self._known[id(pod)] = (pod, classes.PodClass(0, pod, rules=self._cache.registry.rules))
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

    def get(self, kind: str, namespace: str, name: str) -> Any:
        """An object by its field in trireme.v1.ClusterObject.object; None where there is none."""
        entry = self._cache.get_object(kind, namespace, name)
        return None if entry is None else getattr(entry, kind)

    def all(self, kind: str) -> Iterator[Any]:
        """All objects of a kind, by namespace and name."""
        return (self.get(kind, *key) for key in sorted(self._cache.object_keys(kind)))

    def of_namespace(self, kind: str, namespace: str) -> Iterator[Any]:
        """The objects of a kind in the namespace, by name."""
        return (self.get(kind, *key) for key in sorted(self._cache.object_keys(kind)) if key[0] == namespace)
