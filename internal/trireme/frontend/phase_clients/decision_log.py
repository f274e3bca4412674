"""Decisions for the recordings of insight: what a phase was called with and what it answered, as `Decision` messages.

A decision is sent with the next message of the snapshot stream, which costs no message of its own, and only to replicas
that take them. Nothing waits for a replica: a decision for which there is no room is dropped, and its number is left
out.

Also change: protos/trireme/v1/decision.proto (the messages).
Also change: protos/trireme/v1/placed_pods.proto (the messages).
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from trireme.queueing import queued_pod
from trireme.scheduling import ports
from trireme.v1 import decision_pb2, placed_pods_pb2, snapshot_pb2

# Decisions may wait for the next message up to so many bytes.
MAX_WAITING_BYTES = 1 << 20

# UID and attempts of a pod, and seconds: held back, in the queue, of the attempt, Permit, PreBind, Bind.
_BoundPod: TypeAlias = tuple[str, int, float, float, float, float, float, float]


class DecisionLog:
    """Collects decisions from one message of the stream to the next.

    A generation is the one that a call named. Where the cluster was published again before the answer came, the
    decision is inexact: a replica may have answered from either.
    """

    def __init__(
        self, generation: Callable[[], int], calls_remotely: Callable[[str], bool] = lambda profile: False
    ) -> None:
        """`generation` returns that of the last delta published.

        `calls_remotely` returns whether services take part at Filter, PostFilter, Reserve or Score of a profile.
        """
        self._generation = generation
        self._calls_remotely = calls_remotely
        #: Returns whether any replica takes decisions.
        self.wanted: Callable[[], bool] = bool
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._number = 0
        # Pods bound since the last message: a tuple costs each pod less than the message's eight fields.
        self._bound: list[_BoundPod] = []

    def wants_remote_answers(self, profile: str) -> bool:
        """Whether phases are to return what remote plugins answer in calls about the profile."""
        return self.wanted() and self._calls_remotely(profile)

    @property
    def waiting(self) -> bool:
        """Whether there are decisions that no message has taken yet."""
        return bool(self._waiting or self._bound)

    def take(self) -> bytes:
        """The decisions added since the last call, as the fields of a serialised SyncRequest; empty: nothing."""
        if self._bound:
            self._number += 1
            bound, self._bound = _make_bound_pods(self._bound), []
            self._keep(decision_pb2.Decision(number=self._number, generation=self._generation(), bound=bound))
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return snapshot_pb2.SyncRequest(decisions=waiting).SerializeToString() if waiting else b""

    def add_placed(self, class_key: ports.ClassKey, generation: int, pods: Sequence[tuple[str, int]]) -> None:
        """Add which pods (UID, slot) took the nodes of the last answer about the class, of this generation."""
        if not pods or not self.wanted():
            return
        uids, slots = zip(*pods, strict=True)
        about = placed_pods_pb2.PlacedPods(uid=uids, slot=slots)
        self.add(class_key, generation, decision_pb2.Decision(placed=about))

    def add_bound(
        self,
        pod: queued_pod.QueuedPodInfo,
        now: float,
        *,
        permit_seconds: float,
        pre_bind_seconds: float,
        bind_seconds: float,
    ) -> None:
        """Add that the pod was bound, and how long that took; all that were bound since a message are one decision."""
        if not self.wanted():
            return
        first = pod.initial_attempt_timestamp
        self._bound.append(
            (
                pod.uid,
                pod.attempts,
                first - pod.first_queued_at if first else 0.0,
                pod.popped_at - first if first else 0.0,
                now - pod.popped_at,
                permit_seconds,
                pre_bind_seconds,
                bind_seconds,
            )
        )

    def add(
        self,
        class_key: ports.ClassKey,
        generation: int,
        decision: decision_pb2.Decision,
        *,
        seconds: float = 0.0,
        remote: bytes = b"",
    ) -> None:
        """Number a decision of a call, and keep it for the next message if there is room.

        `seconds` is how long the call took, `remote` what remote plugins answered, a RemoteAnswers.
        """
        if remote:
            decision.remote.MergeFromString(remote)
        self._number += 1
        decision.number, decision.generation = self._number, generation
        decision.profile, decision.pod_class = class_key
        decision.inexact = generation != self._generation()
        decision.duration_us = _microseconds(seconds)
        self._keep(decision)

    def _keep(self, decision: decision_pb2.Decision) -> None:
        """Keep a decision for the next message, if there is room."""
        content = decision.SerializeToString()
        if self._waiting_bytes + len(content) <= MAX_WAITING_BYTES:
            self._waiting.append(content)
            self._waiting_bytes += len(content)


def _make_bound_pods(bound: Sequence[_BoundPod]) -> decision_pb2.BoundPods:
    """Make the message about pods that were bound."""
    uids, attempts, *seconds = zip(*bound, strict=True)
    # As `_microseconds`, without a call for each of some hundred numbers.
    held_back, queue, attempt, permit, pre_bind, bind = (
        [int(each * 1_000_000 + 0.5) if each > 0 else 0 for each in column] for column in seconds
    )
    return decision_pb2.BoundPods(
        uid=uids,
        attempts=attempts,
        held_back_us=held_back,
        queue_us=queue,
        attempt_us=attempt,
        permit_us=permit,
        pre_bind_us=pre_bind,
        bind_us=bind,
    )


def _microseconds(seconds: float) -> int:
    """The duration in whole microseconds; 0 where clocks disagree."""
    return max(round(seconds * 1_000_000), 0)
