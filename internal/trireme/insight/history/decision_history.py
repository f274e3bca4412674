"""Which decision placed which pod: recent decisions, and the pods that took their nodes.

A decision of Place names slots, and `PlacedPods` the pods that took them. Recordings of earlier releases lack it: there
the next deltas bring pods of the class on these slots, and the first such pod is the first one that the decision
placed. Nominated pods and preemptors are named by the decisions themselves.

Also change: protos/trireme/v1/decision.proto (the messages).
Also change: docs/explain.md (how much it remembers).

Tests: tests/unit/insight/history/test_decision_explanations.py.
"""

import collections
from collections.abc import Iterable
from dataclasses import dataclass, field

from google.protobuf import message as protobuf

from trireme.insight import observed_cluster
from trireme.insight.history import cluster_history
from trireme.v1 import cycle_pb2, decision_pb2, filter_phase_pb2, snapshot_pb2

# Answers of one class whose pods may still come.
_OPEN_ANSWERS = 8
# Durations and nominees of pods that have not come yet, or are gone, are bounded by count.
_MAX_PODS = 100_000
_MAX_NOMINEES = 10_000


@dataclass(frozen=True, slots=True)
class Made:
    """A decision with where it was made. Units: time in nanoseconds since 1970."""

    era: int
    time_ns: int
    decision: decision_pb2.Decision


@dataclass(slots=True)
class Answer:
    """An answer that places pods: the decision, Filter's before it, and the pods (UID and name) that came by it."""

    made: Made
    filtered: Made | None
    slots: tuple[int, ...]
    pods: list[tuple[str, str] | None] = field(default_factory=list)
    next: int = 0

    def claim(self, slot: int) -> int | None:
        """The position of the next pod on the slot; None: no pod of this answer is to come there."""
        if self.next < len(self.slots) and self.slots[self.next] == slot:
            place = self.next
        else:
            free = (n for n, each in enumerate(self.slots) if each == slot and self.pods[n] is None)
            place = next(free, -1)
        if place < 0:
            return None
        self.next = place + 1
        while self.next < len(self.pods) and self.pods[self.next] is not None:
            self.next += 1
        return place


@dataclass(frozen=True, slots=True)
class Placement:
    """How a pod got its node: the position in the answer."""

    answer: Answer
    position: int

    @property
    def slot(self) -> int:
        """The slot of its node."""
        return self.answer.slots[self.position]


@dataclass(frozen=True, slots=True)
class Preemption:
    """PostFilter's result for a pod: the decision, Filter's before it, and the position among its results."""

    made: Made
    filtered: Made | None
    position: int


@dataclass(frozen=True, slots=True)
class BindingTimes:
    """How long a pod took. Units: microseconds."""

    attempts: int
    held_back_us: int | None  #: None: the frontend did not send it.
    queue_us: int
    attempt_us: int
    permit_us: int
    pre_bind_us: int
    bind_us: int


