"""Fencing: who may still ask for work, as a pure core.

A leader is known by its epoch, the resourceVersion of the write that acquired the Lease; it only grows. A replica that
has seen a higher epoch refuses a lower one, so a deposed leader loses each replica at the latest when its successor
first reaches it. That is all that filter and score need: what they answer is without effect until bind writes it.

Bind writes, so for it an epoch is valid for a limited time as well (`Tenure`): work that has not begun when the time is
over, or when a higher epoch came, is not begun. Invariant: the guard's epoch never falls, and a tenure that a higher
epoch ended stays over. Where the time comes from is told in `trireme.bind.leadership`.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

REASON_METADATA = "trireme-reason"
"""The trailing metadata of a gRPC error that holds a `RefusalReason`."""


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


class EpochGuard:
    """The highest epoch seen."""

    __slots__ = ("_epoch", "_refused")

    def __init__(self) -> None:
        self._epoch = 0
        self._refused = 0

    @property
    def epoch(self) -> int:
        """The epoch in force; 0 before the first."""
        return self._epoch

    @property
    def refused(self) -> int:
        """How many calls of lower epochs were refused."""
        return self._refused

    def check(self, epoch: int) -> None:
        """Refuses an epoch lower than the one in force, and changes nothing.

        Raises:
            Refusal: the epoch is stale.
        """
        if epoch < self._epoch:
            self._refused += 1
            raise Refusal(
                RefusalReason.STALE_EPOCH, f"epoch {epoch} is over: a leader of epoch {self._epoch} has been seen"
            )

    def admit(self, epoch: int) -> bool:
        """Puts an epoch in force; answers whether it is a new one.

        Raises:
            Refusal: the epoch is stale.
        """
        self.check(epoch)
        if epoch == self._epoch:
            return False
        self._epoch = epoch
        return True


@dataclass(slots=True)
class Tenure:
    """The right to begin work for one epoch until some time, which later calls of the same leader extend."""

    guard: EpochGuard
    clock: Callable[[], float]
    epoch: int
    #: On `clock`; infinite where there is no leader election.
    valid_until: float

    def extend(self, valid_until: float) -> None:
        """The leader has shown that it leads until then; an earlier time than the one in force changes nothing."""
        self.valid_until = max(self.valid_until, valid_until)

    @property
    def active(self) -> bool:
        """Whether work may begin now."""
        return self.guard.epoch == self.epoch and self.clock() < self.valid_until

    @property
    def ended_because(self) -> str:
        """Why it is not active any more, for the message about work that was not begun."""
        if self.guard.epoch != self.epoch:
            return f"a leader of epoch {self.guard.epoch} has taken over from epoch {self.epoch}"
        return "the leader's lease ran out"
