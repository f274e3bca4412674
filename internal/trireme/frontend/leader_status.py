"""The leader as this frontend knows it: the term that calls to phases carry, and what `trireme status` shows.

Tests: tests/unit/frontend/test_scheduler_status.py.
"""

from trireme.frontend.term import Term
from trireme.v1 import cycle_pb2


class LeaderStatus:
    """Written by the election and at the start of a term; everything else reads it."""

    def __init__(self, lease: str) -> None:
        """`lease` is the Lease that leaders hold, as namespace/name."""
        self.lease = lease
        #: The identity that held the Lease when the election last read it; empty: nobody, or there is no election.
        self.holder = ""
        #: Our own term while we lead.
        self.term: Term | None = None
        #: Why we wait, before anything is scheduled, for what an earlier leader wrote: the last error by collection.
        self.catching_up: dict[str, str] = {}
        #: Why we schedule without some of that: the refusals by collection, until it is known.
        self.given_up: dict[str, str] = {}

    @property
    def leading(self) -> bool:
        """Whether we lead."""
        return self.term is not None

    def observe_holder(self, holder: str) -> None:
        """Remember who holds the Lease now, for status."""
        self.holder = holder

    def begin(self, term: Term) -> None:
        """Remember our term: we lead from now on."""
        self.term = term

    def fence(self) -> cycle_pb2.Fence:
        """What each call carries; empty while we do not lead."""
        return cycle_pb2.Fence() if self.term is None else self.term.fence()
