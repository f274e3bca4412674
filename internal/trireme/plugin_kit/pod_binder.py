"""How DefaultBinder has pods bound: the pod and its node, the outcome, and the protocol of what writes bindings."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.framework.status import Reason
from trireme.rpc.fencing import Tenure
from trireme_kube.apimachinery.api_writes import PodName


@dataclass(frozen=True, slots=True)
class BindTarget:
    """The pod to bind and the node. `outcome_unknown`: an earlier call, here or elsewhere, may have bound it."""

    pod: PodName
    node: str
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The API server has the binding; `read_back`: known from reading the pod."""

    read_back: bool


@dataclass(frozen=True, slots=True)
class NotBound:
    """It is certain that we did not bind it and will not."""

    message: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class ResultUnknown:
    """The pod may be bound or not: neither the POST nor reading the pod was answered."""

    message: str


BindOutcome = Bound | NotBound | ResultUnknown


class PodBinder(Protocol):
    """Binds pods, each at most once at a time."""

    def bind(
        self, targets: Sequence[BindTarget], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, BindOutcome]], None]:
        """Bind pods, and yield the outcomes as they come, by index. Nothing begins once the tenure is over."""
        ...
