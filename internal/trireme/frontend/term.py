"""One term of leadership: what is known of it while it lasts, and how it is told to phases."""

import dataclasses
from collections.abc import Callable

from trireme.v1 import cycle_pb2
from trireme_kube.client import event_series


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One term of leadership. `seconds_left` is how long nobody else can have acquired the Lease."""

    epoch: int
    holder: str
    seconds_left: Callable[[], float]
    # Nobody else can have written what our informers have not shown yet.
    sole_writer: bool = False
    # For how long after its beginning a replica that cannot be reached may work for an earlier leader.
    predecessor_seconds: float = 15.0
    # The Lease that we hold; None without leader election.
    lease: event_series.ObjectReference | None = None
    # What the epoch is one of: the Lease's UID, or the cluster and the scheduler in it.
    scheduler_id: str = ""

    def fence(self) -> cycle_pb2.Fence:
        """What each call carries, so that phases obey whoever leads now."""
        valid_ms = min(int(self.seconds_left() * 1000), 0xFFFF_FFFF)
        return cycle_pb2.Fence(
            epoch=self.epoch,
            lease_valid_ms=valid_ms,
            holder_identity=self.holder,
            scheduler_id=self.scheduler_id,
        )
