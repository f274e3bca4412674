"""The pods in the scheduling queue, by name, as the snapshot stream brings them.

Tests: tests/unit/frontend/test_insight_queue_feed.py.
"""

from collections.abc import Iterator, Sequence

from trireme.v1 import snapshot_pb2


class QueuedPods:
    """The pods in the frontend's queue, as its stream to insight describes them."""

    def __init__(self) -> None:
        self._by_uid: dict[str, snapshot_pb2.QueuedPod] = {}
        self._uids: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def all(self) -> Sequence[snapshot_pb2.QueuedPod]:
        """All pods, the longest known first."""
        return tuple(self._by_uid.values())

    def clear(self) -> None:
        """Forget all."""
        self._by_uid.clear()
        self._uids.clear()

    def get(self, namespace: str, name: str) -> snapshot_pb2.QueuedPod | None:
        """The pod of this name; None: it is not in the queue."""
        uid = self._uids.get((namespace, name))
        return None if uid is None else self._by_uid[uid]

    def names(self) -> Iterator[str]:
        """The names of all, without their namespaces."""
        return (name for _, name in self._uids)

    def apply(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Apply what changed in the queue; `reset`: the delta begins with all of it."""
        if delta.reset:
            self.clear()
        for uid in delta.removed_pods:
            self._remove(uid)
        for pod in delta.pods:
            self._remove(pod.pod.uid)
            self._by_uid[pod.pod.uid] = pod
            self._uids[pod.pod.namespace, pod.pod.name] = pod.pod.uid

    def _remove(self, uid: str) -> None:
        """Remove a pod."""
        known = self._by_uid.pop(uid, None)
        if known is None:
            return
        name = known.pod.namespace, known.pod.name
        # A pod that was deleted and made again has the same name.
        if self._uids.get(name) == uid:
            del self._uids[name]
