"""What happened to pods in the queue, as the frontend has sent it: also of those that have left it since.

A pod that is scheduled at once is never sent, so it has no timeline.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trireme.v1 import snapshot_pb2

# Pods that are remembered, the last changed ones, and transitions of each.
MAX_PODS = 20_000
MAX_TRANSITIONS = 32


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A change of state. Units: at in ms since 1970."""

    at_ms: int
    state: str
    cause: str


@dataclass(slots=True)
class PodTimeline:
    """The changes of state of one pod; `left_at_ms` is when it left the queue, None while it is there."""

    namespace: str
    name: str
    entries: list[TimelineEntry] = field(default_factory=list)
    attempts: int = 0
    queued_since_ms: int = 0
    left_at_ms: int | None = None


class PodTimelines:
    """The timelines of the pods that changed last."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` returns seconds since 1970."""
        self._wall = wall
        self._by_uid: OrderedDict[str, PodTimeline] = OrderedDict()
        self._uids: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def apply(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Take over what changed in the queue."""
        now_ms = round(self._wall() * 1000)
        if delta.reset:
            # Another leader, or a stream that began anew: pods that are not in the queue any more left it meanwhile.
            for timeline in self._by_uid.values():
                timeline.left_at_ms = timeline.left_at_ms or now_ms
        for uid in delta.removed_pods:
            found = self._by_uid.get(uid)
            if found is not None and found.left_at_ms is None:
                found.left_at_ms = now_ms
        for pod in delta.pods:
            self._take(pod)

    def of(self, namespace: str, name: str, uid: str = "") -> PodTimeline | None:
        """The timeline of the pod of this name, and with this UID unless that is empty; None: there is none."""
        known = self._uids.get((namespace, name))
        if known is None or (uid and known != uid):
            return None
        return self._by_uid[known]

    def _take(self, pod: snapshot_pb2.QueuedPod) -> None:
        """Add what is new about a pod."""
        identity = pod.pod
        name = identity.namespace, identity.name
        timeline = self._by_uid.get(identity.uid)
        if timeline is None:
            timeline = self._by_uid[identity.uid] = PodTimeline(*name)
            while len(self._by_uid) > MAX_PODS:
                self._forget_oldest()
        self._by_uid.move_to_end(identity.uid)
        self._uids[name] = identity.uid
        timeline.attempts, timeline.queued_since_ms, timeline.left_at_ms = pod.attempts, pod.queued_since_ms, None
        _extend(timeline.entries, [TimelineEntry(each.at_ms, each.to, each.cause) for each in pod.transitions])

    def _forget_oldest(self) -> None:
        """Forget the pod whose last change is the longest ago."""
        uid, timeline = self._by_uid.popitem(last=False)
        name = timeline.namespace, timeline.name
        if self._uids.get(name) == uid:
            del self._uids[name]


def _extend(entries: list[TimelineEntry], last: Sequence[TimelineEntry]) -> None:
    """Append those of the last entries that are not there yet; both are in the order of time."""
    known = set(entries[-len(last) :]) if last else ()
    entries.extend(entry for entry in last if entry not in known)
    del entries[:-MAX_TRANSITIONS]
