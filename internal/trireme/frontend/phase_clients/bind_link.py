"""The link to one bind replica: announces the leader to it, and again whenever the replica may have forgotten it.

While calls are open Fence is repeated, so that bind may begin what still waits there.

Also change: protos/trireme/v1/bind_phase.proto (how often a call is heard of).

Tests: tests/unit/frontend/test_bind_link.py, tests/contract/test_bind_announcement.py,
tests/contract/test_replica_channels.py.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from grpc import aio

from trireme.frontend.phase_clients import replica_link
from trireme.rpc import dialing
from trireme.v1 import bind_phase_pb2, bind_phase_pb2_grpc
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import failure_log

log = logging.getLogger(__name__)

FENCE_SECONDS = 5.0
RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 2.0
# How often Fence is repeated while calls are open. Less than the shortest Lease in use is valid for.
RENEW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class BindLinkStatistics:
    """The state of one bind replica."""

    address: str
    fenced: bool
    in_flight: int  # calls
    last_error: str  # why it is not called, or how the last call failed; empty: neither


class BindLink:
    """The link to one bind replica. A replica that is not `callable` gets Fence calls alone."""

    def __init__(
        self,
        address: str,
        dialer: dialing.Dialer,
        fence_request: Callable[[], bind_phase_pb2.FenceRequest],
        changed: Callable[[], None],
        found_older_work: Callable[[str, float], None],
    ) -> None:
        """`fence_request` returns the message that announces the leader; `changed` is called where `fenced` changes.

        `found_older_work` gets for how many seconds the replica's work for an earlier leader may take effect.
        """
        self.address = address
        self._fence_request = fence_request
        self._changed = changed
        self._found_older_work = found_older_work
        self.connection = dialer.open(address, replica_link.CHANNEL_OPTIONS)
        self.stub = bind_phase_pb2_grpc.BindPhaseStub(self.connection.channel)
        self.callable = True
        # Its endpoint is gone: calls under way go on, and no leader is announced to it.
        self.is_leaving = False
        self.fenced = False
        # Whether it has ever known this leader: then it has begun nothing for an earlier one since.
        self.announced = False
        self.in_flight = 0
        self.last_error = ""
        self.failures = failure_log.FailureLog(log)
        self._broken = asyncio.Event()

    def log_call_failure(self, error: BaseException) -> None:
        """Log the failure of a call and name it in the statistics; the replica is called on as before."""
        self.last_error = str(error) or type(error).__name__
        kind = type(error).__name__
        if isinstance(error, aio.AioRpcError):
            kind = error.code().name
            self.last_error = self.connection.error_text(error)
        self.failures.log_failure(kind, f"bind {self.address}: {self.last_error}; it is called again")

    def record_answer(self) -> None:
        """Forget the last failure: a call was answered to its end."""
        if self.fenced:
            self.last_error = ""
            self.failures.clear()

    def renew(self) -> None:
        """Open another channel if the connection broke or certificates changed, for the next call."""
        if self.connection.renew():
            self.stub = bind_phase_pb2_grpc.BindPhaseStub(self.connection.channel)

    @property
    def is_usable(self) -> bool:
        """Whether it may be called and knows this leader."""
        return self.fenced and self.callable

    def statistics(self) -> BindLinkStatistics:
        """How the replica stands."""
        return BindLinkStatistics(self.address, self.fenced, self.in_flight, self.last_error or self._problem())

    def _problem(self) -> str:
        """Why it is not called though nothing failed; empty: it is called."""
        if not self.callable:
            return "it is not ready, or is terminating"
        return "" if self.fenced else "it has not confirmed yet that this frontend leads"

    def stop_calling(self, error: BaseException) -> None:
        """Call the replica no more until it has answered Fence again."""
        self.log_call_failure(error)
        self.announce_again()

    def announce_again(self) -> None:
        """Announce the leader again before the next call."""
        self.fenced = False
        self._broken.set()
        self._changed()

    async def keep_fenced(self) -> None:
        """Announce the leader, and again whenever the replica may have forgotten it."""
        delay = RETRY_SECONDS
        try:
            while True:
                # What breaks the link from here on, a new configuration among it, makes the answer one to another
                # question: the leader is announced again.
                self._broken.clear()
                try:
                    answer = await self.stub.Fence(self._fence_request(), timeout=FENCE_SECONDS)
                except aio.AioRpcError as error:
                    raise_if_cancelled(error)
                    reason = self.connection.error_text(error)
                    self.failures.log_failure(
                        error.code().name, f"bind {self.address} does not take the epoch: {reason}; it is tried again"
                    )
                    self.last_error = reason
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, MAX_RETRY_SECONDS)
                    self.renew()
                    continue
                self.announced = True
                self._found_older_work(self.address, answer.drain_ms / 1000)
                if self._broken.is_set():
                    continue
                self.fenced = True
                self.last_error = ""
                delay = RETRY_SECONDS
                self.failures.clear()
                log.info("bind %s: knows epoch %d", self.address, answer.epoch)
                self._changed()
                await self._wait_until_broken_or_disconnected()
                self.renew()
        finally:
            self.fenced = False

    async def _wait_until_broken_or_disconnected(self) -> None:
        """Wait until the replica may not be called any more: its channel is not ready, or a call of it failed.

        Meanwhile the leader is announced again and again while calls are open. On return the link is not fenced.
        """
        broken = asyncio.create_task(self._broken.wait())
        try:
            channel = self.connection.channel
            state = channel.get_state()
            while state == grpc.ChannelConnectivity.READY and not broken.done():
                changing = asyncio.create_task(channel.wait_for_state_change(state))
                try:
                    await self._renew_until_done({broken, changing})
                finally:
                    changing.cancel()
                state = channel.get_state()
        finally:
            broken.cancel()
        self.fenced = False
        self._changed()

    async def _renew_until_done(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Return when one of the tasks is done; until then repeat Fence while calls are open."""
        while True:
            done, _ = await asyncio.wait(tasks, timeout=RENEW_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if self.in_flight and not self.is_leaving:
                try:
                    await self.stub.Fence(self._fence_request(), timeout=FENCE_SECONDS)
                except aio.AioRpcError as error:
                    raise_if_cancelled(error)
                    self.stop_calling(error)


def raise_if_cancelled(error: BaseException) -> None:
    """Raise CancelledError if the task is being cancelled.

    When a call fails at that moment, gRPC reports the failure alone, and a caller that went on would never end.
    """
    if supervision.is_being_cancelled():
        raise asyncio.CancelledError from error
