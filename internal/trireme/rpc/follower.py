"""Follows the snapshot stream: keeps a replica's state of the cluster up to date.

A `Follower` serves SnapshotFollower, applies deltas, and checks whether the state satisfies a call. Invariant: a call
is answered from one generation at least as new as the one that it names, under its configuration and epoch, or refused
with FAILED_PRECONDITION so that the caller sends what is missing or calls another replica.

Also change: sdk/go/follower.go, sdk/java/src/main/java/dev/trireme/sdk/Follower.java, sdk/rust/src/follower.rs,
sdk/typescript/src/follower.ts, examples/score-phase-go/follower.go (the same in the other languages' SDKs).
Also change: docs/protocol.md.
Also change: internal/trireme/frontend/phase_clients/replica_link.py,
internal/trireme/plugin_verification/followed_cluster.py,
internal/trireme/remote/plugin_control.py (the stream of deltas).
Also change: protos/trireme/v1/snapshot.proto (the messages).
"""

import asyncio
import contextlib
import functools
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from grpc import aio

from trireme.rpc import fencing, grpc_server, stream_age
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, scheduler_status_pb2, snapshot_pb2, snapshot_pb2_grpc

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

# How long a call waits for its generation, unless the caller set a shorter deadline.
WAIT_SECONDS = 2.0

# The delay of an acknowledgement: acknowledging each delta would cost as much as applying it.
ACK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class FollowerStatistics:
    """The state and counters of a follower."""

    epoch: int
    generation: int
    streams: int  # streams accepted so far
    deltas: int  # applied, changes of the queue included
    refused: int  # calls refused for their generation or configuration


class FollowedState(Protocol):
    """The state that a follower updates. `apply` raises OutOfStepError if a full sync is needed.

    Implementers: trireme.snapshot.snapshot.Snapshot, trireme.insight.observed_cluster.ObservedCluster,
    trireme.sdk.cluster_state.ClusterState.
    """

    @property
    def generation(self) -> int:
        """The generation of the last delta applied."""
        ...

    @property
    def synced(self) -> bool:
        """Whether a full sync is complete."""
        ...

    @property
    def classes(self) -> Mapping[int, Any]:
        """The pod classes by number."""
        ...

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        """Advance to the delta's generation."""
        ...


