"""Calls one remote plugin: chooses the endpoint, keeps deadlines, retries, and reports the plugin's health.

Endpoints are replicas of each other. A request goes to the one with the fewest calls, avoiding those that failed
recently; if it is unreachable, the next is tried within the same deadline. A plugin declares how many concurrent calls
it takes; further calls wait here, and a call's deadline starts when its turn comes. Cancelling the caller bounds the
wait.

Invariant: every request ends in a response that its reader accepted, or in a PluginError that names the endpoint. A bad
response fails its request, never the process.

Tests: tests/unit/remote/test_remote_connection.py, tests/contract/test_plugin_client.py,
tests/unit/remote/test_hedging.py.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf import message
from grpc import aio

from trireme.remote import (
    call_budget,
    comparison_counts,
    endpoint_set,
    hedging,
    plugin_control,
    recent_durations,
    remote_breaker,
    remote_endpoint,
    remote_health,
)
from trireme.rpc import dialing, fencing
from trireme.v1 import plugin_pb2, snapshot_pb2

log = logging.getLogger(__name__)

# How long a failed endpoint is avoided while there are others.
AVOID_SECONDS = 5.0

# How long a caller waits for a call that tries whether a plugin is back; the call goes on without it. A plugin that
# hangs would otherwise cost its deadline each time.
PROBE_SECONDS = 0.1

# The pause before retrying a plugin that follows the cluster and is behind.
BEHIND_SECONDS = 0.02

# The plugin rejects this request: the breaker does not count that as a failure.
_REQUEST_ERRORS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.NOT_FOUND,
    }
)
# Nobody answers. CANCELLED: by a server that stops and has accepted the connection before.
NOT_THERE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
# Another endpoint may do better.
_TRY_ANOTHER = NOT_THERE | {grpc.StatusCode.RESOURCE_EXHAUSTED}

#: Implementers: trireme.bind.remote_bind_plugins.RemoteBindPlugins._track_call.
During = Callable[[], contextlib.AbstractContextManager[object]]
"""A context manager entered when a call's turn comes, before the request is sent, and left when the call ends, by an
exception if it failed. A call that is tried on several endpoints makes and enters one each time. PluginError from the
function: nothing is sent.
"""

Response = TypeVar("Response", bound=message.Message)
Answer = TypeVar("Answer")


class PluginError(Exception):
    """The plugin gave no usable response. The text is one line."""


class NotCalled(PluginError):
    """The plugin is not called for now: calls of the RPC, about whichever pods, have failed or used up its budget."""


class NotServed(PluginError):
    """The plugin does not serve a method that it need not serve; that is no failure of the plugin."""


@dataclass(frozen=True, slots=True)
class Method(Generic[Response]):
    """An RPC by its path, e.g. `/trireme.v1.FilterPlugin/Filter`, and its response type.

    `optional`: a plugin need not serve it.
    """

    path: str
    response: type[Response]
    optional: bool = False

    @property
    def name(self) -> str:
        """The RPC without its service, e.g. `Filter`."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """Counters of one plugin's calls, for metrics and readiness."""

    breakers: Mapping[str, remote_health.BreakerStatistics]  # by RPC
    answered: int  # requests
    failed: int  # requests
    not_called: int  # requests that met an open breaker
    in_flight: int  # calls being executed
    waiting: int  # calls that wait for their turn
    last_error: str  # the last failure, or those of the RPCs that are not called; empty before the first
    durations: Sequence[int] = ()  # calls by duration, as CallDurations.counts has them
    comparisons: comparison_counts.ComparisonCounts | None = None  # None: its answers count
    hedged: int = 0  # calls that were also made at a second endpoint
    bypassed: int = 0  # calls that were not made because the budget was used up
    over_budget: bool = False
    last_error_age: float | None = None  # seconds since the last failure; None: there was none

    @property
    def breaker(self) -> remote_breaker.State:
        """The worst state of the RPCs' breakers."""
        states = {entry.state for entry in self.breakers.values()}
        return max(states, key=remote_breaker.BEST_TO_WORST.index, default=remote_breaker.State.CLOSED)


