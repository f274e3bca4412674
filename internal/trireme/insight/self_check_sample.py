"""A sample of the stream for the self-check: a full state, and the messages behind it, as a recording has them.

Also change: docs/recording.md.

Tests: tests/unit/insight/test_self_check.py.
"""

import dataclasses
import pathlib
import re
import time
from collections.abc import Callable, Iterator, Sequence

from trireme.framework import release
from trireme.insight import captured_state
from trireme.recording import applied_configuration, private_files, segment_format
from trireme.replay import decision_replay
from trireme.v1 import recording_pb2

#: So many saved samples stay; the oldest are deleted.
MAX_SAVED = 5
#: The processor time after which no more decisions of a sample are made again. That of the state comes first.
DECISION_SECONDS = 0.5

_NAME = re.compile(r"difference-\d{8}T\d{6}Z-\d+\.trireme", re.ASCII)


@dataclasses.dataclass(slots=True)
class Sample:
    """What is decided again. `instance` is that of the recordings."""

    instance: str
    state: captured_state.CapturedState
    #: Frames, serialised.
    messages: list[bytes] = dataclasses.field(default_factory=list)
    decisions: int = 0
    size: int = 0

    def add(self, time_ns: int, request: bytes, decisions: int) -> None:
        """Add a serialised message that was received at that time, with so many decisions."""
        self.messages.append(segment_format.message_frame(time_ns, request))
        self.decisions += decisions
        self.size += len(request)

    @property
    def header(self) -> recording_pb2.RecordingHeader:
        """That of a recording which begins with the state."""
        return recording_pb2.RecordingHeader(
            instance=self.instance,
            start_unix_ns=self.state.time_ns,
            release=release.TRIREME,
            hello=self.state.hello,
        )

    def state_frames(self) -> Iterator[bytes]:
        """The frames of the state, serialised, as recordings have them."""
        for frame in captured_state.frames(self.state):
            yield applied_configuration.left_out(frame.SerializeToString())

    def message_frames(self) -> Iterator[bytes]:
        """The frames behind them."""
        return map(applied_configuration.left_out, self.messages)


async def decide_again(
    sample: Sample, is_stopping: Callable[[], bool], cpu: Callable[[], float]
) -> tuple[int, Sequence[decision_replay.Difference]]:
    """Make the sample's decisions again, as `trireme replay` does, within DECISION_SECONDS. Waits for nothing.

    Returns how many were made, and those that differ. Raises: ValueError: something in it cannot be used.
    """

    def frames() -> Iterator[recording_pb2.RecordedFrame]:
        for content in sample.state_frames():
            if is_stopping():
                return
            yield recording_pb2.RecordedFrame.FromString(content)
        deadline = cpu() + DECISION_SECONDS
        for content in sample.message_frames():
            if is_stopping() or cpu() > deadline:
                return
            yield recording_pb2.RecordedFrame.FromString(content)

    replay = decision_replay.DecisionReplay(sample.header)
    differences = [each async for each in replay.replay(frames())]
    return replay.counts.same + replay.counts.different, differences


def save(sample: Sample, folder: pathlib.Path, difference: decision_replay.Difference) -> pathlib.Path:
    """Write the sample as a recording for `trireme replay`, and delete the oldest beyond MAX_SAVED. Raises: OSError."""
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(difference.time_ns / 1e9))
    path = folder / f"difference-{at}-{difference.number}.trireme"
    content = segment_format.encode_header(sample.header)
    encoder = segment_format.FrameEncoder(content)
    end = recording_pb2.RecordedFrame(unix_time_ns=difference.time_ns, end=recording_pb2.RecordingEnd())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    try:
        with private_files.create(path, buffered=True) as file:
            file.write(content)
            for frame in (*sample.state_frames(), *sample.message_frames(), end.SerializeToString()):
                file.write(encoder.encode(frame))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    for old in sorted(each for each in folder.iterdir() if _NAME.fullmatch(each.name))[:-MAX_SAVED]:
        old.unlink(missing_ok=True)
    return path
