"""Errors of requests to an API server, split by what the caller does next.

- `ConfigurationError` (apimachinery): the input is wrong. A person has to fix a file or a flag.
- `ApiError`: the server responded with an error. The request had no effect (but see `maybe_applied`).
- `ApiUnreachable`: there was no response. `sent` is whether the server may have acted on the request; if so, a writer
  reads the object back before it does anything else.
"""

import errno
from collections.abc import Mapping
from typing import Any

import orjson

from trireme_kube.client.rest import envelope
from trireme_kube.componentbase import documents

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TOO_MANY_REQUESTS = 401, 403, 404, 429

# The body of an API server's 404 for a path that it does not serve; for a path that it serves it sends a Status.
# Source: apiserver v0.37.0, pkg/util/notfoundhandler/not_found_handler.go.
_UNSERVED_PATH = "404 page not found"


class ApiError(Exception):
    """The API server answered with an error.

    Attributes:
      status: the HTTP status.
      reason: Kubernetes' word for it (`NotFound`, `Conflict`, `AlreadyExists`, `Expired` …), or "" if it gave none.
      message: the server's text for people.
      retry_after: the Retry-After in seconds, or None.
      details: the `details` of its Status object.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{message} ({status} {reason})" if reason else f"{message} ({status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.details: Mapping[str, Any] = details or {}

    @property
    def not_found(self) -> bool:
        """The object does not exist, or the server does not serve its kind.

        Only if the API server says so: a proxy without a backend answers 404 too, and knows of no object.
        """
        return self.status == 404 and (self.reason == "NotFound" or self.message == _UNSERVED_PATH)

    @property
    def denied(self) -> bool:
        """The server does not accept the caller's credentials, or does not let it do this."""
        return self.status in (UNAUTHORIZED, FORBIDDEN)

    @property
    def conflict(self) -> bool:
        """The write lost against another one, or the object to create exists."""
        return self.status == 409

    @property
    def already_exists(self) -> bool:
        """The object to create exists."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def expired(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def unknown_version(self) -> bool:
        """The server has not reached the requested resourceVersion yet."""
        return self.status == 504 and any(
            cause.get("reason") == "ResourceVersionTooLarge" for cause in self.details.get("causes") or ()
        )

    @property
    def transient(self) -> bool:
        """The same request may succeed later."""
        return self.status == TOO_MANY_REQUESTS or self.status >= 500

    @property
    def maybe_applied(self) -> bool:
        """Whether a write with this error may have happened all the same, for example after a time-out in etcd.

        A server that sheds load responds before it does anything: 429, and 503 with Retry-After, mean no.
        """
        return self.status >= 500 and not (self.status == 503 and self.retry_after is not None)


class ApiUnreachable(Exception):
    """No response came from the API server.

    Attributes:
      sent: whether the server may have received the request.
      refused: nothing listens at its address.
      dropped: the connection was closed, perhaps after idling too long; a new one may work.
    """

    def __init__(self, message: str, *, sent: bool, refused: bool = False, dropped: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.refused = refused
        self.dropped = dropped


class ApiSilent(ApiUnreachable):
    """A response had started, and no more of it arrived in time."""


def with_advice(error: Exception) -> str:
    """The error's text for people, with the page that says what to do about missing permissions."""
    return f"{error} ({documents.MISSING_PERMISSIONS})" if isinstance(error, ApiError) and error.denied else str(error)


def from_response(status: int, reason: str, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Make the error of a response: from its Status object if it has one, else from status line and body."""
    retry_after = _parse_retry_after(headers.get("Retry-After"))
    try:
        parsed = envelope.decode_status(body) if body.startswith(envelope.MAGIC) else orjson.loads(body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and parsed.get("kind") == "Status":
        return from_status(parsed, status, retry_after)
    text = " ".join(body[:200].decode("utf-8", "replace").split())
    return ApiError(status, "", text or reason or "no reason given", retry_after)


def from_status(obj: Mapping[str, Any], status: int = 0, retry_after: float | None = None) -> ApiError:
    """Make the error of a `Status` object: a response's body, or the object of a watch's ERROR event."""
    code = obj.get("code")
    details = obj.get("details")
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int) and seconds > 0:
        retry_after = float(seconds)
    return ApiError(
        status or (code if isinstance(code, int) else 500),
        str(obj.get("reason") or ""),
        str(obj.get("message") or "no message given"),
        retry_after,
        details,
    )


def is_connection_refused(error: BaseException) -> bool:
    """Whether the peer refused the connection, so that nothing was sent."""
    return isinstance(error, OSError) and error.errno == errno.ECONNREFUSED


def _parse_retry_after(text: str | None) -> float | None:
    """Parse a Retry-After in seconds; None if it is missing, or a date."""
    # The API server sends whole seconds, never an HTTP date.
    if text is None or not text.strip().isdecimal():
        return None
    return float(text)
