"""The age of a stream's contents: since it broke, or since its other end, which sends regularly, is silent.

Tests: tests/unit/insight/test_service.py.
"""

import time
from collections.abc import Callable

# A frontend sends its status to insight once a second. A connection whose other end froze looks alive for a minute.
SILENT_SECONDS = 5.0


class StreamAge:
    """The age of the last stream's contents.

    Subclasses: trireme.insight.recorded_insight._Silence.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._received_at = 0.0
        # Since when there is no stream, as there was one before.
        self._broken_at: float | None = None
        self._is_regular = False

    @property
    def seconds(self) -> float:
        """For how long nothing has come; 0 while the stream is alive, or if there never was one.

        Where nothing comes regularly a silent stream counts as alive.
        """
        if self._is_regular:
            silent = self._clock() - self._received_at
            return silent if self._broken_at is not None or silent > SILENT_SECONDS else 0.0
        return 0.0 if self._broken_at is None else self._clock() - self._broken_at

    def begin(self) -> None:
        """Another stream begins."""
        self._broken_at, self._is_regular = None, False

    def receive(self, *, is_regular: bool) -> None:
        """A message has come; `is_regular`: it is one of those that come once a second."""
        self._received_at = self._clock()
        self._is_regular = self._is_regular or is_regular

    def end(self) -> None:
        """The stream has ended."""
        self._broken_at = self._clock()
