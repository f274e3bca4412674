"""The client of the bind phase: makes each call on any replica that knows this leader (`bind_link`).

A call that fails on one replica is repeated on the next. Binding is idempotent, so the calls in progress on a replica
that died are repeated elsewhere, until one is answered or the leadership ends.

A call that streams results lasts as long as its work, which may wait for bind's rate limit: it fails when nothing came
for `SILENCE_SECONDS`, not even a heartbeat.

Also change: protos/trireme/v1/bind_phase.proto (the messages).
Also change: internal/trireme/frontend/phase_clients/follower_replicas.py (how replicas are kept).

Tests: tests/unit/frontend/test_bind_replicas.py, tests/unit/frontend/test_bind_phase_client.py,
tests/unit/frontend/test_bind_calls_on_replicas.py, tests/contract/test_replica_channels.py.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
from grpc import aio

from trireme.frontend.phase_clients import bind_link, divided_calls, endpoints
from trireme.frontend.phase_clients.bind_link import BindLink
from trireme.rpc import dialing, fencing, message_sizes
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

RETRY_SECONDS = 0.1
# After how long a call is repeated that a replica refused because too much waits there already.
BUSY_SECONDS = 0.5
# A replica that has sent nothing for so long, no heartbeat either, is not waited for. Bind sends one every second.
SILENCE_SECONDS = 5.0
# The deadline of a call that streams results. Silence ends it long before; with a deadline it is waited for when its
# endpoint goes.
STREAM_SECONDS = 3600.0
# On how many replicas, one after the other, a call with a single response is tried.
UNARY_TRIES = 3
# How such a call ends when its replica does, which cancels what it has under way.
_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


class BindPhaseClient:
    """Calls the bind replicas, each only once it knows us as the leader.

    `fence` returns our leadership, `fence_request` the message that announces it.
    """

    def __init__(
        self,
        fence: Callable[[], cycle_pb2.Fence],
        fence_request: Callable[[], bind_phase_pb2.FenceRequest],
        dialer: dialing.Dialer,
        deadline_seconds: float,
        changed: Callable[[], None],
        config_hash: Callable[[], int] | None = None,
    ) -> None:
        """`deadline_seconds` is how long Permit, PostBind and each PreBind plugin may take.

        Bind and Apply last until the replica is silent for `SILENCE_SECONDS`. `config_hash` returns the hash of the
        configuration in force, where that may change.
        """
        self._config_hash = config_hash
        self._deadline = deadline_seconds
        self._fence = fence
        self._fence_request = fence_request
        self._dialer = dialer
        self._changed = changed
        self._addresses: Sequence[str] = ()
        self._discovery = endpoints.Discovery(complete=True)
        self._links: dict[str, BindLink] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The links' own tasks, and those that drain links to endpoints that are gone.
        self.supervisor = supervision.Supervisor()
        self._turn = itertools.count()
        # Set when what `wait_until_announced` and calls wait for may have come.
        self._fenced = asyncio.Event()
        self._announced = False
        # Until when, on the loop's clock, older work may take effect.
        self._drained_at = 0.0

    @property
    def available(self) -> bool:
        """Whether any replica that may be called knows this leader."""
        return bool(self._fenced_replicas())

    def answering(self) -> Sequence[str]:
        """The addresses of the replicas that may be called and know this leader."""
        return [link.address for link in self._fenced_replicas()]

    def statistics(self) -> list[bind_link.BindLinkStatistics]:
        """How each replica stands."""
        return [link.statistics() for link in self._links.values()]

    def observe(self, discovery: endpoints.Discovery) -> None:
        """Take what is known of replicas that may not be called, and whether more may be found.

        They matter until the leader is announced: they may still work for an earlier one.
        """
        self._discovery = discovery
        self._link_replicas()

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """Replace the replicas' addresses. One that is gone gets no new calls; those under way go on."""
        self._addresses = addresses
        self._link_replicas()

    def _link_replicas(self) -> None:
        """Link to each replica that may be called, and until the leader is announced to others too; close the rest."""
        wanted = {*self._addresses, *(() if self._announced else self._discovery.uncallable)}
        for address in self._links.keys() - wanted:
            link = self._links.pop(address)
            link.is_leaving = True
            self.supervisor.start(self._close_after_last_call(link, self._tasks.pop(address)))
        for address in sorted(wanted - self._links.keys()):
            link = self._links[address] = BindLink(
                address, self._dialer, self._fence_request, self._notify_of_change, self._note_older_work
            )
            self._tasks[address] = self.supervisor.keep(f"bind {address}", link.keep_fenced)
        for address, link in self._links.items():
            link.callable = address in self._addresses
        self._notify_of_change()

    def _notify_of_change(self) -> None:
        """Have what waits for replicas look again: there may be another one, or fewer to wait for."""
        self._fenced.set()
        self._changed()

    async def _close_after_last_call(self, link: BindLink, task: asyncio.Task[None]) -> None:
        """Close a link to an endpoint that is gone once its calls have ended or reached their deadlines."""
        try:
            await link.connection.drain()
            await self.supervisor.stop(task)
        finally:
            await link.connection.close()

    async def wait_until_announced(self, patience: float) -> float:
        """Return when all replicas know this leader; answers how long old work may take, seconds.

        At least one must; for the others, and until all sources of addresses have been read, it waits no longer than
        `patience` seconds.
        """
        while not self.available:
            self._fenced.clear()
            await self._fenced.wait()
        try:
            async with asyncio.timeout(patience):
                while not self._discovery.complete or self._unannounced_addresses():
                    self._fenced.clear()
                    await self._fenced.wait()
        except TimeoutError:
            if not self._discovery.complete:
                log.warning(
                    "the addresses of bind replicas cannot be read; scheduling begins with those that are known"
                )
            if unknown := self._unannounced_addresses():
                log.warning("bind cannot be reached: %s; scheduling begins, and it is tried again", ", ".join(unknown))
        self._announced = True
        self._link_replicas()
        return max(self._drained_at - asyncio.get_running_loop().time(), 0.0)

    def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items; yields each result once, as it is known, and ends only when every item has one."""
        if request.ByteSize() > message_sizes.CALL_BYTES:
            return divided_calls.bind(self._bind_in_one_call, request)
        return self._bind_in_one_call(request)

    async def _bind_in_one_call(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items, as `bind` does, in one call, and one more for each replica that fails.

        If a replica fails, what it has not answered goes to the next one with `outcome_unknown`, as the binding may
        have been written.
        """
        missing = dict(enumerate(request.items))
        while missing:
            indexes = list(missing)
            part = request
            if len(missing) < len(request.items):
                part = bind_pb2.BindRequest(cycle=request.cycle, items=[missing[index] for index in indexes])

            def call_bind(stub: Any, part: bind_pb2.BindRequest = part) -> Any:
                self._set_fence_and_configuration(part.cycle)
                return stub.Bind(part, timeout=STREAM_SECONDS)

            async for result in self._stream_from_replica(call_bind):
                if result.index < len(indexes):
                    result.index = indexes[result.index]
                    if missing.pop(result.index, None) is not None:
                        yield result
            for item in missing.values():
                item.outcome_unknown = True

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Execute all actions, and return a result for each, in order.

        `on_result` gets each once, by index, as it is known. The first of two results for one action counts.

        `address`: of the replica to call if it is there and knows this leader; else any is called.
        """
        results: dict[int, bind_pb2.BindResult] = {}

        def add_result(index: int, result: bind_pb2.BindResult) -> None:
            if index not in results:
                results[index] = result
                if on_result is not None:
                    on_result(index, result)

        async def apply_part(part: Sequence[int]) -> None:
            while indexes := [index for index in part if index not in results]:

                def call_apply(stub: Any, indexes: Sequence[int] = indexes) -> Any:
                    request = bind_phase_pb2.ApplyRequest(
                        fence=self._fence(), actions=[actions[index] for index in indexes]
                    )
                    return stub.Apply(request, timeout=STREAM_SECONDS)

                async for result in self._stream_from_replica(call_apply, lambda: self._fenced_replica_at(address)):
                    if result.index < len(indexes):
                        add_result(indexes[result.index], result)

        await divided_calls.send_actions(
            actions, lambda index, failure: add_result(index, bind_pb2.BindResult(status=failure)), apply_part
        )
        return [results[index] for index in range(len(actions))]

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Call the Permit plugins. Raises: PhaseFault."""
        if request.ByteSize() > message_sizes.CALL_BYTES:
            return await divided_calls.permit(self._permit_in_one_call, request)
        return await self._permit_in_one_call(request)

    async def _permit_in_one_call(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Call the Permit plugins, as `permit` does, whatever the size of the request."""

        async def call_permit(stub: Any) -> bind_pb2.PermitResponse:
            self._set_fence_and_configuration(request.cycle)
            response: bind_pb2.PermitResponse = await stub.Permit(request, timeout=self._deadline)
            return response

        try:
            return await self._call_any_replica(call_permit)
        except aio.AioRpcError as error:
            raise ports.PhaseFault(f"{error.code().name}: {error.details()}") from error

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Find out which items the PreBind plugins have work for.

        `on_result` gets each result, by index, as it is known.
        """

        def call_pre_flight(part: Sequence[ports.PreBindItem], stub: Any) -> Any:
            request = bind_phase_pb2.BindPhasePreBindPreFlightRequest(timeout_ms=round(self._deadline * 1000))
            self._add_items(request, part)
            return stub.PreBindPreFlight(request, timeout=STREAM_SECONDS)

        def send_part(part: Sequence[int]) -> Awaitable[None]:
            return self._call_until_all_answered(
                items, part, call_pre_flight, lambda index, answer: on_result(index, answer.status)
            )

        await divided_calls.send_items(items, on_result, send_part)

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None] = lambda index, address: None,
    ) -> None:
        """Run the PreBind plugins for all items; `on_result` gets each result, by index, as it is known.

        `on_start` gets for each item the address of the replica that is called.
        """

        def call_pre_bind(part: Sequence[ports.PreBindItem], stub: Any) -> Any:
            request = bind_phase_pb2.BindPhasePreBindRequest(timeout_ms=round(self._deadline * 1000))
            self._add_items(request, part)
            return stub.PreBind(request, timeout=STREAM_SECONDS)

        def send_part(part: Sequence[int]) -> Awaitable[None]:
            return self._call_until_all_answered(
                items, part, call_pre_bind, lambda index, answer: on_result(index, answer.result), on_start
            )

        def on_too_large(index: int, failure: status_pb2.Status) -> None:
            on_result(index, bind_pb2.PreBindResult(status=failure))

        await divided_calls.send_items(items, on_too_large, send_part)

    async def _call_until_all_answered(
        self,
        items: Sequence[ports.PreBindItem],
        part: Sequence[int],
        call: Callable[[Sequence[ports.PreBindItem], Any], Any],
        on_result: Callable[[int, Any], None],
        on_start: Callable[[int, str], None] = lambda index, address: None,
    ) -> None:
        """Stream one call's answers to `on_result`, and repeat it with the items that have none until each has one.

        The call is about the items with the indexes of `part`.

        An answer with an index out of range, or for an item that has one already, is ignored. It does not give up:
        without a replica it waits for one. Items that are cancelled meanwhile are not sent again.
        """
        missing = set(part)
        while any(not items[index].cancelled for index in missing):
            sent: list[int] = []

            def choose_and_report_replica(sent: list[int] = sent) -> BindLink | None:
                link = self._next_fenced_replica()
                if link is not None:
                    sent[:] = sorted(index for index in missing if not items[index].cancelled)
                    for index in sent:
                        on_start(index, link.address)
                return link

            def call_with_those(stub: Any, sent: list[int] = sent) -> Any:
                return call([items[index] for index in sent], stub)

            async for answer in self._stream_from_replica(call_with_those, choose_and_report_replica):
                if answer.index < len(sent) and sent[answer.index] in missing:
                    missing.discard(sent[answer.index])
                    on_result(sent[answer.index], answer)

    def _add_items(
        self,
        request: bind_phase_pb2.BindPhasePreBindRequest | bind_phase_pb2.BindPhasePreBindPreFlightRequest,
        items: Sequence[ports.PreBindItem],
    ) -> None:
        """Add the items in their order; neighbours of one cycle share it."""
        for _, group in itertools.groupby(items, key=lambda item: id(item.cycle)):
            same = list(group)
            part = request.requests.add(items=[item.item for item in same])
            part.cycle.CopyFrom(same[0].cycle)
            self._set_fence_and_configuration(part.cycle)

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """Call the PostBind plugins. Raises: PhaseFault."""
        if request.ByteSize() > message_sizes.CALL_BYTES:
            await divided_calls.post_bind(self._post_bind_in_one_call, request)
        else:
            await self._post_bind_in_one_call(request)

    async def _post_bind_in_one_call(self, request: bind_pb2.PostBindRequest) -> None:
        """Call the PostBind plugins, as `post_bind` does, whatever the size of the request."""

        async def call_post_bind(stub: Any) -> None:
            self._set_fence_and_configuration(request.cycle)
            await stub.PostBind(request, timeout=self._deadline)

        try:
            await self._call_any_replica(call_post_bind)
        except aio.AioRpcError as error:
            raise ports.PhaseFault(f"{error.code().name}: {error.details()}") from error

    def announce_again(self) -> None:
        """Announce the leader again, because the configuration changed."""
        for link in self._links.values():
            link.announce_again()

    def channels(self) -> list[tuple[str, aio.Channel]]:
        """The address and the channel of each replica."""
        return [(link.address, link.connection.channel) for link in self._links.values()]

    def _set_fence_and_configuration(self, cycle: cycle_pb2.Cycle) -> None:
        """Write leadership and configuration into the cycle as they are now, which may have changed meanwhile."""
        cycle.fence.CopyFrom(self._fence())
        if self._config_hash is not None:
            cycle.config_hash = self._config_hash()

    async def close(self) -> None:
        """End all links."""
        await self.supervisor.close()
        for link in self._links.values():
            await link.connection.close()

    async def _call_any_replica(self, call: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """The answer of the next replica, or of one after it. Raises: AioRpcError.

        The call is repeated on another replica if one is unavailable or has another configuration.
        """
        for tries_left in reversed(range(UNARY_TRIES)):
            link = await self._wait_for_replica()
            link.in_flight += 1
            try:
                return await call(link.stub)
            except aio.AioRpcError as error:
                bind_link.raise_if_cancelled(error)
                if error.code() not in _GONE and not _lacks_configuration(error):
                    raise
                link.stop_calling(error)
                if not tries_left:
                    raise
            finally:
                link.in_flight -= 1
        raise AssertionError("the last try answers or raises")

    async def _stream_from_replica(
        self, call: Callable[[Any], Any], choose: Callable[[], BindLink | None] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the results of one streaming call on the replica that `choose` returns, by default the next.

        It never raises for a replica that fails, refuses or is silent: the results just end, after a pause if there
        were none or the call failed, and the caller calls again for what is missing. A replica that only has too many
        calls stays in use.
        """
        link = await self._wait_for_replica(choose)
        link.in_flight += 1
        answered = False
        delay = RETRY_SECONDS
        answers: Any = None
        try:
            answers = call(link.stub)
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):  # unlike wait_for it needs no task of its own
                    response = await answers.read()
                if response is aio.EOF:
                    link.record_answer()
                    break
                for result in response.results:
                    answered = True
                    yield result
        except (aio.AioRpcError, TimeoutError) as error:
            bind_link.raise_if_cancelled(error)
            if isinstance(error, aio.AioRpcError) and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                # It refuses this call alone: the others go on, and it still knows this leader.
                link.log_call_failure(error)
                delay = BUSY_SECONDS
            else:
                link.stop_calling(error)
            answered = False
        finally:
            link.in_flight -= 1
            if answers is not None:
                answers.cancel()
        if not answered:  # a replica that ends without a result is not called again at once
            await asyncio.sleep(delay)

    async def _wait_for_replica(self, choose: Callable[[], BindLink | None] | None = None) -> BindLink:
        """Return the next replica that knows this leader, or what `choose` returns; waits while there is none."""
        while True:
            link = (choose or self._next_fenced_replica)()
            if link is not None:
                return link
            self._fenced.clear()
            await self._fenced.wait()

    def _next_fenced_replica(self) -> BindLink | None:
        """The next replica that knows this leader; None: there is none."""
        fenced = self._fenced_replicas()
        return fenced[next(self._turn) % len(fenced)] if fenced else None

    def _fenced_replicas(self) -> list[bind_link.BindLink]:
        """The replicas that may be called and know this leader."""
        return [link for link in self._links.values() if link.is_usable]

    def _fenced_replica_at(self, address: str) -> BindLink | None:
        """The replica with that address if it knows this leader, else any."""
        link = self._links.get(address)
        return link if link is not None and link.is_usable else self._next_fenced_replica()

    def _note_older_work(self, address: str, seconds: float) -> None:
        """Note until when this replica's work for an earlier leader may take effect; returns at once.

        `wait_until_announced` returns how long that is; of a replica that is found only later the log warns.
        """
        self._drained_at = max(self._drained_at, asyncio.get_running_loop().time() + seconds)
        if seconds and self._announced:
            log.warning(
                "bind %s was found late: for %.1f s it may still act for an earlier leader; what it binds stays bound",
                address,
                seconds,
            )

    def _unannounced_addresses(self) -> list[str]:
        """The addresses of the replicas that have not learned of this leader."""
        return [link.address for link in self._links.values() if not link.announced]


def _lacks_configuration(error: aio.AioRpcError) -> bool:
    """Whether the replica refused the call because it has another configuration: Fence brings ours."""
    return fencing.reason_of(error) == fencing.RefusalReason.CONFIG_MISMATCH
