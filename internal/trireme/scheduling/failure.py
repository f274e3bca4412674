"""The failure of a scheduling attempt.

Also change: internal/trireme/framework/reason_codes.py (the reasons of the condition).

Tests: tests/unit/scheduling/test_attempt_reporter.py, tests/unit/scheduling/test_condition_message.py.
"""

from dataclasses import dataclass
from weakref import WeakValueDictionary

from trireme.framework import status

UNSCHEDULABLE_REASON = "Unschedulable"
SCHEDULER_ERROR_REASON = "SchedulerError"

# So many statuses of a waiting pod's failure are kept, and shown.
MAX_KEPT = 10

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RefusedPlacement:
    """The node that an attempt had chosen, and the status by which a plugin refused the pod there at a later step."""

    extension_point: str
    node: str
    status: status.Status


@dataclass(frozen=True, slots=True)
class LastFailure:
    """What is kept of a waiting pod's failure: its message, and a few of its statuses with the numbers of nodes."""

    message: str = ""
    statuses: tuple[tuple[status.Status, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed. Without `rejectors`: by error. `nominated_node` None: leave it; empty: clear it.

    `placement`: the attempt had a node, and a plugin refused the pod there; None: it ended before. `refusals`: the
    statuses behind it, and how many nodes have each; without any `reasons` says why.
    """

    message: str
    rejectors: frozenset[str] = _EMPTY
    pending_plugins: frozenset[str] = _EMPTY
    nominated_node: str | None = None
    unschedulable: bool = False
    placement: RefusedPlacement | None = None
    refusals: tuple[tuple[status.Status, int], ...] = ()
    reasons: tuple[status.Reason, ...] = ()

    @property
    def statuses(self) -> tuple[tuple[status.Status, int], ...]:
        """The statuses behind it; of a failure without any, one of no node with its reasons.

        Errors of nodes come first, which end the attempt, then those of most nodes, and equal numbers in an order that
        depends on nothing else: each replica of filter numbers statuses by itself. Those of no node, such as a group's
        or PostFilter's, come last and stay in the order that they are in.
        """
        code = status.Code.UNSCHEDULABLE if self.reason == UNSCHEDULABLE_REASON else status.Code.ERROR
        return tuple(sorted(self.refusals, key=sort_key)) or (
            (status.Status(code, "", (self.message,), self.reasons), 0),
        )

    @property
    def reason(self) -> str:
        """The condition's reason."""
        return UNSCHEDULABLE_REASON if self.unschedulable or self.rejectors else SCHEDULER_ERROR_REASON

    def to_keep(self) -> LastFailure:
        """What is kept of it while the pod waits: thousands may wait, each with statuses of its own."""
        kept = sorted(sorted(self.statuses, key=is_node_refusal)[:MAX_KEPT], key=sort_key)
        return LastFailure(self.message, tuple((_shared(each), nodes) for each, nodes in kept))


def is_node_refusal(entry: tuple[status.Status, int]) -> bool:
    """Whether it is a refusal of nodes. There may be many: where not all can be kept, they give way to the others."""
    of, nodes = entry
    return nodes > 0 and of.code is not status.Code.ERROR


def sort_key(entry: tuple[status.Status, int]) -> tuple[object, ...]:
    """The key that sorts statuses as `Failure.statuses` are."""
    of, nodes = entry
    if not nodes:
        return (2,)
    reasons = [(reason.code, reason.parameters) for reason in of.reasons]
    return int(is_node_refusal(entry)), -nodes, of.plugin, of.code.value, of.messages, reasons


def _shared(of: status.Status) -> status.Status:
    """One status for all that are equal, as pods of many classes are refused alike; while a pod keeps it."""
    known = _KEPT.get(hash(of))
    if known == of:
        return known
    _KEPT[hash(of)] = of
    return of


# By hash: a status as a key would keep itself. Of two with one hash the later one is shared.
_KEPT: WeakValueDictionary[int, status.Status] = WeakValueDictionary()
