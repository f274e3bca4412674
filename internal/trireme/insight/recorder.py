"""Records what insight receives on its stream, in a thread of its own; no failure of a recording stops insight.

The event loop serialises each message and puts it into a buffer of bounded size; the thread compresses and writes. When
the buffer is full, or writing fails, messages are dropped and counted until a new segment can begin with a full state.
"""

import asyncio
import collections
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from trireme.framework import release
from trireme.insight import captured_state, observed_cluster
from trireme.insight.console import console_state
from trireme.recording import applied_configuration, segment_format, segment_writer
from trireme.v1 import recording_pb2, snapshot_pb2
from trireme_kube.componentbase import clocks, supervision

log = logging.getLogger(__name__)

# Messages that wait for the thread may take so much memory.
BUFFER_BYTES = 64 << 20
# How often the thread has the machine write to its disk; a crash of the machine loses no more.
SYNC_SECONDS = 5.0
# How often time alone is checked: ages, and whether to try again.
_TICK_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 60.0
# How long the end of the process waits for the thread.
_JOIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """What was recorded and what was not.

    Subclasses: trireme.insight.service_statistics.ServiceStatistics.
    """

    recording: int = field(metadata={"help": "Whether the messages of the frontend are being recorded."})
    recorded_messages: int = field(metadata={"help": "Messages of the frontend recorded.", "total": True})
    recorded_bytes: int = field(metadata={"help": "Bytes written to recordings.", "total": True})
    dropped_messages: int = field(
        metadata={"help": "Messages of the frontend that are missing in recordings.", "total": True}
    )
    recording_failures: int = field(metadata={"help": "Times that recording failed.", "total": True})
    recordings_size_bytes: int = field(metadata={"help": "Size of the recordings in the folder, in bytes."})


