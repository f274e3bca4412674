"""The pods in the queue, grouped by why they wait; kept up to date by what changes, since there may be 50,000.

Also change: console/src/parts.tsx, internal/trireme/queueing/states.py,
console/src/views/reasons.tsx (the words for states of the queue).
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trireme.v1 import snapshot_pb2

_STATES = {
    snapshot_pb2.QUEUED_POD_STATE_ACTIVE: "active",
    snapshot_pb2.QUEUED_POD_STATE_BACKOFF: "backoff",
    snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE: "unschedulable",
    snapshot_pb2.QUEUED_POD_STATE_GATED: "gated",
    snapshot_pb2.QUEUED_POD_STATE_PRE_ENQUEUE_PENDING: "gated",
    snapshot_pb2.QUEUED_POD_STATE_WAITING_FOR_GROUP: "waiting for its group",
    snapshot_pb2.QUEUED_POD_STATE_GROUP_IN_FLIGHT: "in flight",
    snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT: "in flight",
}


class WaitReason(NamedTuple):
    """Why pods wait: the plugins that refused or hold them back, and what is known in words.

    Of pods that no plugin refused, `state` says what they wait for; of all others it is empty, for a refused pod goes
    from state to state.
    """

    plugins: tuple[str, ...]
    text: str
    state: str

    @property
    def id(self) -> str:
        """A short name of this reason, for addresses of pages.

        It would let a reader check guesses of the text, so a reader gets that of the reason as the reader sees it.
        """
        return hashlib.blake2b(repr(tuple(self)).encode(), digest_size=8).hexdigest()


#: Implementers: trireme.insight.console.pending_pods.whole, trireme.insight.console.documents._shown_reasons.
Shown = Callable[[WaitReason], WaitReason]
"""Returns a reason as a reader sees it."""


def whole(reason: WaitReason) -> WaitReason:
    """The reason itself, for a reader who sees all."""
    return reason


class PendingPod(NamedTuple):
    """A pod in the queue. Times are milliseconds since 1970, 0 where there is none."""

    namespace: str
    name: str
    uid: str
    state: str
    attempts: int
    since_ms: int
    backoff_until_ms: int
    profile: str
    pod_group: str
    reason: WaitReason


class PendingPods:
    """All pods in the queue, by reason and by group."""

    def __init__(self) -> None:
        self._pods: dict[str, PendingPod] = {}
        self._by_reason: dict[WaitReason, dict[str, PendingPod]] = {}
        self._by_group: dict[tuple[str, str], dict[str, PendingPod]] = {}
        #: Grows with each change.
        self.version = 0

    def __len__(self) -> int:
        return len(self._pods)

    def apply(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Take over what changed in the queue; `reset`: the delta begins with all of it."""
        self.version += 1
        if delta.reset:
            self._pods.clear()
            self._by_reason.clear()
            self._by_group.clear()
        for uid in delta.removed_pods:
            self._remove(uid)
        for message in delta.pods:
            self._remove(message.pod.uid)
            self._add(_pending_pod(message))

    def by_reason(self, shown: Shown = whole) -> Sequence[tuple[WaitReason, Sequence[PendingPod]]]:
        """The pods by reason, the reason of most pods first; reasons that the reader sees as the same one are one."""
        found: dict[WaitReason, list[PendingPod]] = {}
        for reason, pods in self._by_reason.items():
            found.setdefault(shown(reason), []).extend(pods.values())
        return sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))

    def of_reason(self, reason_id: str, shown: Shown = whole) -> Sequence[PendingPod]:
        """The pods that wait for the reason that the reader sees with this id, the longest waiting first."""
        of_same = [pods for reason, pods in self._by_reason.items() if shown(reason).id == reason_id]
        return sorted(
            (pod for pods in of_same for pod in pods.values()), key=lambda pod: (pod.since_ms, pod.namespace, pod.name)
        )

    def groups(self) -> Mapping[tuple[str, str], Counter[str]]:
        """By namespace and name of a pod group, how many of its pods are in the queue, by state."""
        return {key: Counter(pod.state for pod in pods.values()) for key, pods in self._by_group.items()}

    def find(self, text: str, limit: int) -> list[PendingPod]:
        """Pods with this text in their namespace/name, at most `limit`."""
        out: list[PendingPod] = []
        for pod in self._pods.values():
            if text in f"{pod.namespace}/{pod.name}":
                out.append(pod)
                if len(out) == limit:
                    break
        return out

    def _add(self, pod: PendingPod) -> None:
        self._pods[pod.uid] = pod
        self._by_reason.setdefault(pod.reason, {})[pod.uid] = pod
        if pod.pod_group:
            self._by_group.setdefault((pod.namespace, pod.pod_group), {})[pod.uid] = pod

    def _remove(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        of_reason = self._by_reason[pod.reason]
        del of_reason[uid]
        if not of_reason:
            del self._by_reason[pod.reason]
        if pod.pod_group:
            of_group = self._by_group[pod.namespace, pod.pod_group]
            del of_group[uid]
            if not of_group:
                del self._by_group[pod.namespace, pod.pod_group]


def _pending_pod(message: snapshot_pb2.QueuedPod) -> PendingPod:
    state = _STATES.get(message.state, "unknown")
    plugins = tuple(message.plugins)
    reason = WaitReason(plugins, message.reason, "" if plugins else state)
    return PendingPod(
        message.pod.namespace,
        message.pod.name,
        message.pod.uid,
        state,
        message.attempts,
        message.queued_since_ms,
        message.backoff_until_ms,
        message.profile,
        message.pod_group,
        reason,
    )
