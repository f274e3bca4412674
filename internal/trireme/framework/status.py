"""Status: a plugin's verdict on a pod or on a node, as a value.

A refusal is data and never an exception, because it is counted, joined into the event, compared by preemption and
explained later. The codes are those of the contract (protos/trireme/v1/status.proto) and of kube-scheduler.

Also change: sdk/go/framework/status.go (status codes).
Also change: protos/trireme/v1/status.proto (the messages).

Tests: tests/unit/wire/test_status.py, tests/unit/plugin_api/test_status_table.py, tests/unit/remote/test_response.py.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Code(enum.IntEnum):
    """What happens next; numbers as in trireme.v1.Code."""

    SUCCESS = 1
    ERROR = 2
    UNSCHEDULABLE = 3
    UNSCHEDULABLE_AND_UNRESOLVABLE = 4
    WAIT = 5
    SKIP = 6
    PENDING = 7

    @property
    def label(self) -> str:
        """The name that metrics and kube-scheduler use, e.g. `UnschedulableAndUnresolvable`."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Reason:
    """One refusal in machine-readable form, for `explain`."""

    code: str
    parameters: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(code: str, parameters: Mapping[str, object]) -> "Reason":
        """A reason with its parameters as text, in a fixed order."""
        return Reason(code, tuple(sorted((key, str(value)) for key, value in parameters.items())))


_REFUSED = (Reason("refused"),)
# Of statuses that are made without a reason.
_REASONS: Mapping[Code, tuple[Reason, ...]] = {
    Code.ERROR: (Reason("failed"),),
    Code.UNSCHEDULABLE: _REFUSED,
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: _REFUSED,
    Code.WAIT: (Reason("waits"),),
    Code.PENDING: (Reason("pending"),),
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Status:
    """One answer. `messages` are in kube-scheduler's words; they are counted per node and joined into the event.

    A refusal, wait or failure always has a reason: one without a code of its own has that of its kind.
    """

    code: Code
    plugin: str = ""
    messages: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()

    def __post_init__(self) -> None:
        if not self.reasons and self.code in _REASONS:
            object.__setattr__(self, "reasons", _REASONS[self.code])

    @property
    def has_own_reasons(self) -> bool:
        """Whether its reasons say more than that of its kind."""
        return bool(self.reasons) and self.reasons != _REASONS.get(self.code)

    @property
    def is_rejection(self) -> bool:
        """The pod is refused (not an error): it is parked until an event may help it."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """All messages as one text, as events and conditions show it."""
        return ", ".join(self.messages)


NOT_CALLED = Reason("pluginNotCalled")
"""Beside an error: the plugin was not called about this pod, because calls about any pods failed before. It is no
answer of a plugin: errors that these answer lose their reasons.
"""

SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(plugin: str, *messages: str, reasons: tuple[Reason, ...] = ()) -> Status:
    """Refused; evicting pods may help."""
    return Status(Code.UNSCHEDULABLE, plugin, messages, reasons)


def unresolvable(plugin: str, *messages: str, reasons: tuple[Reason, ...] = ()) -> Status:
    """Refused; evicting pods would not help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, plugin, messages, reasons)


def error(plugin: str, message: str, *, reasons: tuple[Reason, ...] = ()) -> Status:
    """The plugin failed: the pod is tried again after the back-off for errors."""
    return Status(Code.ERROR, plugin, (message,), reasons)
