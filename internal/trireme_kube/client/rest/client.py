"""Raw requests to an API server.

Why not the `kubernetes` package: a generated call costs half a millisecond and its models three milliseconds a pod.
`transport` has the connections; writes, two per pod, go over connections of our own. Bodies are bytes, or plain JSON
values encoded by orjson; responses are bytes, in JSON unless the caller requests another encoding.

Every request has a deadline, waits for the client's rate limit, and ends in an `ApiResponse`, an `ApiError` or an
`ApiUnreachable`. The client retries reads (`read`), a GET once if an idle connection turns out to be closed, and any
request once, with renewed credentials, if the server rejects it with 401. Callers retry writes, since only they know
whether that is safe.

One client belongs to one event loop and has one rate limit (`qps`, `burst`): the frontend has one for its informers,
one for events and, in another thread, one for its Lease.

Tests: tests/contract/test_kube_client.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
import types
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import orjson
import tenacity

from trireme_kube.apimachinery.api_writes import STRATEGIC_MERGE
from trireme_kube.client.rest import credentials, errors, ratelimit, transport, transport_config
from trireme_kube.client.rest.content_types import JSON
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

DEFAULT_DEADLINE_SECONDS = 30.0
DEFAULT_QPS = 50.0
DEFAULT_BURST = 100

Body = bytes | Mapping[str, Any] | None
Params = Mapping[str, str | int]
#: Implementers: trireme.frontend.scheduler_metrics.SchedulerMetrics.request_observer.
Observer = Callable[[str, int, float, float], None]


@dataclasses.dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client.

    `accept`: the encodings that informers request; everything else is requested in JSON.

    Units: qps in requests a second (negative: unlimited).
    """

    source: credentials.Source
    user_agent: str = "trireme-kube"
    qps: float = DEFAULT_QPS
    burst: int = DEFAULT_BURST
    max_connections: int = 64
    accept: str = JSON


