"""The replicas of one service that follows the snapshot: which one is called about a class, and which one instead.

Rendezvous hashing sends a class to the replica that has its columns, whatever the others do. Where that one is out of
step, silent or gone, the next one is called: any replica can answer any call.

Also change: internal/trireme/frontend/phase_clients/bind_phase_client.py (how replicas are kept).

Tests: tests/unit/frontend/test_follower_replicas.py, tests/contract/test_plugin_streams.py,
tests/contract/test_replica_stream.py.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc
from grpc import aio

from trireme.frontend.phase_clients import replica_link
from trireme.rpc import dialing, in_process
from trireme.scheduling import ports
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

# How long an answer may take before the replica is probed.
PROBE_SECONDS = 0.15

_ELSEWHERE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.FAILED_PRECONDITION,
    }
)


class FollowerReplicas:
    """The links to all replicas of one phase that follows the snapshot, and which of them to call first.

    `call` functions take a link and make the call on its channel.
    """

    def __init__(
        self,
        phase: str,
        source: replica_link.StreamSource,
        dialer: dialing.Dialer,
        deadline_seconds: float,
        clock: Callable[[], float],
        changed: Callable[[], None],
        *,
        takes_decisions: bool = False,
        shared: dict[str, replica_link.ReplicaLink] | None = None,
    ) -> None:
        """The arguments say how replicas are called.

        `deadline_seconds` is how long a call may take, remote plugins included. `takes_decisions`: whether replicas are
        sent decisions from the beginning of their first stream, unless they say that they take none. `shared` has the
        links to what serves several phases in this process, by address: one phase has it follow the snapshot, the
        others call it.
        """
        # Returns the decisions since the last call, as `DecisionLog.take` does.
        self.take_decisions: Callable[[], bytes] = bytes
        self.phase = phase
        self.deadline_seconds = deadline_seconds
        self._source = source
        self._dialer = dialer
        self._clock = clock
        self._changed = changed
        self._takes_decisions = takes_decisions
        self._shared = {} if shared is None else shared
        self._links: dict[str, replica_link.ReplicaLink] = {}
        # Without those that another phase has follow.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The links' own tasks, and those that drain links to endpoints that are gone.
        self.supervisor = supervision.Supervisor()

    @property
    def available(self) -> bool:
        """Whether any replica is in step."""
        return any(link.in_step for link in self._links.values())

    @property
    def synced(self) -> bool:
        """Whether every replica acknowledged the full sync of its stream."""
        return all(link.synced for link in self._links.values())

    @property
    def followed(self) -> bool:
        """Whether any replica has a stream, in step or not yet."""
        return any(link.streaming for link in self._links.values())

    @property
    def takes_decisions(self) -> bool:
        """Whether any replica is to be sent decisions."""
        # A loop, without a generator: each pod asks for this.
        for link in self._links.values():  # noqa: SIM110
            if link.streaming and link.takes_decisions:
                return True
        return False

    def answering(self) -> Sequence[str]:
        """The addresses of the replicas in step."""
        return [link.address for link in self._links.values() if link.in_step]

    def statistics(self) -> list[replica_link.LinkStatistics]:
        """How each replica stands."""
        return [link.statistics() for link in self._links.values()]

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """Replace the replicas' addresses. One that is gone gets no new calls; those under way go on."""
        for address in set(self._links) - set(addresses):
            link = self._links.pop(address)
            if address in self._tasks:
                self._shared.pop(address, None)
                self.supervisor.start(self._close_after_last_call(link, self._tasks.pop(address)))
        for address in addresses:
            if address not in self._links:
                self._links[address] = self._shared.get(address) or self._open_link(address)
        self._changed()

    def _open_link(self, address: str) -> replica_link.ReplicaLink:
        """Begin to follow with this replica."""
        link = replica_link.ReplicaLink(
            address, self._source, self._dialer, self._clock, self._changed, takes_decisions=self._takes_decisions
        )
        self._tasks[address] = self.supervisor.keep(f"{self.phase} {address}", link.run)
        if isinstance(address, in_process.Address):
            self._shared[address] = link
        return link

    def _following(self) -> list[replica_link.ReplicaLink]:
        """Those that this phase has follow."""
        return [self._links[address] for address in self._tasks]

    async def _close_after_last_call(self, link: replica_link.ReplicaLink, task: asyncio.Task[None]) -> None:
        """Close a link to an endpoint that is gone once its calls have ended or reached their deadlines."""
        try:
            await link.drain()
            await self.supervisor.stop(task)
        finally:
            await link.close()

    async def close(self) -> None:
        """End all links."""
        await self.supervisor.close()
        for link in self._following():
            await link.close()

    def restart(self) -> None:
        """Open all streams again, because the configuration changed."""
        for link in self._following():
            link.restart()

    def channels(self) -> list[tuple[str, aio.Channel]]:
        """The address and the channel of each replica that this phase has follow."""
        return [(link.address, link.channel) for link in self._following()]

    def publish(self, request: bytes, generation: int) -> None:
        """Send a serialised SyncRequest to all replicas; with what was decided before it, to those that take that."""
        decisions = self.take_decisions()
        for link in self._following():
            link.publish(request, generation, decisions)

    def preferred(self, profile: str, class_id: int) -> list[replica_link.ReplicaLink]:
        """The replicas in step, in the order in which they are called about the class."""
        in_step = [link for link in self._links.values() if link.in_step]
        if len(in_step) > 1:
            in_step.sort(key=lambda link: _rendezvous_rank(link.address, profile, class_id))
        return in_step

    async def call(
        self,
        profile: str,
        class_id: int,
        call: Callable[[replica_link.ReplicaLink], Awaitable[Answer]],
    ) -> Answer:
        """Call the replicas one after the other, the preferred one first, and return the first answer.

        The next one is called if a replica is unavailable, lacks the snapshot or is silent; a replica that answers
        nothing and acknowledges nothing for two probes is left at once, unless it is the last.

        Raises:
            PhaseUnavailable: no replica is in step, or none answered.
            AioRpcError: an error that another replica would answer as well.
        """
        last = "no replica is in step"
        candidates = self.preferred(profile, class_id)
        for link in candidates:
            # If no other replica can be called, a busy one is better than none.
            is_last = link is candidates[-1]
            try:
                answer = await self._call_one(link, call, self.deadline_seconds if is_last else PROBE_SECONDS * 2)
            except aio.AioRpcError as error:
                if error.code() not in _ELSEWHERE:
                    raise
                last = f"{link.address}: {link.error_text(error)}"
                link.failures.log_failure(error.code().name, f"{self.phase}: {last}; another replica is called")
            except TimeoutError:
                last = f"{link.address}: it does not answer"
                link.failures.log_failure("silent", f"{self.phase}: {last}; another replica is called")
            else:
                link.on_answer()
                link.failures.clear()
                return answer
        raise ports.PhaseUnavailable(f"{self.phase}: {last}")

    async def _call_one(
        self,
        link: replica_link.ReplicaLink,
        call: Callable[[replica_link.ReplicaLink], Awaitable[Answer]],
        patience: float,
    ) -> Answer:
        """Return one replica's answer to `call`. Raises: TimeoutError, AioRpcError.

        It gives up, by TimeoutError, at the deadline, when the replica falls out of step, or when it has neither
        answered nor acknowledged a probe for `patience` seconds; a replica that computes for long but acknowledges is
        waited for.
        """
        answering = asyncio.ensure_future(call(link))
        try:
            end = self._clock() + self.deadline_seconds
            while True:
                done, _ = await asyncio.wait({answering}, timeout=PROBE_SECONDS)
                if done:
                    return await answering
                if not link.in_step or link.silent_for > patience or self._clock() > end:
                    raise TimeoutError
                link.request_acknowledgement()
        finally:
            answering.cancel()


def _rendezvous_rank(address: str, profile: str, class_id: int) -> bytes:
    """The replica's rank for a class: a hash, so that each class prefers the same replica whatever others there are."""
    return hashlib.blake2b(f"{address}|{profile}|{class_id}".encode(), digest_size=8).digest()
