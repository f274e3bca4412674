"""How DefaultBinder has pods bound: the pod and its node, the outcome, and the protocol of what writes bindings."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.framework import status
from trireme.rpc.fencing import Tenure
from trireme_kube.apimachinery import api_writes


@dataclass(frozen=True, slots=True)
class BindTarget:
    """The pod to bind and the node. `outcome_unknown`: an earlier call, here or elsewhere, may have bound it."""

    pod: api_writes.PodName
    node: str
    outcome_unknown: bool = False


BindOutcome = status.Status | api_writes.Uncertain
"""SUCCESS: the API server has the binding. Error: it is certain that we did not bind the pod and will not; the reason
says why, for machines. Uncertain: neither the POST nor reading the pod was answered.
"""


class PodBinder(Protocol):
    """Binds pods, each at most once at a time.

    Implementers: trireme.bind.binding_writer.BindingWriter.
    """

    def bind(
        self, targets: Sequence[BindTarget], tenure: Tenure
    ) -> AsyncGenerator[list[tuple[int, BindOutcome]], None]:
        """Bind pods, and yield the outcomes as they come, by index. Nothing begins once the tenure is over."""
        ...
