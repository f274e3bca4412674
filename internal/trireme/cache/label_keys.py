"""Which pods carry which label keys.

A new selector may use a key that no class distinguished before; then exactly the pods that carry it are classified
again. Pods of a controller carry the same keys, so there are far fewer sets of keys than pods, and a new key costs a
pass over the sets and the affected pods.

Tests: tests/unit/cache/test_label_keys.py, tests/unit/scheduling/test_pod_event_handlers.py.
"""

from collections.abc import Collection

from trireme.cache.pod_projection import Labels


class LabelKeys:
    """UIDs of pods by their set of label keys, in the order of addition."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[tuple[str, ...], dict[str, None]] = {}

    def add(self, uid: str, labels: Labels) -> None:
        """Add a pod with these labels."""
        if labels:
            self._pods.setdefault(tuple([key for key, _ in labels]), {})[uid] = None

    def remove(self, uid: str, labels: Labels) -> None:
        """Remove a pod that had these labels."""
        if labels:
            keys = tuple([key for key, _ in labels])
            pods = self._pods[keys]
            del pods[uid]
            if not pods:
                del self._pods[keys]

    def pods_with_any(self, keys: Collection[str]) -> list[str]:
        """The pods that carry any of the keys."""
        return [uid for pod_keys, pods in self._pods.items() if any(key in keys for key in pod_keys) for uid in pods]
