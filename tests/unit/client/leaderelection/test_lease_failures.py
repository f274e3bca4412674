"""Requests for the Lease that fail: what kube-scheduler logs of them, and what `trireme status` can show."""

import logging
from typing import Any, cast

import pytest

from trireme_kube.client.leaderelection import election, lease
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

FORBIDDEN = ApiError(403, "Forbidden", 'leases.coordination.k8s.io "l" is forbidden')
CONFLICT = ApiError(409, "Conflict", "the object has been modified")
NOT_FOUND = ApiError(404, "NotFound", "not found")
UNREACHABLE = ApiUnreachable("no answer", sent=True)
READ, CREATE, UPDATE = election.Read(5.0), election.Create({}, 5.0), election.Update({}, 5.0)


class Api:
    """Each request fails with `error`, or returns an empty Lease."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def get(self, *_: Any, **__: Any) -> "Api":
        if self._error is not None:
            raise self._error
        return self

    post = put = get

    def json(self) -> dict[str, Any]:
        return {}


def _elector() -> lease.LeaseElector:
    unused: Any = None
    return lease.LeaseElector(election.ElectionSettings("me", "ns", "l"), unused, lambda notice: None)


async def _execute(elector: lease.LeaseElector, instruction: Any, error: Exception | None) -> None:
    api: Any = Api(error)
    await elector._execute_instruction(api, instruction)


@pytest.mark.parametrize(
    ("instruction", "error", "text"),
    [
        (READ, FORBIDDEN, "Error retrieving lease lock"),
        (READ, UNREACHABLE, "Error retrieving lease lock"),
        (CREATE, FORBIDDEN, "Error initially creating lease lock"),
        (UPDATE, CONFLICT, "Failed to update lease"),
        (UPDATE, NOT_FOUND, "Failed to update lease"),
    ],
)
async def test_a_failure_is_logged_as_kube_scheduler_does(
    instruction: Any, error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At a lower level, a standby that can never lead looks healthy to all who filter the log."""
    elector = _elector()
    await _execute(elector, instruction, error)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, text)
    assert record.__dict__["values"] == {"lock": "ns/l", "err": str(error)}
    page = " (https://trireme.dev/docs/troubleshooting.html#missing-permissions)" if error is FORBIDDEN else ""
    assert elector.last_error == f"{error}{page}"


async def test_a_leaders_update_without_a_read_fails_quietly(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again at once the slow way; as an error it would cry wolf."""
    caplog.set_level(logging.DEBUG, "trireme_kube.client.leaderelection.lease")
    elector = _elector()
    elector._machine._optimistic = True
    await _execute(elector, UPDATE, CONFLICT)
    (record,) = caplog.records
    assert record.getMessage() == "Failed to update lease optimistically, falling back to slow path"
    assert record.levelno == logging.INFO - 2


async def test_the_error_ends_with_the_next_success(caplog: pytest.LogCaptureFixture) -> None:
    """A Lease that does not exist yet is no error, and one that can be read again has none."""
    elector = _elector()
    for answer in (NOT_FOUND, None):
        await _execute(elector, READ, FORBIDDEN)
        assert elector.last_error
        caplog.clear()
        await _execute(elector, READ, answer)
        assert (elector.last_error, caplog.records) == ("", [])


async def test_an_election_that_was_never_started_is_over() -> None:
    """A process that ends before it contends does not hang, and releases nothing."""
    elector = _elector()
    await elector.ended()
    await elector.stop()
    assert elector.remaining_seconds == 0.0
    assert elector.candidate_synced


def test_the_time_that_is_left_ends_with_the_lease() -> None:
    """What a leader promises bind: longer than its Lease, another one leads meanwhile."""
    now, unused = 100.0, cast(Any, None)
    elector = lease.LeaseElector(
        election.ElectionSettings("me", "ns", "l"), unused, lambda notice: None, clock=lambda: now
    )
    elector._publish_notice(election.Leading(7, 115.0, unused, renewal=False, predecessor_seconds=15.0))
    assert elector.remaining_seconds == 15.0
    now = 114.0
    elector._publish_notice(election.Observed("me"))
    assert elector.remaining_seconds == 1.0
    now = 116.0
    assert elector.remaining_seconds == 0.0
    now = 101.0
    elector._publish_notice(election.Lost("asked to stop"))
    assert elector.remaining_seconds == 0.0
