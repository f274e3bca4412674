"""One filter or score replica as the frontend sees it: a channel, a snapshot stream, and how far it has come.

Deltas are queued for each replica by itself and written by a task of its own, so a replica that does not read delays
nobody. Where it falls too far behind, the stream is given up and opened again with a full sync, as after any failure.

Also change: internal/trireme/remote/remote_endpoint.py, internal/trireme/rpc/grpc_server.py,
internal/trireme/rpc/message_sizes.py, internal/trireme/sdk/plugin_server.py (gRPC options of both sides).
Also change: internal/trireme/plugin_verification/followed_cluster.py, internal/trireme/remote/plugin_control.py,
internal/trireme/rpc/follower.py (the stream of deltas).
Also change: protos/trireme/v1/snapshot.proto (the service).

Tests: tests/unit/frontend/test_replica_link.py, tests/unit/frontend/test_new_streams.py,
tests/unit/frontend/test_acknowledgements.py.
"""

import asyncio
import collections
import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from grpc import aio

from trireme.frontend.phase_clients import class_answers
from trireme.rpc import dialing, message_sizes
from trireme.v1 import scheduler_status_pb2, snapshot_pb2
from trireme_kube.componentbase.logs import failure_log

log = logging.getLogger(__name__)

Stub = TypeVar("Stub")

# Deltas that may wait for one replica: so many bytes, or as many as its full sync had; a full sync is cheaper then.
MAX_BACKLOG_BYTES = 8 << 20
# A replica that acknowledges nothing for so long, though there is something, is out of step.
SILENCE_SECONDS = 3.0
# How long a replica may take to receive a full sync, and then to apply it.
FULL_SYNC_SECONDS = 60.0
# A replica that has so much left to read is sent no decisions with it.
MAX_BACKLOG_FOR_DECISIONS = 1 << 20
RECONNECT_SECONDS = 0.2
MAX_RECONNECT_SECONDS = 5.0
# Least time between two looks at whether a replica acknowledges what it is sent.
CHECK_SECONDS = 0.1
# Of how many classes, those used last, it is known which capacities a replica has; of another one it gets all of them.
MAX_CAPACITIES = class_answers.MAX_CLASSES

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", message_sizes.MAX_PHASE_BYTES),
    ("grpc.max_send_message_length", message_sizes.MAX_PHASE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # In spite of its name: how long one attempt to connect may take, TLS included, however busy the other end is.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_retries", 0),
]

_stream_numbers = itertools.count(1)

_REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT.name, grpc.StatusCode.FAILED_PRECONDITION.name)

_SYNC = "/trireme.v1.SnapshotFollower/Sync"


class StreamSource(Protocol):
    """Where a stream begins.

    Implementers: trireme.frontend.phase_clients.plugin_streams.PluginStreams,
    trireme.frontend.phase_clients.snapshot_publisher.SnapshotPublisher.
    """

    def hello(self) -> snapshot_pb2.Hello:
        """The first message."""
        ...

    def full_sync(self) -> Sequence[bytes]:
        """All of the cluster as one or more serialised SyncRequests, at the generation of the last delta published."""
        ...


class AcknowledgementError(Exception):
    """A replica acknowledged what it was not sent: its generations say nothing."""


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """The state of one link and what it did."""

    address: str
    in_step: bool
    acknowledged: int  # generation
    backlog_bytes: int
    sent_bytes: int  # of deltas, full syncs left out
    full_syncs: int
    last_error: str  # why it is not in step; empty: it is
    dropped_decisions: int  # messages whose decisions were left out
    self_check: scheduler_status_pb2.SelfCheck | None = None  # of insight, as it last acknowledged


