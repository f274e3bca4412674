"""The failure of a scheduling attempt."""

from dataclasses import dataclass

UNSCHEDULABLE_REASON = "Unschedulable"
SCHEDULER_ERROR_REASON = "SchedulerError"

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. Without `rejectors`: by error. `nominated_node` None: leave it; empty: clear it."""

    message: str
    rejectors: frozenset[str] = _EMPTY
    pending_plugins: frozenset[str] = _EMPTY
    nominated_node: str | None = None
    unschedulable: bool = False

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return UNSCHEDULABLE_REASON if self.unschedulable or self.rejectors else SCHEDULER_ERROR_REASON
