"""The failure of a scheduling attempt.

Also change: internal/trireme/framework/reason_codes.py (the reasons of the condition).

Tests: tests/unit/scheduling/test_attempt_reporter.py.
"""

from dataclasses import dataclass

from trireme.framework import status

UNSCHEDULABLE_REASON = "Unschedulable"
SCHEDULER_ERROR_REASON = "SchedulerError"

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RefusedPlacement:
    """The node that an attempt had chosen, and the status by which a plugin refused the pod there at a later step."""

    extension_point: str
    node: str
    status: status.Status


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. Without `rejectors`: by error. `nominated_node` None: leave it; empty: clear it.

    `placement`: the attempt had a node, and a plugin refused the pod there; None: it ended before. `refusals`: the
    statuses behind it, and how many nodes have each.
    """

    message: str
    rejectors: frozenset[str] = _EMPTY
    pending_plugins: frozenset[str] = _EMPTY
    nominated_node: str | None = None
    unschedulable: bool = False
    placement: RefusedPlacement | None = None
    refusals: tuple[tuple[status.Status, int], ...] = ()

    @property
    def statuses(self) -> tuple[tuple[status.Status, int], ...]:
        """The statuses behind it; of a failure without any, one of no node with the code of its kind."""
        code = status.Code.UNSCHEDULABLE if self.reason == UNSCHEDULABLE_REASON else status.Code.ERROR
        return self.refusals or ((status.Status(code, "", (self.message,)), 0),)

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return UNSCHEDULABLE_REASON if self.unschedulable or self.rejectors else SCHEDULER_ERROR_REASON
