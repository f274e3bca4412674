"""A pod between its placement and its binding: it is assumed on a node, and the binding cycle has it.

Tests: tests/unit/scheduling/test_attempt.py.
"""

import dataclasses

from trireme.queueing import queued_pod
from trireme.scheduling import item_batches
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod that is assumed on a node, with what Reserve left for PreBind, and how long each step took."""

    pod: queued_pod.QueuedPodInfo
    node_name: str
    slot: int
    reserved: bool = False
    pre_bind: bool = False
    state: bytes = b""  # what Reserve gave for PreBind
    prepared: bool = False  # PreBind may have written objects
    permit_seconds: float = 0.0  # waited on Permit
    pre_bind_seconds: float = 0.0  # PreBindPreFlight and PreBind
    node_counts: tuple[int, int] = (0, 0)  # number of nodes, and of feasible ones, for the log

    @property
    def item(self) -> bind_pb2.BindItem:
        """The pod, its node and the state that Reserve left, as requests to bind name it."""
        return bind_pb2.BindItem(pod=self._pod_identity, node_name=self.node_name, state=self.state)

    @property
    def rank(self) -> item_batches.Rank:
        """The order in which pods wait for a call of PreBind: those of the highest priority first."""
        return -self.pod.record.priority, 0

    @property
    def placement(self) -> filter_pb2.Placement:
        """The pod and its slot, as requests to filter (Reserve, Unreserve) name it."""
        return filter_pb2.Placement(pod=self._pod_identity, node_name=self.node_name, slot=self.slot)

    @property
    def _pod_identity(self) -> cycle_pb2.PodIdentity:
        parsed = self.pod.record.pod.parsed
        return cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid)
