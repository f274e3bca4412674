"""What hints may ask of the cluster: the frontend's cache, read only."""

from typing import Any

from trireme.frontend import cluster_cache
from trireme.v1 import core_pb2


class CacheView:
    """The cluster as the cache has it."""

    def __init__(self, cache: cluster_cache.ClusterCache) -> None:
        self._cache = cache

    def class_pod(self, class_id: int) -> core_pb2.Pod:
        """The message of a pod class."""
        return self._cache.registry[class_id].pod

    def get(self, kind: str, namespace: str, name: str) -> Any:
        """An object by its field in trireme.v1.ClusterObject.object; None where there is none."""
        entry = self._cache.get_object(kind, namespace, name)
        return None if entry is None else getattr(entry, kind)
