"""Fencing: who may still ask for work, as a pure core.

A leader is known by its epoch, the resourceVersion of the write that acquired the Lease; it only grows. A replica that
has seen a higher epoch refuses a lower one, so a deposed leader loses each replica at the latest when its successor
first reaches it. This holds among leaders of one scheduler, which its Lease's UID names (`Fence.scheduler_id`); a
replica may outlive the cluster that it worked for, and the epochs of the next one may be lower. That is all that filter
and score need: what they answer is without effect until bind writes it.

Bind writes, so for it an epoch is valid for a limited time as well (`Tenure`): work that has not begun when the time is
over, or when another epoch came, is not begun. Invariant: the epoch in force of one scheduler never falls, and a tenure
that another epoch ended stays over. Where the time comes from is told in `trireme.bind.leadership`.
"""

import enum
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)

# Schedulers whose epochs are remembered; the one that was replaced, or seen first, longest ago is forgotten.
MAX_SCHEDULERS = 64

REASON_METADATA = "trireme-reason"
"""The trailing metadata of a gRPC error that holds a `RefusalReason`."""


# A restore gives the same Lease lower versions again. Filter, score and plugins do not read the Lease, so they cannot
# tell its new leader from one that was deposed: the epoch that they remember must go, and it goes with the process.
_IF_RESTORED = "restart this process if the cluster was restored from a backup"


class RefusalReason(enum.StrEnum):
    """Why work is refused; the caller acts on it."""

    #: Another leader was seen: give up.
    STALE_EPOCH = "stale-epoch"
    #: The Lease names somebody else: give up.
    NOT_HOLDER = "not-holder"
    #: The caller's own time is over: renew the Lease, then ask again.
    LEASE_EXPIRED = "lease-expired"
    #: The Lease could not be read: ask again.
    UNVERIFIED = "unverified"
    #: The call names a configuration that this replica does not have: bring it.
    CONFIG_MISMATCH = "config-mismatch"


class Refusal(Exception):
    """The question is not answered for this caller, now."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def transient(self) -> bool:
        """The same call may succeed in a moment, here or elsewhere."""
        return self.reason is RefusalReason.UNVERIFIED


class Leader(NamedTuple):
    """One term of leadership of one scheduler. Each term has its own, and a term that is over does not return."""

    scheduler_id: str
    epoch: int


class EpochGuard:
    """The scheduler that a phase works for, and the highest epoch seen of it.

    Epochs of different schedulers cannot be compared: they number the writes of different API servers, or of one that
    was rebuilt. So a scheduler that was never seen is admitted whatever its epoch is. One that was replaced by another
    comes back with a higher epoch only, that is with a new leader: its leader of then stays deposed.
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
        """How many calls of epochs that are over were refused."""
        return self._refused

    def check(self, epoch: int, scheduler_id: str = "") -> None:
        """Refuses an epoch that is over, and changes nothing.

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
        """Puts an epoch in force; answers whether it is a new one.

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
            _remember(self._replaced, self._scheduler_id, self._epoch)
        self._epoch = epoch
        self._scheduler_id = scheduler_id
        return True


class SchedulerEpochs:
    """The highest epoch seen of each scheduler, for a plugin: several schedulers may call it side by side."""

    __slots__ = ("_highest",)

    def __init__(self) -> None:
        self._highest: OrderedDict[str, int] = OrderedDict()

    def admit(self, epoch: int, scheduler_id: str) -> None:
        """Takes note of a caller's epoch. 0 is a call that names no leader, which nobody can be refused for.

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
            _remember(self._highest, scheduler_id, epoch)


def _remember(epochs: "OrderedDict[str, int]", scheduler_id: str, epoch: int) -> None:
    epochs[scheduler_id] = epoch
    epochs.move_to_end(scheduler_id)
    if len(epochs) > MAX_SCHEDULERS:
        epochs.popitem(last=False)


@dataclass(slots=True)
class Tenure:
    """The right to begin work for one epoch until some time, which later calls of the same leader extend."""

    guard: EpochGuard
    clock: Callable[[], float]
    leader: Leader
    #: On `clock`; infinite where there is no leader election.
    valid_until: float

    def extend(self, valid_until: float) -> None:
        """The leader has shown that it leads until then; an earlier time than the one in force changes nothing."""
        self.valid_until = max(self.valid_until, valid_until)

    @property
    def active(self) -> bool:
        """Whether work may begin now."""
        return self.guard.leader == self.leader and self.clock() < self.valid_until

    @property
    def ended_because(self) -> str:
        """Why it is not active any more, for the message about work that was not begun."""
        if self.guard.leader != self.leader:
            return f"a leader of epoch {self.guard.epoch} has taken over from epoch {self.leader.epoch}"
        return "the leader's lease ran out"
