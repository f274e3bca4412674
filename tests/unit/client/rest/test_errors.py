"""Errors of the API server are classified by what the caller does next."""

import orjson
import pytest

from trireme_kube.client.rest import errors


def _status(code: int, reason: str, **more: object) -> bytes:
    return orjson.dumps({"kind": "Status", "code": code, "reason": reason, "message": "no", **more})


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason", "message", "retry_after"),
    [
        pytest.param(404, {}, _status(404, "NotFound"), "NotFound", "no", None, id="status-object"),
        pytest.param(
            429, {"Retry-After": "3"}, _status(429, "TooManyRequests"), "TooManyRequests", "no", 3.0, id="header"
        ),
        pytest.param(
            429,
            {},
            _status(429, "TooManyRequests", details={"retryAfterSeconds": 7}),
            "TooManyRequests",
            "no",
            7.0,
            id="details",
        ),
        pytest.param(502, {}, b"<html>\nbad gateway", "", "<html> bad gateway", None, id="a-proxy-answers"),
        pytest.param(503, {"Retry-After": "soon"}, b"", "", "Unavailable", None, id="empty-body"),
        pytest.param(503, {"Retry-After": "\u00b2"}, b"", "", "Unavailable", None, id="odd-digit"),
        pytest.param(500, {}, b'{"kind":"Other"}', "", '{"kind":"Other"}', None, id="json-but-no-status"),
        pytest.param(500, {}, b'{"kind":"Status","details":7}', "", "no message given", None, id="odd-fields"),
    ],
)
def test_an_answer_becomes_an_error_with_its_reason(
    status: int, headers: dict[str, str], body: bytes, reason: str, message: str, retry_after: float | None
) -> None:
    """If this fails, messages of the server do not reach conditions and logs, or its Retry-After is ignored."""
    error = errors.from_response(status, "Unavailable", headers, body)
    assert (error.status, error.reason, error.message, error.retry_after) == (status, reason, message, retry_after)


@pytest.mark.parametrize(
    ("status", "reason", "retry_after", "transient", "maybe_applied"),
    [
        pytest.param(400, "BadRequest", None, False, False, id="bad-request"),
        pytest.param(409, "Conflict", None, False, False, id="conflict"),
        pytest.param(429, "TooManyRequests", 1.0, True, False, id="shed-load"),
        pytest.param(500, "InternalError", None, True, True, id="internal"),
        pytest.param(503, "ServiceUnavailable", None, True, True, id="unavailable"),
        pytest.param(503, "ServiceUnavailable", 1.0, True, False, id="unavailable-come-back"),
        pytest.param(504, "Timeout", None, True, True, id="timeout"),
    ],
)
def test_errors_say_whether_the_write_may_have_happened(
    status: int, reason: str, retry_after: float | None, transient: bool, maybe_applied: bool
) -> None:
    """If this fails, a write that may have happened is reported as one that has not, or the other way round."""
    error = errors.ApiError(status, reason, "", retry_after)
    assert (error.transient, error.maybe_applied) == (transient, maybe_applied)


@pytest.mark.parametrize(
    ("status", "body", "not_found"),
    [
        pytest.param(404, _status(404, "NotFound"), True, id="no-such-object"),
        pytest.param(404, b"404 page not found\n", True, id="unserved-path"),
        pytest.param(404, b"<html>\n404 Not Found", False, id="a-proxy-answers"),
        pytest.param(404, b"", False, id="empty-body"),
        pytest.param(403, _status(403, "Forbidden"), False, id="forbidden"),
    ],
)
def test_only_the_api_server_says_that_something_does_not_exist(status: int, body: bytes, not_found: bool) -> None:
    """If this fails, a proxy without a backend makes pods, claims and whole collections vanish."""
    assert errors.from_response(status, "Not Found", {}, body).not_found is not_found


@pytest.mark.parametrize(("status", "reason"), [(410, ""), (410, "Expired"), (200, "Gone"), (400, "Expired")])
def test_an_expired_version_is_recognised_in_all_its_forms(status: int, reason: str) -> None:
    """If this fails, an informer keeps asking for a version that the server has forgotten."""
    assert errors.ApiError(status, reason, "").expired
    assert not errors.ApiError(404, "NotFound", "").expired
