"""An HTTP site of exact paths: authenticates, authorises, then serves the page.

Its responses have the headers of Kubernetes' components. The same site can be served twice: guarded over TLS, and
unguarded on a Unix socket that only this user can open.

Tests: tests/contract/test_serving_http.py, tests/security/test_https_attacks.py.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from aiohttp import web

from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.server import status_documents
from trireme_kube.componentbase.server.authentication import ReviewError, Unauthenticated, User
from trireme_kube.componentbase.server.authorization import AccessVerdict, forbidden_message

log = logging.getLogger(__name__)

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"

BODY_SECONDS = 32.0
"""Within this time after its headers the body of a request must be complete."""

# A response of this size or more is chunked, as Go's server sends what does not fit its first buffer.
_CHUNKED_BYTES = 2048
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as far as pages read it. `query` has all values of each name."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. `closes` the connection: what comes next on it is not the next request."""

    body: bytes
    content_type: str = PLAIN
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    closes: bool = False

    @staticmethod
    def of(document: status_documents.Document, *, sniff: bool = True) -> "Reply":
        """The response with a document; `sniff` False tells browsers not to guess its type."""
        headers = {} if sniff else dict(_NOSNIFF)
        if document.warning:
            headers["Warning"] = document.warning
        return Reply(document.body.encode(), document.content_type, document.status, headers)


def text(body: str, status: int = 200, content_type: str = PLAIN) -> Reply:
    """A text that browsers show as one."""
    return Reply(body.encode(), content_type, status, _NOSNIFF)


NOT_FOUND = text("404 page not found\n", 404)

#: A page; None: there is nothing at that path.
#: Implementers: trireme.frontend.serving.serving_site, trireme_kube.componentbase.server.plain_server,
#: trireme_kube.componentbase.server.profiling.
Page = Callable[[Request], Awaitable[Reply | None]]


class Guard(Protocol):
    """Authenticates and authorises callers.

    Implementers: trireme_kube.componentbase.server.access_metrics.MeasuredGuard,
    trireme.delegated_access.delegated_guard.DelegatedGuard.
    """

    async def authenticate(self, headers: Sequence[tuple[str, str]], certificate: bytes | None) -> User:
        """Find the caller by headers and client certificate. Raises: Unauthenticated."""
        ...

    async def authorize(self, user: User, verb: str, path: str) -> AccessVerdict:
        """Return whether the user may do this to the path. Raises: ReviewError: the API server could not say."""
        ...


class Site:
    """Pages by path; a path that ends in `/*` stands for all below it."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = dict(pages)

    async def answer(self, request: Request) -> Reply:
        """The page at the path."""
        page = self._pages.get(request.path) or self._page_above(request.path)
        reply = await page(request) if page is not None else None
        return NOT_FOUND if reply is None else reply

    def application(self, guard: Guard | None) -> web.Application:
        """The site for aiohttp; without a guard, every caller that can reach it may read everything."""

        async def reply_if_allowed(request: web.Request) -> Reply:
            return await self._reply_if_allowed(request, guard)

        return make_application(reply_if_allowed)

    async def _reply_if_allowed(self, request: web.Request, guard: Guard | None) -> Reply:
        """Answer a request that the guard lets pass; every failure becomes a reply."""
        try:
            refused = None if guard is None else await _reply_of_refusal(request, guard)
            if refused is not None:
                return refused
            query: dict[str, list[str]] = {}
            for name, value in request.query.items():
                query.setdefault(name, []).append(value)
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read() if request.can_read_body else b""
            return await self.answer(Request(request.method, request.path, query, request.headers, body))
        except web.HTTPException:
            raise
        except TimeoutError:
            # What comes next is still the body.
            return replace(text("408 request timeout\n", 408), closes=True)
        except ReviewError as error:
            log.error("a request cannot be authorised: %s; its sender has to try again", error)
            return text(f'Internal Server Error: "{request.path}": {error}\n', 500)
        except Exception as error:
            log.exception("a request cannot be answered: %s %s; report this defect", request.method, request.path)
            return text(f'Internal Server Error: "{request.path}": {error}\n', 500)

    def _page_above(self, path: str) -> Page | None:
        """Return the page of the nearest `/*` above the path; None if there is none."""
        above = path
        while "/" in above[1:]:
            above = above.rpartition("/")[0]
            page = self._pages.get(f"{above}/*")
            if page is not None:
                return page
        return None


def make_application(reply_to: Callable[[web.Request], Awaitable[Reply]]) -> web.Application:
    """Make the application that answers every request by `reply_to`, and logs it, as Kubernetes' components do."""

    async def handle_request(request: web.Request) -> web.StreamResponse:
        started = time.perf_counter()
        reply = await reply_to(request)
        _log_request(request, reply, time.perf_counter() - started)
        return _to_aiohttp_response(request, reply)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle_request)
    application.on_response_prepare.append(_without_server_header)
    return application


def client_certificate(request: web.Request) -> bytes | None:
    """The certificate that the caller showed on its connection, DER; None without one."""
    transport = request.transport
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    return tls.getpeercert(binary_form=True) if tls is not None else None


async def _reply_of_refusal(request: web.Request, guard: Guard) -> Reply | None:
    """The reply to a caller who may not read the page; None: the caller may."""
    pretty = status_documents.is_for_people(request.headers.get("User-Agent", ""), request.query.get("pretty"))
    try:
        user = await guard.authenticate(tuple(request.headers.items()), client_certificate(request))
    except Unauthenticated:
        return Reply.of(status_documents.failure(401, "Unauthorized", "Unauthorized", pretty=pretty))
    verb = request.method.lower()
    verdict = await guard.authorize(user, verb, request.path)
    if verdict.allowed:
        return None
    message = forbidden_message(user, verb, request.path, verdict.reason)
    return Reply.of(status_documents.failure(403, "Forbidden", message, details=True, pretty=pretty), sniff=False)


def _to_aiohttp_response(request: web.Request, reply: Reply) -> web.Response:
    """Make aiohttp's response; long ones are sent in chunks, as the reference does."""
    headers = {"Cache-Control": "no-cache, private", "Content-Type": reply.content_type, **reply.headers}
    response = web.Response(body=reply.body, status=reply.status, headers=headers)
    if reply.closes:
        response.force_close()
    streamed = len(reply.body) > _CHUNKED_BYTES or "Content-Encoding" in reply.headers
    if streamed and request.method != "HEAD" and request.version >= (1, 1):
        response.enable_chunked_encoding()
    return response


async def _without_server_header(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.pop("Server", None)


def _log_request(request: web.Request, reply: Reply, seconds: float) -> None:
    """Log a request as the reference does, at its level; the audit ID is always empty."""
    if klog.enabled(log, 3):
        klog.info(
            log,
            3,
            "HTTP",
            verb=request.method,
            URI=request.path_qs,
            latency=_duration_text(seconds),
            userAgent=request.headers.get("User-Agent", ""),
            contentType=request.headers.get("Content-Type", ""),
            **{"audit-ID": ""},
            srcIP=_caller_address(request),
            resp=reply.status,
        )


def _duration_text(seconds: float) -> str:
    """A duration in Go's format."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1e3:.10g}µs"
    return f"{nanoseconds / 1e6:.10g}ms" if nanoseconds < 1_000_000_000 else f"{nanoseconds / 1e9:.10g}s"


def _caller_address(request: web.Request) -> str:
    """Address and port of the caller."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if not isinstance(peer, tuple):
        return request.remote or ""
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
