"""Results of a plugin's methods other than plain values: refusals, state, waiting.

Also change: sdk/go/statuses.go, sdk/java/src/main/java/dev/trireme/sdk/Status.java, sdk/rust/src/results.rs,
sdk/typescript/src/results.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/status.proto (the messages).
Also change: protos/trireme/v1/bind.proto (how long a pod waits at most).
Also change: internal/trireme/scheduling/waiting_pods.py (how long a pod waits at most).

Tests: tests/contract/test_plugin_sdk_binding.py, tests/contract/test_plugin_sdk_queue.py.
"""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from trireme.framework import status
from trireme.framework.status import Status as Status  # it is part of the SDK
from trireme.v1 import snapshot_pb2

Verdict: TypeAlias = "int | Status | None"
"""Filter's result for a node: None passes, a number passes for that many copies, a status refuses."""

SKIP: Final = status.SKIP
"""The plugin has nothing to do for the pod; its following extension point is skipped."""


def unschedulable(message: str, reason: str = "", **parameters: object) -> Status:
    """Refused now; evicting pods may help.

    `message` is counted per node and is part of the event; `reason`, in lower camel case, and its parameters say the
    same to programs.
    """
    return status.unschedulable("", message, reasons=_make_reasons(reason, parameters))


def unresolvable(message: str, reason: str = "", **parameters: object) -> Status:
    """Refused, and evicting pods would not help: preemption skips the node. Arguments as of `unschedulable`."""
    return status.unresolvable("", message, reasons=_make_reasons(reason, parameters))


def pending(message: str, reason: str = "", **parameters: object) -> Status:
    """Refused until something outside the scheduler has happened, whose event skips the back-off.

    Arguments as of `unschedulable`.
    """
    return dataclasses.replace(unschedulable(message, reason, **parameters), code=status.Code.PENDING)


def more_members(message: str) -> Status:
    """placement_feasible's result for a group that fits if more of it does; if no more does, it is unschedulable."""
    return Status(status.Code.WAIT, "", (message,))


def error(message: str) -> Status:
    """The plugin could not decide: the pod is tried again later."""
    return status.error("", message)


@dataclass(frozen=True, slots=True)
class PreFilter:
    """PreFilter's result for a pod that passes.

    `nodes` narrows the nodes to these names (None: not); `state` is handed to filter in the same cycle, as
    `call.read_state(type)`, perhaps to another replica of the plugin: bytes, or what JSON has, dataclasses included.
    """

    nodes: Collection[str] | None = None
    state: object = b""


@dataclass(frozen=True, slots=True)
class PreScore:
    """PreScore's result with state for score, as `PreFilter.state`."""

    state: object


@dataclass(frozen=True, slots=True)
class Reservation:
    """Reserve's result for a pod that it reserves for.

    `assumed` are objects as they will be once PreBind has written them; `state` is handed to pre_bind, which reads it
    by `read_state(item, type)`.
    """

    state: object = b""
    assumed: Sequence[snapshot_pb2.ClusterObject] = ()


@dataclass(frozen=True, slots=True)
class SortKey:
    """A pod's position in the queue: whole numbers of 64 bits, at most 16 in each part; the least is tried first.

    `level` is compared first, and pods of one class with the same level may be scheduled in one batch, while classes
    of one level take turns. `rest` orders the pods of one class and level; what is equal there goes by age.
    """

    level: int | tuple[int, ...]
    rest: int | tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit's result for a pod that waits until `Handle.allow`; it is rejected after `seconds`, above 0.

    The scheduler takes what is longer than 15 minutes, `math.inf` as well, for 15 minutes. `message` says for what it
    waits; `trireme status` shows it. Raises: ValueError.
    """

    seconds: float
    message: str = ""

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"a wait has more than 0 seconds, not {self.seconds}")


@dataclass(frozen=True, slots=True)
class PreBindWait:
    """PreBind's result for a pod that waits for `objects` to change, whereupon pre_bind is called again.

    The `kind` of each is a field of `snapshot_pb2.ClusterObject`, such as `persistent_volume_claim`, or `pod`.
    `seconds`, above 0, of a pod's first wait hold for all its waits in PreBind; then it fails. `message` says why it
    waits; `trireme status` shows it, and so does the event of a pod that fails. `state` is for the next pre_bind, as
    `read_state(item, type)`; without, it gets what this call got. Raises: ValueError.
    """

    objects: Sequence[snapshot_pb2.ObjectKey]
    seconds: float
    message: str = ""
    state: object = b""

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"a wait has more than 0 seconds, not {self.seconds}")
        if not self.objects:
            raise ValueError("a wait of pre_bind names an object")


def _make_reasons(reason: str, parameters: dict[str, object]) -> tuple[status.Reason, ...]:
    """The reason with its parameters; none if it is empty."""
    return (status.Reason.of(reason, parameters),) if reason else ()
