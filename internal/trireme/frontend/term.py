"""One term of leadership: its facts while it lasts, and how calls carry it to phases.

Tests: tests/contract/test_frontend_elector.py, tests/unit/frontend/test_start_order.py.
"""

import dataclasses
from collections.abc import Callable

from trireme.v1 import cycle_pb2
from trireme_kube.client.events import event_series


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One term of leadership. `remaining_seconds` returns how long nobody else can have acquired the Lease."""

    epoch: int
    holder: str
    remaining_seconds: Callable[[], float]
    # Whether no other process can have written what our informers have not shown yet.
    sole_writer: bool = False
    # For how long after the term's beginning an unreachable replica may work for an earlier leader.
    predecessor_seconds: float = 15.0
    # The Lease that we hold; None without leader election.
    lease: event_series.ObjectReference | None = None
    # The scope of the epoch: the Lease's UID, or the cluster and the scheduler in it.
    scheduler_id: str = ""

    def fence(self) -> cycle_pb2.Fence:
        """The fence that each call carries, so that phases obey the current leader."""
        valid_ms = min(int(self.remaining_seconds() * 1000), 0xFFFF_FFFF)
        return cycle_pb2.Fence(
            epoch=self.epoch,
            lease_valid_ms=valid_ms,
            holder_identity=self.holder,
            scheduler_id=self.scheduler_id,
        )