@dataclasses.dataclass(frozen=True, slots=True)
class ApiResponse:
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Decode the body.

        Raises:
          ApiError: the body is not JSON, so the responder is no API server.
        """
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            text = " ".join(self.body[:100].decode("utf-8", "replace").split())
            raise ApiError(502, "", f"the answer is not JSON: {text!r}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class ClientStatistics:
    """Counters of a client since its construction."""

    requests: int  # requests sent, watches and retries included
    failures: int  # requests that ended in an error
    in_flight: int  # requests under way
    throttled: int  # requests that waited for the rate limit
    throttled_seconds: float  # how long they waited, together


class ApiClient:
    """A connection pool to one API server, with one identity and one rate limit. Make it with `connect`."""

    def __init__(
        self,
        identity: credentials.Credentials,
        settings: ClientSettings,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`observer` gets each request's method, status (0: no response), seconds, and seconds of throttling."""
        self._identity = identity
        self._settings = settings
        self._observer = observer
        self._clock = clock
        self._bucket = ratelimit.TokenBucket(settings.qps, settings.burst)
        self._transport = transport.Transport(identity, settings.user_agent, settings.max_connections)
        self._requests = self._failures = self._in_flight = self._throttled = 0
        self._throttled_seconds = 0.0

    @property
    def client_certificate(self) -> tuple[str, str] | None:
        """The origin of the client certificate for people, and a file that contains it; None: we present none."""
        file = self._identity.config.cert_file
        if not file:
            return None
        return (self._settings.source.kubeconfig if transport_config.is_in_memory(file) else file), file

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        await self.close()

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._identity.host

    @property
    def accept(self) -> str:
        """The encodings that informers request."""
        return self._settings.accept

    def observe(self, observer: Observer) -> None:
        """Replace the observer of requests."""
        self._observer = observer

    def statistics(self) -> ClientStatistics:
        """A snapshot of the counters."""
        return ClientStatistics(
            self._requests, self._failures, self._in_flight, self._throttled, self._throttled_seconds
        )

    def rate_limit_delay(self) -> float:
        """How long a request sent now would wait for the rate limit. Units: seconds."""
        return self._bucket.delay(self._clock())

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._transport.close()

    async def get(
        self,
        path: str,
        params: Params | None = None,
        *,
        accept: str = JSON,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
    ) -> ApiResponse:
        """Send one GET, without retries."""
        return await self.request("GET", path, params=params, accept=accept, deadline=deadline)

    async def post(
        self, path: str, body: Body, params: Params | None = None, *, deadline: float = DEFAULT_DEADLINE_SECONDS
    ) -> ApiResponse:
        """Send one POST."""
        return await self.request("POST", path, body, params, deadline=deadline)

    async def put(
        self, path: str, body: Body, params: Params | None = None, *, deadline: float = DEFAULT_DEADLINE_SECONDS
    ) -> ApiResponse:
        """Send one PUT."""
        return await self.request("PUT", path, body, params, deadline=deadline)

    async def patch(
        self,
        path: str,
        body: Body,
        params: Params | None = None,
        *,
        content_type: str = STRATEGIC_MERGE,
        accept: str = JSON,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
    ) -> ApiResponse:
        """Send one PATCH."""
        return await self.request(
            "PATCH", path, body, params, content_type=content_type, accept=accept, deadline=deadline
        )

    async def delete(
        self,
        path: str,
        body: Body = None,
        params: Params | None = None,
        *,
        accept: str = JSON,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
    ) -> ApiResponse:
        """Send one DELETE; the body is its DeleteOptions."""
        return await self.request("DELETE", path, body, params, accept=accept, deadline=deadline)

    async def read(
        self, path: str, params: Params | None = None, *, deadline: float = DEFAULT_DEADLINE_SECONDS
    ) -> ApiResponse:
        """Send a GET and retry it, with jitter, while the server is busy or unreachable and the deadline permits."""
        end = self._clock() + deadline
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_worth_repeating),
            wait=lambda state: max(_retry_after_seconds(state), _backoff(state)),
            stop=lambda state: self._clock() + state.upcoming_sleep >= end,
            reraise=True,
        ):
            with attempt:
                return await self.get(path, params, deadline=max(end - self._clock(), 0.001))
        raise AssertionError("tenacity ends with a result or an exception")

    async def request(
        self,
        method: str,
        path: str,
        body: Body = None,
        params: Params | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        deadline: float = DEFAULT_DEADLINE_SECONDS,
    ) -> ApiResponse:
        """Send one request and read the whole response. `path` is sent as given: callers quote its segments.

        It is sent again after a 401, with renewed credentials, or if the connection of a GET was dropped.

        Raises:
          ApiError: the server answered with a status of 400 or more.
          ApiUnreachable: no complete response came before the deadline.
        """
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
        target = _request_target(path, params)
        end = self._clock() + deadline
        for attempt in (1, 2):
            if self._transport.refresh_due():
                await self._transport.refresh()
            headers = self._transport.headers(content_type, accept)
            try:
                return await self._send_once(method, target, headers, body, end)
            except ApiError as error:
                if error.status != 401 or attempt == 2 or not await self._transport.refresh(headers):
                    raise
            except ApiUnreachable as error:
                if method != "GET" or attempt == 2 or not error.dropped:
                    raise
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params | None = None, *, total: float, idle: float, accept: str = JSON
    ) -> AsyncIterator[transport.ByteStream]:
        """Open an endless response (a watch); it ends after `total` seconds, or `idle` seconds without a byte.

        Raises:
          ApiError: the server refused it.
          ApiUnreachable: it could not be opened, or broke.
        """
        if self._transport.refresh_due():
            await self._transport.refresh()
        waited = await self._wait_for_rate_limit(idle)
        headers = self._transport.headers(JSON, accept)
        self._requests += 1
        started = self._clock()
        async with AsyncExitStack() as stack:
            opening = self._transport.stream(_request_target(path, params), headers, total=total, idle=idle)
            try:
                stream = await stack.enter_async_context(opening)
            except ApiUnreachable:
                self._failures += 1
                self._report_to_observer("GET", 0, started, waited)
                raise
            self._report_to_observer("GET", stream.status, started, waited)
            if stream.status >= 300:
                self._failures += 1
                body = await stream.read_all()
                if stream.status == 401:
                    await self._transport.refresh(headers)  # for the caller's next attempt
                raise errors.from_response(stream.status, stream.reason, stream.headers, body)
            yield stream

    async def _send_once(
        self, method: str, target: str, headers: credentials.Headers, body: bytes | None, end: float
    ) -> ApiResponse:
        """Send a request once, after the wait for the rate limit, and count it. Raises: ApiError from status 300."""
        waited = await self._wait_for_rate_limit(end - self._clock())
        started = self._clock()
        remaining = max(end - started, 0.001)
        self._requests += 1
        self._in_flight += 1
        status = 0
        try:
            response = await self._transport.send(method, target, headers, body, remaining)
            status = response.status
            if status >= 300:
                raise errors.from_response(status, response.reason, response.headers, response.body)
            return ApiResponse(status, response.headers, response.body)
        except (ApiError, ApiUnreachable):
            self._failures += 1
            raise
        finally:
            self._in_flight -= 1
            self._report_to_observer(method, status, started, waited)

    async def _wait_for_rate_limit(self, deadline: float) -> float:
        """Wait for the rate limit if it lets us through within `deadline`; return how long it took."""
        wait = self._bucket.take(self._clock())
        if wait <= 0:
            return 0.0
        if wait >= deadline:
            self._bucket.give_back()
            raise ApiUnreachable(
                f"the client's own rate limit ({self._settings.qps:g} requests a second) would delay this request "
                f"by {wait:.1f} s, beyond its deadline",
                sent=False,
            )
        self._throttled += 1
        self._throttled_seconds += wait
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._bucket.give_back()
            raise
        return wait

    def _report_to_observer(self, method: str, status: int, started: float, waited: float) -> None:
        """Tell the observer, if there is one, of a request: its status, duration and wait for the rate limit."""
        if self._observer is not None:
            self._observer(method, status, self._clock() - started, waited)


async def connect(
    settings: ClientSettings, observer: Observer | None = None, clock: Callable[[], float] = time.monotonic
) -> ApiClient:
    """Make a client for the running event loop. Sends nothing yet.

    Raises:
      ConfigurationError: naming the file and the field at fault.
    """
    return ApiClient(await credentials.load(settings.source, clock), settings, observer, clock)


def timeout_parameter(deadline: float) -> dict[str, str | int]:
    """The timeout parameter of a request, so that the server aborts what its caller no longer waits for."""
    return {"timeout": f"{max(int(deadline), 1)}s"}


def _request_target(path: str, params: Params | None) -> str:
    return f"{path}?{urllib.parse.urlencode(params)}" if params else path


def _is_worth_repeating(error: BaseException) -> bool:
    return isinstance(error, ApiUnreachable) or (isinstance(error, ApiError) and error.transient)


_backoff = tenacity.wait_random_exponential(multiplier=0.2, max=5.0)


def _retry_after_seconds(state: tenacity.RetryCallState) -> float:
    """The Retry-After of the server's last response. Units: seconds."""
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0
