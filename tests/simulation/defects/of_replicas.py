"""Defects between a frontend and its replicas of filter, score and bind: channels, snapshots, epochs."""

from __future__ import annotations

from typing import Any

from tests.simulation.defects import mutations
from tests.simulation.defects.registry import defect


@defect("rotate_certificates", "kill", load="light", found_by="pods stay pending that fit")
def certificates_not_renewed() -> None:
    """A channel whose connection broke goes on with the certificates that it was opened with."""

    def renew(original: Any, self: Any) -> bool:
        return False

    mutations.replace("RenewableChannel.renew", renew)


@defect("move", "disturb_plugin", seed=36, nodes=8, found_by="pods stay pending that fit")
def frozen_leader() -> None:
    """A call under way when its replica's endpoint goes ends the task that made it, in silence.

    The leader schedules no more.
    """

    def is_being_cancelled(original: Any) -> bool:
        return True

    mutations.drop_calls("FollowerReplicas", "link.drain")
    mutations.replace("supervision.is_being_cancelled", is_being_cancelled)


@defect("late_bindings", seed=130, found_by="a pod's status is written for a former leader")
def late_binding_of_a_former_leader() -> None:
    """Bind works for every caller, and no leader waits for a former leader's work.

    Reported of Kubernetes as kubernetes/kubernetes#136782 and #137308.
    """
    from trireme.rpc.fencing import Tenure

    async def admit(original: Any, self: Any, claim: Any, lease_valid_seconds: float) -> Any:
        self._guard.check(claim.epoch, claim.scheduler_id)
        return Tenure(self._guard, lambda: -1.0, self._guard.leader, float("inf"))

    def check(original: Any, self: Any, epoch: int, scheduler_id: str = "") -> None:
        if scheduler_id != self.scheduler_id:
            original(self, epoch, scheduler_id)

    async def wait_for_predecessors_writes(original: Any, self: Any, term: Any) -> None:
        pass

    mutations.replace("Leadership.admit", admit)
    mutations.replace("EpochGuard.check", check)
    mutations.replace("LeadershipRunner._wait_for_predecessors_writes", wait_for_predecessors_writes)


@defect("kill", "reset", found_by="pods stay pending that fit")
def lost_rows() -> None:
    """Replicas do not learn which pods left."""

    def take_delta(original: Any, self: Any) -> Any:
        delta = original(self)
        if delta is not None:
            delta.ClearField("removed_pods")
        return delta

    mutations.replace("DeltaLog.take_delta", take_delta)


@defect("late_snapshots", seed=105, nodes=6, found_by="a replica answers by another leader's snapshot")
def older_stream_goes_on() -> None:
    """A replica goes on following a leader whose stream another one has displaced."""

    def has_reached(original: Any, self: Any, cycle: Any) -> bool:
        return bool(self._snap.synced and self._snap.generation >= cycle.generation)

    mutations.drop_calls("Follower.Sync", "stream.abort")
    mutations.drop_calls("Follower._accept_stream", "_guard.check")
    mutations.drop_calls("Follower._accept_stream", "_guard.admit")
    mutations.replace("Follower._has_reached", has_reached)


@defect("pause", "isolate_leader", "lag", "kill", found_by="pods stay pending that fit")
def oversized_delta() -> None:
    """All changes since the last delta go in one, however large, and what a replica refuses comes again.

    Limits of a message are smaller here, as the cluster is.
    """

    def take_delta(original: Any, self: Any) -> Any:
        delta = original(self)
        if delta is None:
            return None
        generation = delta.from_generation
        while (more := original(self)) is not None:
            delta.MergeFrom(more)
        delta.from_generation = generation
        return delta

    mutations.set_constant("message_sizes.MAX_PHASE_BYTES", 16 << 10)
    mutations.set_constant("delta_chunks.CHUNK_BYTES", 4 << 10)
    mutations.replace("DeltaLog.take_delta", take_delta)
