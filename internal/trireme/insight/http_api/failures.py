"""Failures of HTTP requests, as Kubernetes' `Status` objects that say what the caller can do.

Also change: docs/explain.md.

Tests: tests/unit/insight/http_api/test_recorded_moments.py, tests/security/test_insight_http.py.
"""

from collections.abc import Mapping

import grpc

from trireme.rpc import http_status
from trireme_kube.componentbase.server import http_site, status_documents

RETRY_SECONDS = 1


class HttpFailure(Exception):
    """The request is answered by a Status: its HTTP code, reason and message, and further headers."""

    def __init__(self, code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.headers = headers or {}

    def reply(self, *, pretty: bool) -> http_site.Reply:
        """The Status as a reply; `pretty`: indented for people."""
        document = status_documents.failure(self.code, self.reason, str(self), pretty=pretty)
        plain = http_site.Reply.of(document, sniff=False)
        return http_site.Reply(plain.body, plain.content_type, self.code, {**plain.headers, **self.headers})


def bad_request(message: str) -> HttpFailure:
    """The request has to be changed."""
    return HttpFailure(400, "BadRequest", message)


def unauthorized() -> HttpFailure:
    """The caller has to say who it is."""
    message = (
        "Unauthorized: send a token that the API server accepts (Authorization: Bearer TOKEN; kubectl create token "
        "makes one), or a client certificate of --http-client-ca-file"
    )
    return HttpFailure(401, "Unauthorized", message, {"WWW-Authenticate": "Bearer"})


def unavailable(message: str) -> HttpFailure:
    """The same request may succeed in a moment."""
    return HttpFailure(503, "ServiceUnavailable", message, _RETRY)


def too_many_requests() -> HttpFailure:
    """The caller has to wait."""
    return busy(
        f"too many requests of this caller at once: try again after {RETRY_SECONDS} s, and wait for each answer before "
        "the next request"
    )


def busy(message: str) -> HttpFailure:
    """All that there may be at once is in use."""
    return HttpFailure(429, "TooManyRequests", message, _RETRY)


def timed_out(seconds: float) -> HttpFailure:
    """The answer took too long."""
    message = f"no answer within {seconds:.0f} s: try again, without scores or about few nodes (nodes=a,b)"
    return HttpFailure(504, "Timeout", message, _RETRY)


def only_get() -> HttpFailure:
    """The method is not GET."""
    return HttpFailure(405, "MethodNotAllowed", "only GET is served here", {"Allow": "GET"})


def has_body() -> HttpFailure:
    """A GET has a body."""
    return bad_request("the request has a body: send none, all is in path and query")


def body_too_large() -> HttpFailure:
    """The body exceeds what the server takes (aiohttp's `client_max_size`)."""
    return HttpFailure(
        413, "RequestEntityTooLarge", "the body has more than 1 MiB: ask about fewer pods or nodes at once"
    )


def recording_timed_out(seconds: float) -> HttpFailure:
    """The answer about what was recorded took too long."""
    message = (
        f"no answer within {seconds:.0f} s: try again. Where the process that reads the recording hangs, it is "
        "ended and started again: the log of insight says so"
    )
    return HttpFailure(504, "Timeout", message, _RETRY)


def of_call(code: grpc.StatusCode, message: str) -> HttpFailure:
    """The failure of an RPC."""
    status = http_status.of_code(code)
    return HttpFailure(
        status, _REASONS.get(status, "InternalError"), message, _RETRY if status in (429, 503, 504) else None
    )


_RETRY = {"Retry-After": str(RETRY_SECONDS)}
_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