class ReplicaLink:
    """The link to one replica that follows the snapshot: its channel, its stream of deltas, and how far it has got.

    `run` keeps the stream up until it is cancelled.
    """

    def __init__(
        self,
        address: str,
        source: StreamSource,
        dialer: dialing.Dialer,
        clock: Callable[[], float],
        changed: Callable[[], None],
        *,
        takes_decisions: bool = False,
    ) -> None:
        """`takes_decisions`: what is assumed of the replica before it acknowledges anything."""
        self.address = address
        self._connection = dialer.open(address, CHANNEL_OPTIONS)
        self._source = source
        self._clock = clock
        self._changed = changed
        self._pending: collections.deque[_Request] = collections.deque()
        self._pending_bytes = 0
        # The part of these that are full syncs on a stream that went on.
        self._pending_sync_bytes = 0
        self._wake = asyncio.Event()
        self._streaming = False
        self._synced = False
        # The configuration changed since the stream began.
        self._restarting = asyncio.Event()
        self._acknowledged = 0
        self._published = 0
        self._sent = 0  # generation
        self._full_sync_generation: int | None = None  # of this stream's, from when its last chunk is written
        self._unheard_since = 0.0
        self._sent_bytes = 0
        self._full_syncs = 0
        self._stream_number = 0
        self._full_sync_bytes = 0  # of the last one
        self._last_error = ""
        self._dropped_decisions = 0
        self._self_check: scheduler_status_pb2.SelfCheck | None = None
        #: Whether the replica takes decisions, as its last acknowledgement said.
        self.takes_decisions = takes_decisions
        self._failures = failure_log.FailureLog(log, logging.INFO)
        #: Of calls to it.
        self.failures = failure_log.FailureLog(log)
        # Generation of the capacities that this replica has, by (profile, class), those sent last at the end: patches
        # build on them.
        self.capacities: dict[tuple[str, int], int] = {}

    def note_capacities(self, key: tuple[str, int], generation: int) -> None:
        """The replica has the capacities of this profile and class as of this generation."""
        self.capacities.pop(key, None)
        self.capacities[key] = generation
        if len(self.capacities) > MAX_CAPACITIES:
            del self.capacities[next(iter(self.capacities))]

    @property
    def channel(self) -> aio.Channel:
        """For calls; another one once the connection broke and certificates have changed."""
        return self._connection.channel

    def stub(self, make: Callable[[aio.Channel], Stub]) -> Stub:
        """The stub of a service, for calls."""
        return self._connection.channel.stub(make)

    @property
    def identity(self) -> tuple[str, int]:
        """The replica and the number of its stream, which no other stream has.

        A new stream begins with a full sync, and the replica at an address may be another one than before: what a
        replica cached under another identity is gone.
        """
        return self.address, self._stream_number

    @property
    def streaming(self) -> bool:
        """Its full sync was made: what is published goes to it."""
        return self._streaming

    @property
    def synced(self) -> bool:
        """It acknowledged the full sync of its stream, however far behind it is since."""
        return self._synced

    @property
    def in_step(self) -> bool:
        """It follows, and was heard of lately where there was something to hear."""
        # An empty cluster is at generation 0, so the generation does not tell whether there was an acknowledgement.
        return self.synced and not self._has_been_silent(SILENCE_SECONDS)

    @property
    def silent_for(self) -> float:
        """For how many seconds it is unheard while something waits for its acknowledgement; 0 where nothing does."""
        return self._clock() - self._unheard_since if self._unheard_since else 0.0

    def statistics(self) -> LinkStatistics:
        """How it stands."""
        return LinkStatistics(
            self.address,
            self.in_step,
            self._acknowledged,
            self._pending_bytes,
            self._sent_bytes,
            self._full_syncs,
            "" if self.in_step else self._problem(),
            self._dropped_decisions,
            self._self_check,
        )

    def _problem(self) -> str:
        """Why it is not in step, as far as that is known."""
        if self._last_error:
            return self._last_error
        if not self._streaming:
            return "no snapshot stream was opened to it yet"
        what = "what it was sent" if self._synced else "its full sync"
        return f"for {self.silent_for:.0f} s it has not acknowledged {what}"

    def publish(self, request: bytes, generation: int, decisions: bytes = b"") -> None:
        """Queue a serialised SyncRequest for the replica. A replica that has no stream gets it by the full sync.

        `decisions`: more fields of the request, for a replica that takes decisions and is not behind.
        """
        self._published = generation
        if not self._streaming:
            return
        if decisions and self.takes_decisions:
            if self._backlog_of_changes <= MAX_BACKLOG_FOR_DECISIONS:
                # Fields in two parts are one message: the encoding of protobuf allows for it.
                request += decisions
            else:
                self._dropped_decisions += 1
        self._append(_Request(request, generation))
        if not self._unheard_since:
            self._unheard_since = self._clock()
        self._wake.set()

    def _append(self, request: "_Request") -> None:
        """Queue a message behind those that wait."""
        self._pending.append(request)
        self._pending_bytes += len(request.content)
        if request.is_full_sync:
            self._pending_sync_bytes += len(request.content)

    @property
    def _backlog_of_changes(self) -> int:
        return self._pending_bytes - self._pending_sync_bytes

    def request_acknowledgement(self) -> None:
        """Send something that must be acknowledged, to learn whether the replica is there."""
        if not self._unheard_since:
            at = self._published
            # Marked as part of a trial, so that it does not end one.
            delta = snapshot_pb2.Delta(from_generation=at, to_generation=at, trial=True)
            self.publish(snapshot_pb2.SyncRequest(delta=delta).SerializeToString(), at)

    def restart(self) -> None:
        """Begin anew at once, because the configuration changed; the replica is out of step until it follows.

        It gets another stream, without what waits for it; but one that takes decisions gets Hello and a full sync on
        the same stream, behind what waits: the decisions in that would be lost. A replica that is called again later
        because it failed is called at once as well: it may have refused the configuration as it was.
        """
        if self.takes_decisions and self._streaming and not self._is_too_far_behind:
            self._begin_anew_on_same_stream()
            return
        self._restarting.set()
        if self._streaming:
            self._synced = False
            self._wake.set()
            self._changed()

    def _begin_anew_on_same_stream(self) -> None:
        """Queue Hello and all of the cluster as it is now behind what waits.

        An acknowledgement that is on its way counts as one of the full sync if nothing has changed since.
        """
        chunks = self._source.full_sync()
        hello = snapshot_pb2.SyncRequest(hello=self._source.hello()).SerializeToString()
        generation = _generation_of_request(chunks[-1])
        self._append(_Request(hello, self._published, is_full_sync=True))
        for chunk in chunks:
            self._append(_Request(chunk, generation, is_full_sync=True))
        log.info("%s: the configuration changed: sending it and all of the cluster", self.address)
        self._full_syncs += 1
        self._stream_number = next(_stream_numbers)
        self._full_sync_bytes = sum(map(len, chunks))
        self._full_sync_generation = self._published = generation
        self._synced = False
        self._unheard_since = self._clock()
        self.capacities.clear()
        self._wake.set()
        self._changed()

    def on_answer(self) -> None:
        """Note that it answered a call: it is alive, and what it has not acknowledged is on its way."""
        if self._unheard_since:
            was_in_step = self.in_step
            self._unheard_since = self._clock()
            self._notify_if_in_step_again(was_in_step)

    def error_text(self, error: BaseException) -> str:
        """What went wrong with the stream or a call, for people."""
        if isinstance(error, aio.AioRpcError):
            return self._connection.error_text(error)
        return str(error) or type(error).__name__

    async def run(self) -> None:
        """Keep the stream up until cancelled: whenever it ends, for whatever reason, open it again with a full sync.

        The delay doubles while streams end soon after they began. A stream that ends because the configuration changed
        is opened again at once.
        """
        delay = RECONNECT_SECONDS
        while True:
            started = self._clock()
            self._restarting.clear()
            try:
                await self._feed_follower()
            except (aio.AioRpcError, asyncio.InvalidStateError, TimeoutError, OSError) as error:
                self._last_error = self.error_text(error)
                kind = error.code().name if isinstance(error, aio.AioRpcError) else type(error).__name__
                # What it refuses it refuses until somebody changes it; others come and go with each rollout.
                level = logging.WARNING if kind in _REFUSALS else None
                self._failures.log_failure(
                    kind, f"{self.address}: the snapshot stream ended, and is opened again: {self._last_error}", level
                )
            except AcknowledgementError as error:
                self._last_error = str(error)
                self._failures.log_failure("acknowledgement", f"{self.address}: {error}", logging.ERROR)
            else:
                if self._restarting.is_set():
                    self._last_error = "the configuration changed"
                    log.info("%s: the configuration changed: opening another snapshot stream", self.address)
                    delay = RECONNECT_SECONDS
                    continue
                self._last_error = "it closed the snapshot stream"
                self._failures.log_failure(
                    "closed", f"{self.address}: the replica closed the snapshot stream; it is opened again"
                )
            finally:
                self._forget_stream_state()
            if self._clock() - started > MAX_RECONNECT_SECONDS:
                delay = RECONNECT_SECONDS
            delay = RECONNECT_SECONDS if await self._restarted_within(delay) else min(delay * 2, MAX_RECONNECT_SECONDS)
            self._connection.renew()

    async def _restarted_within(self, seconds: float) -> bool:
        """Wait so long, or until the configuration changes; return whether it did."""
        try:
            async with asyncio.timeout(seconds):
                await self._restarting.wait()
        except TimeoutError:
            return False
        return True

    async def drain(self) -> None:
        """Refuse new calls, and return once those under way have ended or reached their deadlines."""
        await self._connection.drain()

    async def close(self) -> None:
        """Close the channel."""
        await self._connection.close()

    def _notify_if_in_step_again(self, was_in_step: bool) -> None:
        """Notify callers that wait for a replica if this one is in step again.

        A silent replica falls out of step by time alone, without a notification.
        """
        if self.in_step and not was_in_step:
            self._changed()

    def _has_been_silent(self, seconds: float) -> bool:
        """Whether it has been unheard for longer than this, while something waits for its acknowledgement."""
        return self.silent_for > seconds  # which is 0 where nothing waits

    def _forget_stream_state(self) -> None:
        """Reset everything known of a stream that has ended."""
        was = self._streaming
        self._streaming = self._synced = False
        self._acknowledged = 0
        self._full_sync_generation = None
        self._pending.clear()
        self._pending_bytes = self._pending_sync_bytes = 0
        self._unheard_since = 0.0
        self.capacities.clear()
        if was:
            self._changed()

    async def _feed_follower(self) -> None:
        """Write the cluster and then its changes to the follower, until the stream is to be opened anew or ends."""
        call: Any = self._connection.channel.stream_stream(
            _SYNC, request_serializer=_already_serialized, response_deserializer=snapshot_pb2.SyncResponse.FromString
        )(None)
        reader = asyncio.create_task(self._read_acknowledgements(call))
        try:
            await self._write_full_sync(call)
            while True:
                await self._wait_for_work()
                self._wake.clear()
                while self._pending and not (self._restarting.is_set() or reader.done()):
                    request = self._pending.popleft()
                    self._sent = request.generation
                    await self._write_delta(call, request.content, reader)
                    self._pending_bytes -= len(request.content)
                    if request.is_full_sync:
                        self._pending_sync_bytes -= len(request.content)
                    else:
                        self._sent_bytes += len(request.content)
                if self._restarting.is_set():
                    return
                if reader.done():
                    await reader
                    return
        except asyncio.InvalidStateError:
            # The stream ended before a write: why is known to the reader alone, at once or a moment later.
            await asyncio.wait({reader}, timeout=CHECK_SECONDS)
            if reader.done() and not reader.cancelled():
                await reader
            raise
        finally:
            call.cancel()
            reader.cancel()
            # Unlike `await reader` this is cancelled only where this task is, and not because the reader was.
            await asyncio.wait({reader})
            if not reader.cancelled():
                reader.exception()  # it is known by now, or of no interest any more

    async def _wait_for_work(self) -> None:
        """Return once there is something to do.

        Raises: TimeoutError if meanwhile the replica does not acknowledge what it was sent. A replica that has
        acknowledged everything is not checked.
        """
        while not self._wake.is_set():
            self._raise_if_too_far_behind()
            left = (
                max(self._tolerated_silence_seconds - self.silent_for, CHECK_SECONDS) if self._unheard_since else None
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()

    async def _write_full_sync(self, call: Any) -> None:
        """Write Hello and the whole cluster as it is now; what changes meanwhile is queued behind it."""
        hello = snapshot_pb2.SyncRequest(hello=self._source.hello()).SerializeToString()
        chunks = self._source.full_sync()
        self._streaming = True
        self._unheard_since = self._clock()
        self._full_syncs += 1
        self._stream_number = next(_stream_numbers)
        self._full_sync_bytes = sum(map(len, chunks))
        # What was published since the full sync was made follows it, so the two may differ.
        generation, self._sent = _generation_of_request(chunks[0]), _generation_of_request(chunks[-1])
        self._published = self._sent
        async with asyncio.timeout(FULL_SYNC_SECONDS):
            await call.write(hello)
            for number, chunk in enumerate(chunks, 1):
                if self._restarting.is_set():
                    return
                if number == len(chunks):
                    # The acknowledgement may come before the call that writes the last chunk returns.
                    self._full_sync_generation = generation
                await call.write(chunk)
        if not self._synced:
            self._unheard_since = self._clock()

    async def _write_delta(self, call: Any, request: bytes, reader: asyncio.Task[None]) -> None:
        """Write a delta; returns early if the stream is to be opened anew.

        Raises:
            OSError: the replica closed the stream.
            TimeoutError: the replica is too far behind, or silent for too long.
        """
        writing = asyncio.create_task(call.write(request))
        try:
            while not writing.done():
                await asyncio.wait({writing, reader}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                if reader.done() and not writing.done():
                    await reader
                    raise ConnectionResetError("closed by the replica")
                if self._restarting.is_set():
                    return
                self._raise_if_too_far_behind()
            await writing
        finally:
            writing.cancel()

    @property
    def _tolerated_silence_seconds(self) -> float:
        """How many seconds the replica may acknowledge nothing before it is synchronised anew; more in a full sync."""
        return SILENCE_SECONDS * 2 if self._synced else FULL_SYNC_SECONDS

    @property
    def _is_too_far_behind(self) -> bool:
        """Whether so much waits for it that a full sync is cheaper, or full syncs pile up on the same stream."""
        changes = self._backlog_of_changes > max(MAX_BACKLOG_BYTES, self._full_sync_bytes)
        return changes or self._pending_sync_bytes > max(MAX_BACKLOG_BYTES, 2 * self._full_sync_bytes)

    def _raise_if_too_far_behind(self) -> None:
        """Raise TimeoutError if the replica is too far behind or silent for too long: a full sync is cheaper then."""
        if self._is_too_far_behind or self._has_been_silent(self._tolerated_silence_seconds):
            raise TimeoutError("it does not follow; it will be synchronised anew")

    async def _read_acknowledgements(self, call: Any) -> None:
        """Record the replica's acknowledgements until the stream ends; then wake the writer."""
        try:
            async for answer in call:
                if self._restarting.is_set():
                    continue
                was_in_step = self.in_step
                self._record_acknowledgement(answer.applied_generation)
                self.takes_decisions = answer.takes_decisions
                self._self_check = answer.self_check if answer.HasField("self_check") else None
                self._notify_if_in_step_again(was_in_step)
        finally:
            # However the stream ended, the writer must learn of it: without changes it would wait forever.
            self._wake.set()

    def _record_acknowledgement(self, generation: int) -> None:
        """Note how far the replica has got; from the full sync's generation on it is in step.

        An acknowledgement of less, while the full sync is still written, changes nothing. Raises: AcknowledgementError
        for a generation that was not sent, after which the stream is opened anew.
        """
        if generation > self._sent:
            self._synced = False
            raise AcknowledgementError(
                f"it acknowledged generation {generation}, but was sent {self._sent} at most; "
                "it will be synchronised anew"
            )
        if self._full_sync_generation is None or generation < self._full_sync_generation:
            return  # it has not all of the cluster yet
        first, self._synced = not self._synced, True
        if generation >= self._published:
            self._unheard_since = 0.0
        elif first or generation > self._acknowledged:
            self._unheard_since = self._clock()
        self._acknowledged = max(generation, self._acknowledged)
        if first:
            self._last_error = ""
            self._failures.clear()
            log.info("%s: in step at generation %d", self.address, generation)
            self._wake.set()  # less patience from now on


@dataclass(frozen=True, slots=True)
class _Request:
    """A serialised SyncRequest that waits, and the generation that it leads to."""

    content: bytes
    generation: int
    #: Whether it is part of a full sync, on a stream that went on.
    is_full_sync: bool = False


def _generation_of_request(request: bytes) -> int:
    return snapshot_pb2.SyncRequest.FromString(request).delta.to_generation


def _already_serialized(message: bytes) -> bytes:
    """The serializer of requests, which are serialised before they are queued: returns them as they are."""
    return message
