"""Which pods carry which label keys.

A new selector may name a key that no class has told apart before; then the pods that carry it get their class anew, and
nobody else need be looked at. Pods of a controller carry the same keys, with whatever values, so that there are far
fewer sets of keys than pods; and the cost of a new key is that of the sets, and of the pods that carry it.
"""

from collections.abc import Collection

from trireme.cache.pod_projection import Labels


class LabelKeys:
    """Pods by the label keys that they carry. Pods are known by UID, and come in the order in which they were added."""

    __slots__ = ("_pods",)

    def __init__(self) -> None:
        self._pods: dict[tuple[str, ...], dict[str, None]] = {}

    def add(self, uid: str, labels: Labels) -> None:
        """The pod has these labels."""
        if labels:
            self._pods.setdefault(tuple([key for key, _ in labels]), {})[uid] = None

    def remove(self, uid: str, labels: Labels) -> None:
        """The pod, which had these labels, is gone or has others."""
        if labels:
            keys = tuple([key for key, _ in labels])
            pods = self._pods[keys]
            del pods[uid]
            if not pods:
                del self._pods[keys]

    def carrying(self, keys: Collection[str]) -> list[str]:
        """The pods that carry any of the keys."""
        return [uid for pod_keys, pods in self._pods.items() if any(key in keys for key in pod_keys) for uid in pods]
