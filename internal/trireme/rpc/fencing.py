"""Fencing: refuses calls of deposed leaders. Pure.

An epoch identifies a leader: the resourceVersion of the write that acquired the Lease, which only grows. A replica that
has seen a higher epoch refuses a lower one, so a deposed leader loses each replica at the latest when its successor
first calls it. Epochs are compared only among leaders of one scheduler, identified by its Lease's UID
(`Fence.scheduler_id`): a replica may outlive its cluster, and the epochs of the next one may be lower. Filter and score
need no more, since their answers have no effect until bind writes.

Bind writes, so for it an epoch is also valid for a limited time (`Tenure`): bind starts no work after that time, or
once another epoch has come. Invariant: the epoch in force of one scheduler never falls, and a tenure that another epoch
ended stays ended. `trireme.bind.leadership` determines the time.

Also change: sdk/go/epochs.go, sdk/go/service.go, sdk/java/src/main/java/dev/trireme/sdk/Fencing.java,
sdk/java/src/main/java/dev/trireme/sdk/Refusals.java, sdk/rust/src/fencing.rs, sdk/typescript/src/fencing.ts,
sdk/typescript/src/errors.ts (the same in the other languages' SDKs).
Also change: docs/fault-tolerance.md.
Also change: docs/protocol.md.
Also change: protos/trireme/v1/bind_phase.proto (the messages).
Also change: protos/trireme/v1/cycle.proto (the messages).
"""

import enum
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from grpc import aio

log = logging.getLogger(__name__)

# Schedulers whose epochs are remembered; the oldest entry is dropped first.
MAX_SCHEDULERS = 64

REASON_METADATA = "trireme-reason"
"""The trailing metadata of a gRPC error that holds a `RefusalReason`."""


# A restored backup gives the same Lease lower versions again. Filter, score and plugins do not read the Lease, so they
# cannot tell its new leader from a deposed one: only a restart makes them forget the higher epoch.
_IF_RESTORED = "restart this process if the cluster was restored from a backup"


class RefusalReason(enum.StrEnum):
    """Why a call is refused; the caller acts on it."""

    #: Another leader was seen: give up.
    STALE_EPOCH = "stale-epoch"
    #: Another one holds the Lease: give up.
    NOT_HOLDER = "not-holder"
    #: The caller's Lease has expired: renew it, then call again.
    LEASE_EXPIRED = "lease-expired"
    #: The Lease could not be read: call again.
    UNVERIFIED = "unverified"
    #: The call names a configuration that this replica does not have: send it.
    CONFIG_MISMATCH = "config-mismatch"


def reason_of(error: aio.AioRpcError) -> str:
    """The reason in the error's trailing metadata, which may be one that this release does not know; empty: none."""
    found = dict(error.trailing_metadata() or ()).get(REASON_METADATA, "")
    return found if isinstance(found, str) else found.decode(errors="replace")