class Follower(snapshot_pb2_grpc.SnapshotFollowerServicer):
    """One replica's end of the stream of deltas: applies and acknowledges them, and has calls wait for them."""

    def __init__(
        self,
        snap: FollowedState,
        configured: Callable[[snapshot_pb2.Configuration], None],
        *,
        requires_configuration: bool = True,
        take_queue: Callable[[snapshot_pb2.QueueDelta], None] | None = None,
        applied: Callable[[snapshot_pb2.SyncRequest], None] = lambda request: None,
    ) -> None:
        """`requires_configuration`: calls must name the stream's configuration.

        `take_queue` gets what changes in the queue, where the frontend sends that. `applied` gets each message of the
        stream once it is accepted or applied.
        """
        self._snap = snap
        self._configured = configured
        self._requires_configuration = requires_configuration
        self._take_queue = take_queue
        self._applied = applied
        self._guard = fencing.EpochGuard()
        self._config_hash = 0
        # The leader whose full sync came last. Each leader numbers generations from the start, so the generation of a
        # new leader's call cannot be compared with its predecessor's state.
        self._synced_by = cycle_pb2.Fence()
        self._advanced = asyncio.Event()
        self._stream = 0
        self._streams: dict[_StreamWriter, None] = {}
        self._ending: list[asyncio.Task[None]] = []
        self._acknowledged = False
        #: How old what came by the stream is.
        self.age = stream_age.StreamAge()
        self._deltas = 0
        self._refused = 0
        self.instance = uuid.uuid4().hex
        #: Whether the leader is to send decisions too.
        self.takes_decisions = False
        #: What insight's self-check found, for the leader; None: there is none.
        self.self_check: Callable[[], scheduler_status_pb2.SelfCheck | None] = lambda: None

    def statistics(self) -> FollowerStatistics:
        """A snapshot of the counters."""
        return FollowerStatistics(self._guard.epoch, self._snap.generation, self._stream, self._deltas, self._refused)

    @property
    def disconnected_seconds(self) -> float:
        """For how long the leader has sent nothing, its stream broken or silent; 0 while it sends, or never did."""
        return self.age.seconds

    def caller_identity(self) -> cycle_pb2.Cycle:
        """The fence and configuration hash for this replica's calls to plugins: those of the leader it follows."""
        fence = cycle_pb2.Fence(epoch=self._guard.epoch, scheduler_id=self._guard.scheduler_id)
        return cycle_pb2.Cycle(fence=fence, config_hash=self._config_hash)

    async def Sync(  # type: ignore[override]  # it writes to the context itself: it reads and answers at once
        self, request_iterator: AsyncIterator[snapshot_pb2.SyncRequest], context: aio.ServicerContext[Any, Any]
    ) -> None:
        """Apply deltas until the stream ends or another one replaces it.

        A stream replaces the one before it once its Hello is accepted; a refused one changes nothing.
        """
        number = 0  # of this stream among the accepted ones; 0 before its Hello
        stream = _StreamWriter(context)
        self._streams[stream] = None
        leader = cycle_pb2.Fence()  # whom the stream's last Hello named
        try:
            async for request in request_iterator:
                # Only between messages: what was begun of the old stream is applied whole.
                if number and number != self._stream:
                    await stream.abort(grpc.StatusCode.ABORTED, "another stream has replaced this one")
                kind = request.WhichOneof("message")
                if kind == "hello":
                    await self._accept_stream(request.hello, stream)
                    leader = request.hello.fence
                    # It acknowledges what came before; the full sync that follows needs one of its own.
                    await stream.end_acknowledging()
                    self._stream += 1
                    number = self._stream
                    self.age.begin()
                    self._applied(request)
                    continue
                if not number:
                    await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, "message: a stream begins with hello")
                self.age.receive(is_regular=kind == "queue" and request.queue.HasField("scheduler_status"))
                if kind not in ("delta", "queue"):
                    continue  # a newer frontend may send messages of a kind that is unknown here
                await self._apply_request(request, stream)
                if self._snap.synced:
                    self._synced_by = leader
                self._advanced.set()
                # One acknowledgement for all deltas of the delay; the first of all is sent at once.
                delay = ACK_SECONDS if self._acknowledged else 0
                stream.begin_acknowledging(functools.partial(self._acknowledge_later, stream, number, delay))
        finally:
            self._streams.pop(stream, None)
            if number and number == self._stream:
                self.age.end()
            await stream.end_acknowledging()

    def end_streams(self) -> None:
        """End the streams when the process stops, instead of after the grace period for calls."""
        self._ending = [asyncio.create_task(_end_stream_quietly(stream)) for stream in self._streams]

    async def _acknowledge_later(self, stream: "_StreamWriter", number: int, delay: float) -> None:
        """Acknowledge all that was applied, including what is applied meanwhile.

        The next message may be long in coming, and the leader considers a replica that does not acknowledge as gone.
        """
        acknowledged_deltas = -1
        while acknowledged_deltas != self._deltas:
            await asyncio.sleep(delay)
            if number != self._stream or not self._snap.synced:
                return
            self._acknowledged, acknowledged_deltas, delay = True, self._deltas, ACK_SECONDS
            answer = snapshot_pb2.SyncResponse(
                applied_generation=self._snap.generation,
                instance=self.instance,
                takes_decisions=self.takes_decisions,
                self_check=self.self_check(),
            )
            await stream.write(answer)

    async def wait_until_synced(self, cycle: cycle_pb2.Cycle, context: aio.ServicerContext[Any, Any]) -> None:
        """Admit the call's epoch, and wait until the snapshot has reached the cycle's generation.

        It waits two seconds, and not beyond the call's deadline. Else the call is aborted: FAILED_PRECONDITION if it is
        not reached, or if it names a stale leader or another configuration.
        """
        fence = cycle.fence
        # Only a stream switches to another scheduler: a call of one is checked, and deposes nobody.
        follows = fence.scheduler_id == self._guard.scheduler_id
        check_epoch = self._guard.admit if follows else self._guard.check
        try:
            check_epoch(fence.epoch, fence.scheduler_id)
        except fencing.Refusal as refusal:
            await grpc_server.refuse(context, refusal)
        if not await self._wait_until_reached(cycle, context.time_remaining()):
            self._refused += 1
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"cycle.generation: {cycle.generation} of epoch {cycle.fence.epoch} is not reached, the snapshot is at "
                f"{self._snap.generation} of epoch {self._synced_by.epoch}",
            )
        if self._requires_configuration and cycle.config_hash != self._config_hash:
            self._refused += 1
            await grpc_server.refuse(
                context,
                fencing.Refusal(fencing.RefusalReason.CONFIG_MISMATCH, "cycle.config_hash: not this configuration"),
            )

    def _has_reached(self, cycle: cycle_pb2.Cycle) -> bool:
        """Whether the snapshot is synced by the cycle's leader, and at its generation or later."""
        fence, synced_by = cycle.fence, self._synced_by
        same_leader = fence.epoch == synced_by.epoch and fence.scheduler_id == synced_by.scheduler_id
        return self._snap.synced and same_leader and self._snap.generation >= cycle.generation

    async def _wait_until_reached(self, cycle: cycle_pb2.Cycle, remaining: float | None) -> bool:
        """Wait until the snapshot is synced and at the cycle's generation; False if it is not just before the deadline.

        Waits at most WAIT_SECONDS. `remaining`: seconds until the call's deadline; None: it has none.
        """
        if self._has_reached(cycle):
            return True
        seconds = WAIT_SECONDS if remaining is None else min(WAIT_SECONDS, max(remaining - 0.05, 0))
        try:
            async with asyncio.timeout(seconds):
                while not self._has_reached(cycle):
                    self._advanced.clear()
                    await self._advanced.wait()
        except TimeoutError:
            return False
        return True

    async def _accept_stream(self, hello: snapshot_pb2.Hello, stream: "_StreamWriter") -> None:
        """Accept a stream, or abort it without changing anything."""
        try:
            self._guard.check(hello.fence.epoch, hello.fence.scheduler_id)
        except fencing.Refusal as refusal:
            await grpc_server.refuse(stream, refusal)
        if hello.config_hash != self._config_hash:
            try:
                self._configured(hello.configuration)
            except ValueError as error:
                await stream.abort(grpc.StatusCode.INVALID_ARGUMENT, f"hello.configuration: {error}")
            self._config_hash = hello.config_hash
        self._guard.admit(hello.fence.epoch, hello.fence.scheduler_id)
        self._acknowledged = False
        log.info("following epoch %d", hello.fence.epoch)

    async def _apply_request(self, request: snapshot_pb2.SyncRequest, stream: "_StreamWriter") -> None:
        """Apply a change of the cluster, or of the queue."""
        if request.WhichOneof("message") == "queue":
            if self._take_queue is not None:
                self._take_queue(request.queue)
        else:
            try:
                self._snap.apply(request.delta)
            except snapshot.OutOfStepError as error:
                await stream.abort(grpc.StatusCode.FAILED_PRECONDITION, f"delta: {error}")
        self._deltas += 1
        self._applied(request)


