"""Totals over the frames of a recording.

Tests: tests/unit/recording/test_segment_folder.py.
"""

from dataclasses import dataclass

from trireme.v1 import recording_pb2


@dataclass(slots=True)
class FrameTotals:
    """How many frames there are, their size in a file, and from when to when they reach.

    Units: times in nanoseconds since 1970, 0 where there is nothing; size in bytes.
    """

    frames: int = 0
    size: int = 0
    begin_ns: int = 0
    end_ns: int = 0

    def add(self, frame: recording_pb2.RecordedFrame) -> None:
        """Count a frame. The clock may have been set back between two."""
        self.frames += 1
        self.begin_ns = min(self.begin_ns or frame.unix_time_ns, frame.unix_time_ns)
        self.end_ns = max(self.end_ns, frame.unix_time_ns)