class Refusal(Exception):
    """A call is refused because of who makes it; `reason` says what the caller does next."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def transient(self) -> bool:
        """The same call may succeed in a moment, here or elsewhere."""
        return self.reason is RefusalReason.UNVERIFIED


class Leader(NamedTuple):
    """Identifies one term of leadership of one scheduler; no two terms are equal."""

    scheduler_id: str
    epoch: int


class EpochGuard:
    """The scheduler that a phase works for, and its highest epoch seen.

    Epochs of different schedulers cannot be compared: they number the writes of different API servers, or of a rebuilt
    one. So a new scheduler is admitted whatever its epoch. A scheduler that was replaced by another returns only with a
    higher epoch, that is with a new leader: its former leader stays deposed.
    """

    __slots__ = ("_epoch", "_refused", "_replaced", "_scheduler_id")

    def __init__(self) -> None:
        self._scheduler_id = ""
        self._epoch = 0
        self._refused = 0
        self._replaced: OrderedDict[str, int] = OrderedDict()

    @property
    def scheduler_id(self) -> str:
        """The scheduler in force; empty before the first."""
        return self._scheduler_id

    @property
    def epoch(self) -> int:
        """The epoch in force; 0 before the first."""
        return self._epoch

    @property
    def leader(self) -> Leader:
        """The leader in force."""
        return Leader(self._scheduler_id, self._epoch)

    @property
    def refused(self) -> int:
        """How many calls were refused for a stale epoch."""
        return self._refused

    def check(self, epoch: int, scheduler_id: str = "") -> None:
        """Raise if the epoch is stale; changes nothing but the count of refusals.

        Before the first epoch is admitted none is stale. Of another scheduler than the present one, epochs up to the
        highest that it had when it was replaced are stale.

        Raises:
            Refusal: the epoch is stale.
        """
        if not self._epoch:
            return
        if scheduler_id == self._scheduler_id:
            if epoch >= self._epoch:
                return
            explanation = f"a leader of epoch {self._epoch} has been seen"
        else:
            highest = self._replaced.get(scheduler_id, 0)
            if epoch > highest:
                return
            explanation = (
                f"a leader of epoch {highest} has been seen, "
                f"and scheduler {self._scheduler_id!r} has replaced scheduler {scheduler_id!r}"
            )
        self._refused += 1
        raise Refusal(RefusalReason.STALE_EPOCH, f"epoch {epoch} is over: {explanation}; {_IF_RESTORED}")

    def admit(self, epoch: int, scheduler_id: str = "") -> bool:
        """Put an epoch in force; return whether it is new.

        Raises:
            Refusal: the epoch is stale.
        """
        self.check(epoch, scheduler_id)
        if (epoch, scheduler_id) == (self._epoch, self._scheduler_id):
            return False
        if self._epoch and scheduler_id != self._scheduler_id:
            log.info(
                "scheduler %r, epoch %d, replaces scheduler %r, epoch %d: epochs of another scheduler are not compared",
                scheduler_id,
                epoch,
                self._scheduler_id,
                self._epoch,
            )
            self._replaced.pop(scheduler_id, None)
            _remember_epoch(self._replaced, self._scheduler_id, self._epoch)
        self._epoch = epoch
        self._scheduler_id = scheduler_id
        return True


class SchedulerEpochs:
    """The highest epoch seen of each scheduler, for a plugin: several schedulers may call it side by side."""

    __slots__ = ("_highest",)

    def __init__(self) -> None:
        self._highest: OrderedDict[str, int] = OrderedDict()

    def admit(self, epoch: int, scheduler_id: str) -> None:
        """Record a caller's epoch. 0, a call that names no leader, is always admitted.

        Raises:
            Refusal: a higher epoch of the same scheduler has been seen.
        """
        if not epoch:
            return
        highest = self._highest.get(scheduler_id)
        if highest is not None and epoch < highest:
            text = f"epoch {epoch} is over: a leader of epoch {highest} has been seen; {_IF_RESTORED}"
            raise Refusal(RefusalReason.STALE_EPOCH, text)
        if highest is None:
            others = f", beside other schedulers ({len(self._highest)})" if self._highest else ""
            log.info("called by scheduler %r with epoch %d%s", scheduler_id, epoch, others)
        if highest != epoch:
            _remember_epoch(self._highest, scheduler_id, epoch)


def _remember_epoch(epochs: "OrderedDict[str, int]", scheduler_id: str, epoch: int) -> None:
    """Remember a scheduler's epoch; of too many schedulers the one seen longest ago is forgotten."""
    epochs[scheduler_id] = epoch
    epochs.move_to_end(scheduler_id)
    if len(epochs) > MAX_SCHEDULERS:
        epochs.popitem(last=False)


@dataclass(slots=True)
class Tenure:
    """The right to start work for one epoch until some time, which later calls of the same leader extend."""

    guard: EpochGuard
    clock: Callable[[], float]
    leader: Leader
    #: On `clock`; infinite where there is no leader election.
    valid_until: float

    def extend(self, valid_until: float) -> None:
        """Extend the tenure; a time before the current end changes nothing."""
        self.valid_until = max(self.valid_until, valid_until)

    @property
    def active(self) -> bool:
        """Whether work may start now."""
        return self.guard.leader == self.leader and self.clock() < self.valid_until

    @property
    def ended_because(self) -> str:
        """Why it is no longer active, for the message about work that was not started."""
        if self.guard.leader != self.leader:
            return f"a leader of epoch {self.guard.epoch} has taken over from epoch {self.leader.epoch}"
        return "the leader's lease ran out"