class _StreamWriter:
    """Writes to one stream, one message at a time: gRPC fails a call that ends during a write."""

    def __init__(self, context: aio.ServicerContext[Any, Any]) -> None:
        self._context = context
        self.sending = asyncio.Lock()
        self._acknowledging: asyncio.Task[None] | None = None

    async def write(self, answer: snapshot_pb2.SyncResponse) -> None:
        """Send an acknowledgement."""
        async with self.sending:
            await self._context.write(answer)

    def begin_acknowledging(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the task that acknowledges, unless there is one."""
        if self._acknowledging is None or self._acknowledging.done():
            self._acknowledging = asyncio.create_task(work())

    async def end_acknowledging(self) -> None:
        """Cancel the task that acknowledges, if there is one, but not in the middle of a write."""
        if self._acknowledging is not None:
            async with self.sending:
                self._acknowledging.cancel()
            self._acknowledging = None

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: grpc_server.Metadata = ()) -> None:
        """End the stream, after the message that is being sent. Raises: AbortError, always."""
        async with self.sending:
            await self._context.abort(code, details, trailing_metadata)


async def _end_stream_quietly(stream: _StreamWriter) -> None:
    """End a stream with UNAVAILABLE, as the process stops; one that has ended already is no error."""
    # InternalError: the caller has disconnected meanwhile.
    with contextlib.suppress(aio.AbortError, aio.InternalError):
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "the process ends")