# Where nothing is recorded.
NOTHING = RecorderStatistics(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Message:
    """A message received. Units: time in nanoseconds since 1970."""

    time_ns: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _State:
    """The state with which a segment begins."""

    captured: captured_state.CapturedState
    #: Whether the message before it was recorded, and how many were dropped on the event loop so far.
    continuous: bool
    dropped: int


class Recorder:
    """Records one cluster. `record` and `tick` are for the event loop; the thread runs within `running`."""

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        writer: segment_writer.RecordingWriter,
        instance: str,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        now_ns: Callable[[], int] = clocks.wall_ns,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instance` identifies this run of insight."""
        self._cluster = cluster
        self._writer = writer
        self._instance = instance
        self._buffer_bytes = buffer_bytes
        self._now_ns = now_ns
        self._steady = steady
        # The event loop's: the last hello; whether the last message was put into the buffer; what was dropped.
        self._hello: snapshot_pb2.Hello | None = None
        self._recording = self._began = False
        self._dropped = 0
        # Of both, under the condition's lock.
        self._condition = threading.Condition()
        self._items: collections.deque[_Message | _State] = collections.deque()
        self._buffered = 0
        self._state_pending = self._due = self._failed = self._stopping = False
        self._retry_at = 0.0
        # The thread's.
        self._writing = False
        self._lost = self._reported = self._recorded = self._bytes = self._failures = self._size = 0
        self._delay = _RETRY_SECONDS
        self._synced_at = 0.0
        #: Since when recording fails, and why; None while it does not. Replaced as a whole by the thread.
        self.failure: console_state.RecordingFailure | None = None

    def statistics(self) -> RecorderStatistics:
        """What was recorded so far."""
        return RecorderStatistics(
            recording=int(self._writing and self._recording),
            recorded_messages=self._recorded,
            recorded_bytes=self._bytes,
            dropped_messages=self._dropped + self._lost,
            recording_failures=self._failures,
            recordings_size_bytes=self._size,
        )

    # On the event loop

    def record(self, request: snapshot_pb2.SyncRequest) -> None:
        """Record a message that was applied to the cluster."""
        if request.WhichOneof("message") == "hello":
            self._hello = request.hello
        now_ns = self._now_ns()
        self._note_failure()
        if self._recording:
            content = request.SerializeToString()
            with self._condition:
                self._recording = self._buffered + len(content) <= self._buffer_bytes
                if self._recording:
                    self._buffered += len(content)
                    self._items.append(_Message(now_ns, content))
                    self._condition.notify()
        if self._began and not self._recording:
            self._dropped += 1
        self.tick()

    def tick(self) -> None:
        """Begin a segment if that is due, and again after a failure or a full buffer, if there is a full state."""
        self._note_failure()
        # Read without the lock, which this is to spare each message: what has just become due is so at the next one.
        if (self._recording and not self._due) or self._hello is None or not self._cluster.synced:
            return
        with self._condition:
            if self._state_pending or (self._recording and not self._due):
                return
            if not self._recording and (self._steady() < self._retry_at or self._buffered > self._buffer_bytes // 2):
                return
        state = self._capture_state(self._hello)
        self._recording = self._began = True
        with self._condition:
            self._state_pending, self._due = True, False
            self._items.append(state)
            self._condition.notify()

    @contextlib.asynccontextmanager
    async def running(self, supervisor: supervision.Supervisor) -> AsyncIterator[None]:
        """Write what is recorded; at the end, what is in the buffer, and the end of the segment."""
        thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        thread.start()
        ticking = supervisor.keep("recording", self._tick_forever)
        try:
            yield
        finally:
            await supervisor.stop(ticking)
            with self._condition:
                self._stopping = True
                self._condition.notify()
            await asyncio.to_thread(thread.join, _JOIN_SECONDS)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.tick()

    def _note_failure(self) -> None:
        """Notice that the thread no longer writes: what comes from now on is dropped."""
        if self._failed:
            with self._condition:
                self._failed = self._recording = False

    def _capture_state(self, hello: snapshot_pb2.Hello) -> _State:
        """The cluster as it is now; later deltas do not change it."""
        captured = captured_state.capture(self._cluster, hello, self._now_ns())
        return _State(captured, self._recording, self._dropped)

    # In the thread

    def _run(self) -> None:
        """Write what is in the buffer, until the process stops."""
        stopping = False
        while not stopping:
            with self._condition:
                if not self._items and not self._stopping:
                    self._condition.wait(_TICK_SECONDS)
                stopping = self._stopping
            self.write_buffer()
        try:
            self._writer.end(self._now_ns())
        except OSError as error:
            log.warning("the recording has no end: %s; what is in it stays readable", error)
        self._writer.release()

    def write_buffer(self) -> None:
        """Write what is in the buffer. Every failure ends the segment and is logged and counted."""
        while True:
            with self._condition:
                if not self._items:
                    break
                item = self._items.popleft()
            try:
                self._write(item)
            except Exception as error:  # insight goes on whatever happens to its recording
                self._lost += isinstance(item, _Message)
                self._note_error(error)
            with self._condition:
                if isinstance(item, _Message):
                    self._buffered -= len(item.content)
                else:
                    # Whether the next segment is due was about the one before.
                    self._state_pending = self._due = False
        try:
            self._maintain()
        except Exception as error:
            self._note_error(error)

    def _write(self, item: _Message | _State) -> None:
        """Write a message to the segment, or begin the next one. Raises: OSError and the writer's errors."""
        if isinstance(item, _State):
            self._begin(item)
        elif self._writing:
            frame = segment_format.message_frame(item.time_ns, item.content)
            self._bytes += self._writer.append(applied_configuration.left_out(frame))
            self._recorded += 1
        else:
            self._lost += 1

    def _begin(self, state: _State) -> None:
        """Begin a segment with a full state. Raises: OSError and the writer's errors."""
        dropped = state.dropped + self._lost - self._reported
        header = recording_pb2.RecordingHeader(
            instance=self._instance,
            start_unix_ns=state.captured.time_ns,
            release=release.TRIREME,
            hello=state.captured.hello,
            continuous=self._writing and state.continuous and not dropped,
            dropped_messages=dropped,
        )
        self._writing = False
        self._writer.begin(header)
        for frame in captured_state.frames(state.captured):
            last = frame.state_part == recording_pb2.STATE_PART_LAST
            content = applied_configuration.left_out(frame.SerializeToString())
            self._bytes += self._writer.append(content, completes_state=last)
        self._reported += dropped
        self._writing = True
        if self._delay > _RETRY_SECONDS:
            log.info("recording goes on after %d messages that are not recorded", dropped)
        self._delay = _RETRY_SECONDS
        self.failure = None
        with self._condition:
            self._failed = False

    def _maintain(self) -> None:
        """Delete what is too old, sync the file, and notice whether the next segment is due. Raises: OSError."""
        now_ns = self._now_ns()
        self._writer.delete_expired(now_ns)
        if self._steady() - self._synced_at >= SYNC_SECONDS:
            self._synced_at = self._steady()
            self._writer.sync()
        self._size = self._writer.total_bytes
        with self._condition:
            if self._writing and not self._writer.active:
                # The frontend has been gone for so long that the segment was deleted.
                self._writing, self._failed = False, True
            self._due = self._writer.is_due(now_ns)

    def _note_error(self, error: Exception) -> None:
        """Log and count a failure; a new segment is begun later."""
        self._writing = False
        self._failures += 1
        since_ms = self._now_ns() // 1_000_000 if self.failure is None else self.failure.since_ms
        self.failure = console_state.RecordingFailure(since_ms, str(error))
        self._writer.abandon()
        expected = isinstance(error, (OSError, segment_writer.RecordingFullError, segment_writer.FolderInUseError))
        log.error(
            "recording in %s fails: %s; it is tried again in %d s",
            self._writer.folder,
            error,
            self._delay,
            exc_info=None if expected else error,
        )
        with self._condition:
            self._failed = True
            self._retry_at = self._steady() + self._delay
        self._delay = min(2 * self._delay, _LONGEST_RETRY_SECONDS)