class PluginConnection:
    """The connection to one plugin: endpoints, deadline, breaker; a call goes to the endpoint with the fewest.

    It is made on the running loop, from the plugin's configuration.

    Subclasses: trireme.remote.traced_connection.TracedPluginConnection.
    """

    def __init__(
        self,
        config: snapshot_pb2.RemotePlugin,
        clock: Callable[[], float] = time.monotonic,
        config_hash: Callable[[], int] = lambda: 0,
    ) -> None:
        """`config_hash` returns the hash of the current configuration, which calls name.

        Raises: ValueError naming the field or file that is wrong.
        """
        if not config.name:
            raise ValueError("remote_plugins: a plugin has no name")
        if not config.deadline_ms:
            raise ValueError(f"plugin {config.name}: deadline_ms: must be above 0")
        for target in config.endpoints:
            remote_endpoint.check_target(target, f"plugin {config.name}: endpoints")
        self.name = config.name
        self._deadline = config.deadline_ms / 1000
        self._clock = clock
        self._configurations = tuple(config.configurations)
        self._config_hash = config_hash
        self._compared_only = config.shadow
        #: What its answers would change, if it is in mode Shadow.
        self.comparisons = comparison_counts.ComparisonCounts()
        self._follows = config.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT
        open_seconds = config.breaker_open_ms / 1000
        self._health = remote_health.PluginHealth(config.name, config.breaker_failures, open_seconds, clock)
        max_calls = config.info.max_concurrent_calls
        settings = dialing.remote_settings(config)
        # A certificate names no address of a DNS name: without identities to expect gRPC checks the name itself.
        expands = settings is None or bool(settings.identities)
        dialer = dialing.Dialer(settings)
        self._endpoints = endpoint_set.EndpointSet(config.endpoints, dialer, max_calls, clock, expands=expands)
        self._hedges = config.hedging and config.info.idempotent
        self._recent: dict[str, recent_durations.RecentDurations] = {}
        self._hedged = 0
        self._probes: set[asyncio.Future[Any]] = set()
        ignores = config.failure_policy == snapshot_pb2.FAILURE_POLICY_IGNORE
        self._budget = call_budget.CallBudget(config.budget_ms_per_second / 1000 if ignores else 0.0, clock)

    def statistics(self) -> ConnectionStatistics:
        """A snapshot of the counters."""
        endpoints = self._endpoints.current
        return ConnectionStatistics(
            self._health.breakers(),
            self._health.answered,
            self._health.failed,
            self._health.not_called,
            sum(endpoint.in_flight for endpoint in endpoints),
            sum(endpoint.waiting for endpoint in endpoints),
            self._health.last_error(),
            self._health.durations.counts(),
            dataclasses.replace(self.comparisons) if self._compared_only else None,
            self._hedged,
            self._budget.bypassed,
            self._budget.exhausted,
            self._health.last_error_age(),
        )

    async def close(self) -> None:
        """Abort the calls in flight and disconnect."""
        for probe in self._probes:
            probe.cancel()
        await self._endpoints.close()

    @property
    def deadline_seconds(self) -> float:
        """How long a call may take, from when its turn comes."""
        return self._deadline

    async def call(
        self,
        method: Method[Response],
        request: bytes,
        read: Callable[[Response], Answer],
        during: During = contextlib.nullcontext,
    ) -> Answer:
        """Call the method and return `read` of the response; `read` raises ValueError for an unusable one.

        Raises:
            NotServed: the plugin does not serve the method, which is optional.
            PluginError: there is no usable response.
        """
        if method.name not in hedging.SAFE or not self._health.is_probe_due(method.name):
            return await self._call_to_end(method, request, read, during)
        probe = asyncio.ensure_future(self._call_to_end(method, request, read, during))
        self._probes.add(probe)
        probe.add_done_callback(self._end_probe)
        try:
            await asyncio.wait({probe}, timeout=PROBE_SECONDS)
        except asyncio.CancelledError:
            probe.cancel()
            raise
        if probe.done():
            return probe.result()
        raise PluginError(f"a test call is under way; {self._health.describe_failures(method.name)}")

    def _end_probe(self, probe: "asyncio.Future[Any]") -> None:
        """Forget a trial call that has ended; its result counted when it ended."""
        self._probes.discard(probe)
        if not probe.cancelled():
            probe.exception()

    async def _call_to_end(
        self,
        method: Method[Response],
        request: bytes,
        read: Callable[[Response], Answer],
        during: During = contextlib.nullcontext,
    ) -> Answer:
        """Make the call at one endpoint after the other, until one answers or time is up. Raises: as `call`."""
        remaining = self._deadline
        untried = self._endpoints.current
        while True:
            endpoint = self._choose_endpoint(untried)
            untried.remove(endpoint)
            async with endpoint.turn():
                registration = during()
                period = self._admit(method)
                started = self._clock()
                try:
                    with registration:
                        # From here on the endpoint is the one whose answer it is.
                        endpoint, payload = await self._call_or_hedge(endpoint, untried, method, request, remaining)
                    answer = read(method.response.FromString(payload))
                except plugin_control.ConfigurationRefused as error:
                    raise self._on_failure(endpoint, method, period, str(error)) from error
                except aio.AioRpcError as error:
                    if method.optional and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                        self._on_answer(endpoint, method)
                        raise NotServed(f"{endpoint.target}: {method.name} is not served") from error
                    remaining -= self._clock() - started
                    if error.code() in _TRY_ANOTHER and untried and remaining > 0:
                        self._avoid_for_a_while(endpoint)
                        continue
                    raise self._on_rpc_error(endpoint, method, period, error) from error
                except (ValueError, message.DecodeError) as error:
                    text = f"the answer to {method.name} is wrong: {error}"
                    raise self._on_failure(endpoint, method, period, text) from error
                else:
                    self._on_answer(endpoint, method)
                    return answer
                finally:
                    self._health.release(method.name, period)

    async def call_stream(
        self, method: Method[Response], request: bytes, during: During = contextlib.nullcontext
    ) -> AsyncIterator[Response]:
        """Yield the responses as they come. Tries one endpoint only: part of the work may be done when it fails.

        Raises:
            PluginError: the stream failed, or was not complete in time. One that ends without a response is no failure.
        """
        endpoint = self._choose_endpoint(self._endpoints.current)
        async with endpoint.turn():
            registration = during()
            period = self._admit(method)
            try:
                with registration:
                    async with contextlib.aclosing(self._stream(endpoint, period, method, request)) as responses:
                        async for response in responses:
                            yield response
            finally:
                self._health.release(method.name, period)

    async def _stream(
        self, endpoint: remote_endpoint.Endpoint, period: int, method: Method[Response], request: bytes
    ) -> AsyncGenerator[Response, None]:
        """Make a streaming call on an endpoint, and yield its responses. Raises: PluginError.

        If the endpoint lacks its configuration, it gets it, and the call is made again within the same deadline.
        """
        started = self._clock()
        consuming = 0.0  # seconds in which the caller had a response and the plugin was not waited for
        make = endpoint.call(method.path, streaming=True)
        call = make(request, timeout=self._deadline)
        try:
            try:
                payload = await call.read()
            except aio.AioRpcError as error:
                await self._configure_or_raise(endpoint, error, self._deadline - (self._clock() - started))
                call = make(request, timeout=self._deadline - (self._clock() - started))
                payload = await call.read()
            while payload is not aio.EOF:
                response, yielded = method.response.FromString(payload), self._clock()
                try:
                    yield response
                finally:
                    consuming += self._clock() - yielded
                payload = await call.read()
        except plugin_control.ConfigurationRefused as error:
            raise self._on_failure(endpoint, method, period, str(error)) from error
        except message.DecodeError as error:
            call.cancel()
            text = f"the answer to {method.name} is wrong: {error}"
            raise self._on_failure(endpoint, method, period, text) from error
        except aio.AioRpcError as error:
            raise self._on_rpc_error(endpoint, method, period, error) from error
        except (asyncio.CancelledError, GeneratorExit):
            call.cancel()
            raise
        finally:
            self._health.durations.observe(self._clock() - started - consuming)
        self._on_answer(endpoint, method)

    async def _call_or_hedge(
        self,
        endpoint: remote_endpoint.Endpoint,
        others: Sequence[remote_endpoint.Endpoint],
        method: Method[Any],
        request: bytes,
        seconds: float,
    ) -> tuple[remote_endpoint.Endpoint, bytes]:
        """Make one call; if that is allowed and it takes longer than most, make it at another endpoint as well.

        Returns the answer, and whose it is.
        """
        started = self._clock()
        recent = self._recent.setdefault(method.name, recent_durations.RecentDurations())
        delay = recent.p95 if self._hedges and method.name in hedging.SAFE else None

        async def call(chosen: remote_endpoint.Endpoint, left: float) -> tuple[remote_endpoint.Endpoint, bytes]:
            begun = self._clock()
            answer = await self._call(chosen, method, request, left)
            # The call's own duration: with the delay before it, each hedged call would make the next delay longer.
            recent.add(self._clock() - begun)
            return chosen, answer

        async def call_in_turn(chosen: remote_endpoint.Endpoint) -> tuple[remote_endpoint.Endpoint, bytes]:
            async with chosen.turn():
                return await call(chosen, seconds - (delay or 0.0))

        def call_another() -> Awaitable[tuple[remote_endpoint.Endpoint, bytes]] | None:
            free = [each for each in others if each.is_idle and each.avoid_until <= self._clock()]
            if not free:
                return None
            self._hedged += 1
            return call_in_turn(self._choose_endpoint(free))

        try:
            own = call(endpoint, seconds)
            chosen, answer = await (own if delay is None else hedging.first_answer(own, delay, call_another))
        finally:
            self._budget.spend(self._clock() - started)
        if delay is not None and chosen is not endpoint:
            # The call that lost took longer. Without it, more and more calls would be hedged.
            recent.add(delay)
        return chosen, answer

    async def _call(
        self, endpoint: remote_endpoint.Endpoint, method: Method[Any], request: bytes, seconds: float
    ) -> bytes:
        """Make one call; configure the plugin and repeat the call if it lacks its configuration."""
        started = self._clock()
        try:
            try:
                return await self._call_until_caught_up(endpoint, method, request, seconds)
            except aio.AioRpcError as error:
                await self._configure_or_raise(endpoint, error, seconds - (self._clock() - started))
            return await self._call_until_caught_up(endpoint, method, request, seconds - (self._clock() - started))
        finally:
            self._health.durations.observe(self._clock() - started)

    async def _call_until_caught_up(
        self, endpoint: remote_endpoint.Endpoint, method: Method[Any], request: bytes, seconds: float
    ) -> bytes:
        """Make one call; repeat it while a plugin that follows the cluster is behind."""
        end = self._clock() + seconds
        while True:
            try:
                answer: bytes = await endpoint.call(method.path)(request, timeout=end - self._clock())
                return answer
            except aio.AioRpcError as error:
                if not (self._follows and _is_behind(error)) or end - self._clock() < BEHIND_SECONDS * 2:
                    raise
            await asyncio.sleep(BEHIND_SECONDS)

    async def _configure_or_raise(
        self, endpoint: remote_endpoint.Endpoint, error: aio.AioRpcError, seconds: float
    ) -> None:
        """Send the plugin its configuration if a call failed for lack of it.

        Raises:
            AioRpcError: it failed for another reason, or the plugin does not answer.
            ConfigurationRefused: the plugin does not accept its configuration.
        """
        if not self._configurations or seconds <= 0 or not plugin_control.lacks_configuration(error):
            raise error
        log.info("sending plugin %s at %s its configuration again", self.name, endpoint.target)
        await plugin_control.configure(endpoint.channel, self._configurations, self._config_hash(), seconds)

    def _choose_endpoint(self, endpoints: Sequence[remote_endpoint.Endpoint]) -> remote_endpoint.Endpoint:
        """The endpoint with the fewest calls; those that failed lately come last.

        Raises: PluginError: there is none, because none of those that its Service has is ready.
        """
        if not endpoints:
            raise PluginError("none of its endpoints is ready")
        now = self._clock()
        return min(endpoints, key=lambda endpoint: (endpoint.avoid_until > now, endpoint.busy))

    def _admit(self, method: Method[Any]) -> int:
        """Return the breaker's period of a call that may be made now. Its end is to be reported, however it ends.

        Raises: NotCalled.
        """
        if not self._budget.admits():
            raise NotCalled(f"{method.name} was not called: the plugin is bypassed, as calls have used up its budget")
        admitted = self._health.admit(method.name)
        if isinstance(admitted, str):
            raise NotCalled(admitted)
        return admitted

    def _avoid_for_a_while(self, endpoint: remote_endpoint.Endpoint) -> None:
        """Prefer other endpoints for a while, and open another channel to this one if need be."""
        endpoint.avoid_until = self._clock() + AVOID_SECONDS
        endpoint.renew()

    def _on_answer(self, endpoint: remote_endpoint.Endpoint, method: Method[Any]) -> None:
        """Record a usable answer: endpoint and plugin work."""
        endpoint.avoid_until = 0.0
        self._health.record_answer(method.name)

    def _on_rpc_error(
        self, endpoint: remote_endpoint.Endpoint, method: Method[Any], period: int, error: aio.AioRpcError
    ) -> PluginError:
        """Record a call that gRPC failed, and return what to raise; a rejected request is no failure of the plugin."""
        if error.code() in _REQUEST_ERRORS:
            text = f"{endpoint.target}: {endpoint.error_line(error)}"
            self._health.record_rejected_request(method.name, text)
            return PluginError(text)
        text = endpoint.error_line(error)
        self._avoid_for_a_while(endpoint)
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            text = f"no answer within {self._deadline * 1000:g} ms (remotePlugins[].deadline)"
        return self._on_failure(endpoint, method, period, text)

    def _on_failure(
        self, endpoint: remote_endpoint.Endpoint, method: Method[Any], period: int, text: str
    ) -> PluginError:
        """Record a failure of the plugin, and return what to raise."""
        text = f"{endpoint.target}: {text}"
        self._health.record_failure(method.name, period, text)
        return PluginError(text)


def _is_behind(error: aio.AioRpcError) -> bool:
    """Whether a plugin that follows the cluster has not reached the call's generation."""
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return False
    return not fencing.reason_of(error)
