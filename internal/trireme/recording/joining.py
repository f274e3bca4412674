"""Joins segments, one after the other, to one sequence of frames that begins with a full state.

Between segments with nothing missing between them the later one's full state says nothing new, and is left out. At a
gap, a frame that says so precedes it.

Tests: tests/unit/recording/test_followed_folder.py.
"""

from collections.abc import Sequence

from trireme.recording import verification
from trireme.v1 import recording_pb2, snapshot_pb2


class SegmentJoin:
    """Takes the frames of segments in order; `begin` each segment first, and `end` it."""

    def __init__(self) -> None:
        #: That of the first segment with a full state; None: none so far.
        self.header: recording_pb2.RecordingHeader | None = None
        self.gaps = 0
        self._segment = recording_pb2.RecordingHeader()
        # Whether the frames of the segment fit behind those before them: they do at once, or from its full state on.
        self._readable = self._continues = False
        self._state: list[recording_pb2.RecordedFrame] = []
        self._before: verification.ReadSegment | None = None

    def begin(self, header: recording_pb2.RecordingHeader) -> None:
        """The frames of this segment follow."""
        self._segment = header
        self._readable = self._continues = verification.follows(header, self._before)
        # Until it is read to its end, the segment after it begins with a gap.
        self._before = None
        self._state = []

    def take(self, frame: recording_pb2.RecordedFrame) -> Sequence[recording_pb2.RecordedFrame]:
        """The frames that the segment's next one adds."""
        if frame.state_part and not self._continues:
            self._state.append(frame)
            if frame.state_part != recording_pb2.STATE_PART_LAST:
                return ()
            self._readable, state, self._state = True, self._state, []
            return [*self._frames_of_gap(), *state]
        if not self._readable or frame.state_part or frame.WhichOneof("content") == "end":
            return ()
        return (frame,)

    def end(self, *, complete: bool) -> None:
        """The segment has no more frames; `complete`: its last one says so."""
        if self._readable:
            self._before = verification.ReadSegment(self._segment, complete)

    def _frames_of_gap(self) -> Sequence[recording_pb2.RecordedFrame]:
        """What precedes a full state: nothing at first, later that messages are missing, and the configuration."""
        header = self._segment
        if self.header is None:
            self.header = header
            return ()
        self.gaps += 1
        gap = recording_pb2.RecordingGap(dropped_messages=header.dropped_messages)
        configured = recording_pb2.RecordedFrame(
            unix_time_ns=header.start_unix_ns,
            state_part=recording_pb2.STATE_PART_MORE,
            message=snapshot_pb2.SyncRequest(hello=header.hello),
        )
        return recording_pb2.RecordedFrame(unix_time_ns=header.start_unix_ns, gap=gap), configured
