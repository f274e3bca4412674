"""The numbers of recorded decisions, which tell how many are missing."""

from trireme.v1 import decision_pb2

_REPORTS = ("placed", "bound")


def is_report(decision: decision_pb2.Decision) -> bool:
    """Whether it only reports what became of decisions: no call was made, and nothing is decided again."""
    return decision.WhichOneof("decision") in _REPORTS


class DecisionNumbers:
    """Follows the numbers of one recording: each decision has one more than the decision before it."""

    def __init__(self) -> None:
        self.missing = 0
        """How many numbers were left out so far."""
        self._last: int | None = None

    def restart(self) -> None:
        """A stream begins, or frames are missing: the next number may be any."""
        self._last = None

    def add(self, number: int) -> None:
        """The next decision has this number; one that is not greater is another frontend's."""
        if self._last is not None and number > self._last:
            self.missing += number - self._last - 1
        self._last = number
