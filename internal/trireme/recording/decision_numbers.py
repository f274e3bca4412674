"""The numbers of recorded decisions, which tell how many are missing.

A leader numbers the decisions of its streams on, also while nothing is recorded. So those that fell into a gap are
counted as well, unless another leader follows behind the gap, or insight did not run meanwhile: a leader numbers
decisions only while somebody takes them.
"""

from google.protobuf import message as protobuf

from trireme.v1 import cycle_pb2, decision_pb2, recording_pb2

_REPORTS = ("placed", "bound")


def is_report(decision: decision_pb2.Decision) -> bool:
    """Whether it only reports what became of decisions: no call was made, and nothing is decided again."""
    return decision.WhichOneof("decision") in _REPORTS


def decoded(content: bytes) -> decision_pb2.Decision:
    """The decision. Raises: ValueError."""
    try:
        return decision_pb2.Decision.FromString(content)
    except protobuf.DecodeError as error:
        raise ValueError("a decision cannot be decoded") from error


class DecisionNumbers:
    """Follows the numbers of one recording: each decision has one more than the decision before it of that leader."""

    def __init__(self, fence: cycle_pb2.Fence | None = None) -> None:
        """`fence` is that of the leader at the beginning."""
        self.missing = 0
        """How many numbers were left out so far."""
        self._leader = _identity(fence or cycle_pb2.Fence())
        self._last: int | None = None
        # Gaps behind the last decision: it is not known yet how many decisions were in them.
        self._open_gaps = 0
        self._uncounted_gaps = 0
        # Whether insight ran all through the gaps behind the last decision.
        self._counts_on = True

    @property
    def uncounted_gaps(self) -> int:
        """In how many gaps more decisions may be missing than are counted."""
        return self._uncounted_gaps + self._open_gaps

    def take(self, frame: recording_pb2.RecordedFrame) -> list[decision_pb2.Decision]:
        """Take the next frame; returns its decisions. Raises: ValueError: one cannot be decoded."""
        content, found = frame.WhichOneof("content"), []
        if content == "gap":
            self.begin_gap(frame.gap.dropped_messages)
        elif content == "message":
            if frame.message.WhichOneof("message") == "hello":
                self.begin_stream(frame.message.hello.fence)
            for decision in frame.message.decisions:
                found.append(decoded(decision))
                self.add(found[-1].number)
        return found

    def begin_gap(self, dropped_messages: int) -> None:
        """Messages are missing; 0: not known how many, for insight did not run meanwhile."""
        self._open_gaps += 1
        self._counts_on &= dropped_messages > 0

    def begin_stream(self, fence: cycle_pb2.Fence) -> None:
        """A stream of this leader begins, or goes on behind a gap; the first number of another leader may be any."""
        leader = _identity(fence)
        if leader != self._leader:
            self._leader, self._last = leader, None
            self._close_gaps(are_counted=False)

    def add(self, number: int) -> None:
        """The next decision has this number."""
        is_next = self._last is not None and number > self._last
        if self._last is not None and is_next:
            self.missing += number - self._last - 1
        self._close_gaps(are_counted=is_next and self._counts_on)
        self._last = number

    def _close_gaps(self, *, are_counted: bool) -> None:
        """What was missing in the gaps behind the last decision is counted, or never will be."""
        if not are_counted:
            self._uncounted_gaps += self._open_gaps
        self._open_gaps, self._counts_on = 0, True


def _identity(fence: cycle_pb2.Fence) -> tuple[str, int]:
    return fence.scheduler_id, fence.epoch


def missing_text(missing: int, uncounted_gaps: int) -> str:
    """How many decisions are missing, as text."""
    if not uncounted_gaps:
        return f"{missing} missing"
    gaps = "1 gap" if uncounted_gaps == 1 else f"{uncounted_gaps} gaps"
    return f"at least {missing} missing: how many were in {gaps} is not known"
