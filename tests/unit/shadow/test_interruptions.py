"""Interruptions: a server that hangs is noticed, and all that one cause interrupts is one line."""

import asyncio
from typing import cast

import pytest

from trireme.shadow import interruptions
from trireme_kube.client.informers import resources
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

_NODES = resources.NODES
_KINDS = dict.fromkeys(("pods", "nodes", "services", "claims"), "https://h: refused")


class _Server:
    """Answers reads with one page, an error, or not at all."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False

    async def read(self, path: str, params: object = None, deadline: float = 0.0) -> client.ApiResponse:
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return client.ApiResponse(200, {}, b'{"metadata":{"resourceVersion":"7"},"items":[]}')


async def _probe(*, hangs: bool, error: Exception | None) -> tuple[float, float]:
    """Since when the server is silent, and then once it answers again."""
    server, moments = _Server(), iter([100.0, 105.0, 110.0])
    probe = interruptions.ServerProbe(cast("client.ApiClient", server), _NODES, lambda: next(moments), deadline=0.01)
    server.hangs, server.error = hangs, error
    await probe.probe()
    await probe.probe()
    silent = probe.silent_since
    server.hangs, server.error = False, None
    await probe.probe()
    return silent, probe.silent_since


@pytest.mark.parametrize(
    ("hangs", "error", "since"),
    [
        pytest.param(True, None, 100.0, id="hangs"),
        pytest.param(False, ApiUnreachable("h: refused", sent=False), 100.0, id="unreachable"),
        pytest.param(False, ApiError(429, "TooManyRequests", "later"), 0.0, id="busy"),
        pytest.param(False, None, 0.0, id="answers"),
    ],
)
def test_a_server_that_does_not_answer_is_noticed(hangs: bool, error: Exception | None, since: float) -> None:
    """A watch over which nothing comes looks like that of a quiet cluster."""
    assert asyncio.run(_probe(hangs=hangs, error=error)) == (since, 0.0)


def test_what_one_cause_interrupts_is_one_line_with_since_when() -> None:
    """Nineteen lines at each interval hide everything else, and nobody knows how long it has been so."""
    found = interruptions.Interruptions()
    found.update(_KINDS, 0.0, 1000.0)
    found.update({**_KINDS, "leases": "x"}, 0.0, 1010.0)
    assert found.lines(1060.0) == [
        "since 00:16:40 UTC (60 s) the watch of pods, nodes and 3 other kinds is interrupted, so what is shown of them "
        "is from that time: https://h: refused"
    ]


def test_a_silent_server_counts_from_its_first_request_without_an_answer() -> None:
    """It is noticed some seconds later than it began."""
    found = interruptions.Interruptions()
    found.update({}, 990.0, 1000.0)
    assert found.lines(1000.0) == [
        "since 00:16:30 UTC (10 s) the API server does not answer, so what is shown is from that time"
    ]


def test_an_interruption_that_is_over_stays_in_the_report() -> None:
    """The last report of a run has to say how long it saw nothing."""
    found = interruptions.Interruptions()
    assert found.lines(0.0) == []
    for began, ended in ((1000.0, 1010.0), (2000.0, 2050.0)):
        found.update(_KINDS, 0.0, began)
        found.update({}, 0.0, ended)
    assert found.lines(3000.0) == [
        "interrupted so far: 2 times, 60 s in all; the last time from 00:33:20 to 00:34:10 UTC"
    ]