class DecisionHistory:
    """The decisions that insight remembers, by pod."""

    def __init__(self, cluster: observed_cluster.ObservedCluster, clusters: cluster_history.ClusterHistory) -> None:
        self._cluster = cluster
        self._clusters = clusters
        clusters.forgotten = self._forget_before
        # Answers by class, the newest last, whose pods may still come.
        self._open: dict[int, collections.deque[Answer]] = {}
        self._filtered: dict[tuple[str, int], Made] = {}
        self._post_filtered: dict[tuple[str, int], Made] = {}
        # By UID, in the order in which they were nominated: the decision, and the position in it.
        self._nominees: dict[str, tuple[Made, int, int]] = {}
        self._placements: dict[str, Placement] = {}
        self._preemptions: dict[str, Preemption] = {}
        self._times: dict[str, BindingTimes] = {}
        # The leader and its epoch: another one numbers classes and decisions anew.
        self._leader: tuple[str, int] | None = None

    def __len__(self) -> int:
        """How many pods' placements are known."""
        return len(self._placements)

    def placement_of(self, uid: str) -> Placement | None:
        """How the pod got its node; None: not known."""
        return self._placements.get(uid)

    def preemption_by(self, uid: str) -> Preemption | None:
        """The last preemption for the pod that evicts or nominates; None: there was none, or it is not known."""
        return self._preemptions.get(uid)

    def last_filter_of(self, profile: str, pod_class: int) -> Made | None:
        """The last answer of Filter about the class; None: there is none, or another leader follows."""
        return self._filtered.get((profile, pod_class))

    def last_post_filter_of(self, profile: str, pod_class: int) -> Made | None:
        """The last answer of PostFilter about the class, where it was a call of its own; None: there is none."""
        return self._post_filtered.get((profile, pod_class))

    def times_of(self, uid: str) -> BindingTimes | None:
        """How long the pod took to be bound; None: not known."""
        return self._times.get(uid)

    def record(self, request: snapshot_pb2.SyncRequest, time_ns: int) -> None:
        """Take over a message that the cluster has: the decisions in it were made before what it brings."""
        for content in request.decisions:
            try:
                decision = decision_pb2.Decision.FromString(content)
            except protobuf.DecodeError:
                continue  # a damaged decision explains nothing; the cluster is followed all the same
            self._add(Made(self._clusters.era, time_ns, decision))
        if request.WhichOneof("message") == "hello":
            self._follow(request.hello.fence)
        if request.WhichOneof("message") != "delta":
            return
        delta = request.delta
        if delta.HasField("pods"):
            self._match_pods(delta.pods, is_full_sync=delta.reset or delta.partial)
        for number in delta.removed_classes:
            self._open.pop(number, None)

    def _follow(self, fence: cycle_pb2.Fence) -> None:
        """A stream begins: with another leader, no pod takes a node of an answer to the leader before."""
        leader = fence.scheduler_id, fence.epoch
        if leader != self._leader:
            self._leader = leader
            self._open.clear()
            self._filtered.clear()
            self._post_filtered.clear()
            self._nominees.clear()

    def _add(self, made: Made) -> None:
        """Take over a decision."""
        decision = made.decision
        kind, key = decision.WhichOneof("decision"), (decision.profile, decision.pod_class)
        if kind == "filter":
            self._filtered[key] = made
            if decision.filter.HasField("nominee"):
                self._nominate(decision.filter.nominee.uid, made, 0, -1)
            uids = [each.pod.uid for each in decision.filter.preemptors]
            self._add_preemptions(made, uids, decision.filter.post_filter_results)
        elif kind == "nominated":
            for position, nominee in enumerate(decision.nominated.nominees[: decision.nominated.admitted]):
                self._nominate(nominee.pod.uid, made, position, nominee.slot)
        elif kind == "place" and decision.place.slots:
            slots = tuple(decision.place.slots)
            answer = Answer(made, self._filtered.get(key), slots, [None] * len(slots))
            opened = self._open.setdefault(decision.pod_class, collections.deque(maxlen=_OPEN_ANSWERS))
            opened.append(answer)
        elif kind == "post_filter":
            self._post_filtered[key] = made
            uids = [each.pod.uid for each in decision.post_filter.preemptors]
            self._add_preemptions(made, uids, decision.post_filter.results)
        elif kind == "placed":
            for uid, slot in zip(decision.placed.uid, decision.placed.slot, strict=False):
                self._place(decision.pod_class, slot, uid, "")
        elif kind == "bound":
            self._add_times(decision.bound)

    def _nominate(self, uid: str, made: Made, position: int, slot: int) -> None:
        """Note that the pod may get the node that it is nominated to; slot −1: it is not named."""
        self._nominees.pop(uid, None)
        self._nominees[uid] = made, position, slot
        while len(self._nominees) > _MAX_NOMINEES:
            del self._nominees[next(iter(self._nominees))]

    def _add_preemptions(
        self, made: Made, uids: Iterable[str], results: Iterable[filter_phase_pb2.PostFilterResult]
    ) -> None:
        """Note the results of PostFilter that do something for their pods."""
        for position, (uid, result) in enumerate(zip(uids, results, strict=False)):
            answer = result.answer
            if answer.actions or answer.nominated_node:
                self._preemptions.pop(uid, None)
                self._preemptions[uid] = Preemption(
                    made, self._filtered.get((made.decision.profile, made.decision.pod_class)), position
                )
        while len(self._preemptions) > _MAX_PODS:
            del self._preemptions[next(iter(self._preemptions))]

    def _add_times(self, bound: decision_pb2.BoundPods) -> None:
        """Note how long pods took."""
        held_back = bound.held_back_us or [None] * len(bound.uid)
        columns = (bound.queue_us, bound.attempt_us, bound.permit_us, bound.pre_bind_us, bound.bind_us)
        for uid, attempts, held, *times in zip(bound.uid, bound.attempts, held_back, *columns, strict=False):
            self._times[uid] = BindingTimes(attempts, held, *times)
        while len(self._times) > _MAX_PODS:
            del self._times[next(iter(self._times))]

    def _match_pods(self, pods: snapshot_pb2.PodColumns, *, is_full_sync: bool) -> None:
        """Find the answers by which these pods were placed, and note their names; of a full sync the names alone."""
        for number, slot, uid, name in zip(pods.pod_class, pods.slot, pods.uid, pods.name, strict=True):
            if not uid:
                continue
            known = self._placements.get(uid)
            if known is not None and known.slot == slot:
                known.answer.pods[known.position] = uid, name
            if is_full_sync or (known is not None and known.slot == slot):
                continue
            # Never bound where an answer placed it: another scheduler may have bound it since.
            self._placements.pop(uid, None)
            self._place(number, slot, uid, name)

    def _place(self, pod_class: int, slot: int, uid: str, name: str) -> None:
        """Note that the pod took a node of the last answer that has it for this class, if there is one."""
        placement = self._claim(pod_class, slot, uid, name)
        if placement is None:
            return
        self._placements.pop(uid, None)
        self._placements[uid] = placement
        while len(self._placements) > _MAX_PODS:
            self._drop(next(iter(self._placements)))

    def _claim(self, pod_class: int, slot: int, uid: str, name: str) -> Placement | None:
        """The answer by which a pod was placed: the newest that names its slot, or the one about it as a nominee."""
        nominee = self._nominees.get(uid)
        for answer in reversed(self._open.get(pod_class, ())):
            if nominee is not None and answer.made.decision.number < nominee[0].decision.number:
                break
            position = answer.claim(slot)
            if position is not None:
                answer.pods[position] = uid, name
                self._nominees.pop(uid, None)
                return Placement(answer, position)
        if nominee is None or nominee[2] not in (slot, -1) or nominee[0].decision.pod_class != pod_class:
            return None
        del self._nominees[uid]
        made, position, _ = nominee
        filtered = made if made.decision.HasField("filter") else None
        return Placement(Answer(made, filtered, (slot,), [(uid, name)]), 0)

    def _forget_before(self, era: int, generation: int) -> None:
        """Forget what was decided on clusters older than this one, which are not remembered any more."""

        def is_old(made: Made) -> bool:
            return (made.era, made.decision.generation) < (era, generation)

        # Both are about in the order of time: the first one that is not old ends the search.
        for uid in _leading(self._placements, lambda uid: is_old(self._placements[uid].answer.made)):
            self._drop(uid)
        for uid in _leading(self._preemptions, lambda uid: is_old(self._preemptions[uid].made)):
            del self._preemptions[uid]

    def _drop(self, uid: str) -> None:
        del self._placements[uid]
        self._times.pop(uid, None)


def _leading(uids: Iterable[str], chosen: "collections.abc.Callable[[str], bool]") -> list[str]:
    """The first of the UIDs, up to one that is not chosen."""
    out = []
    for uid in uids:
        if not chosen(uid):
            break
        out.append(uid)
    return out
