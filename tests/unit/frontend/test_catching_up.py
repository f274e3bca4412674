"""Catching up goes on until it succeeds, or is refused for long, and says why it has not."""

import asyncio
import math
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme.frontend import catching_up
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable


def _pods(statuses: Callable[[], int] = int) -> Any:
    """The informer of pods, with the status of its last failure."""
    unread = ("pods", "watching", True, 0, 0, 0, 0, 0, 0, 0, 0, 0, "")
    return types.SimpleNamespace(statistics=lambda: informer.InformerStatistics(*unread, statuses()))


class _Informer:
    """One that catches up at the third attempt."""

    resource = resources.RESOURCE_CLAIMS

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, float]] = []

    async def catch_up_with(self, namespace: str, name: str, deadline: float) -> None:
        """As Informer.catch_up_with."""
        self.calls.append((namespace, name, deadline))
        if len(self.calls) == 1:
            raise ApiUnreachable("no answer", sent=True)
        if len(self.calls) == 2:
            await asyncio.sleep(deadline)
            raise TimeoutError


def test_a_claim_is_waited_for_until_it_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, one failed read gives the devices of a claim to another pod."""
    claims: Any = _Informer()

    async def main(clock: Callable[[], float]) -> None:
        started = clock()
        await catching_up.catch_up_with(claims, "team", "c", _pods())
        assert clock() - started == pytest.approx(catching_up.CATCH_UP_SECONDS + 2 * catching_up.CATCH_UP_RETRY_SECONDS)

    virtual_time.run(main)
    assert claims.calls == [("team", "c", catching_up.CATCH_UP_SECONDS)] * 3
    what = "resourceclaims: what was written into team/c is not known yet: "
    assert caplog.messages == [f"{what}{why}; it is tried again" for why in ("no answer", "not shown within 60 s")]


PAGE = "https://trireme.dev/docs/troubleshooting.html#missing-permissions"
REFUSED = ApiError(403, "Forbidden", "resourceclaims is forbidden")


class _RefusedInformer:
    """One whose collection the API server refuses, until a time."""

    def __init__(
        self, resource: resources.Resource, until: float, clock: Callable[[], float], error: ApiError = REFUSED
    ) -> None:
        self.resource = resource
        self.caught_up = False
        self._until = until
        self._clock = clock
        self._error = error

    async def catch_up(self, deadline: float) -> int:
        """As Informer.catch_up."""
        if self._clock() < self._until:
            raise self._error
        self.caught_up = True
        return 7

    async def catch_up_with(self, namespace: str, name: str, deadline: float) -> None:
        """As Informer.catch_up_with."""
        await self.catch_up(deadline)


@pytest.mark.parametrize(
    ("resource", "until", "takes", "goes_on"),
    [
        (resources.RESOURCE_CLAIMS, 4.0, 4.0, False),
        (resources.RESOURCE_CLAIMS, 1e9, catching_up.REFUSED_SECONDS, True),
        (resources.PERSISTENT_VOLUMES, 1e9, catching_up.REFUSED_SECONDS, True),
        (resources.PODS, 300.0, 300.0, False),
    ],
    ids=["for a moment", "claims", "volumes", "pods"],
)
def test_a_leader_goes_on_without_claims_that_it_may_not_list(
    resource: resources.Resource, until: float, takes: float, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a role that lost one line stops all scheduling at the next change of leaders."""
    problems: dict[str, str] = {}
    given_up: dict[str, str] = {}

    async def main(clock: Callable[[], float]) -> None:
        started = clock()
        others = {resources.PODS} - {resource}
        entries: list[Any] = [_RefusedInformer(resource, started + until, clock)]
        entries += [_RefusedInformer(each, started, clock) for each in others]
        waiting = asyncio.ensure_future(catching_up.catch_up(entries, problems, given_up))
        await asyncio.sleep(2.0)
        what = "the writes of an earlier leader are not known yet"
        assert problems == {resource.name: f"{what}: resourceclaims is forbidden (403 Forbidden) ({PAGE})"}
        await waiting
        assert clock() - started == pytest.approx(takes, abs=2 * catching_up.CATCH_UP_RETRY_SECONDS)

    virtual_time.run(main)
    assert problems == {}
    assert given_up == ({resource.name: f"resourceclaims is forbidden (403 Forbidden) ({PAGE})"} if goes_on else {})
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text for text in warned if resource.name in text and PAGE in text] == warned
    assert len(warned) == math.ceil(takes / catching_up.REPEAT_WARNING_SECONDS)
    assert [PAGE in each.message and "going on with what was listed before" in each.message for each in errors] == (
        [True] * goes_on
    )


@pytest.mark.parametrize("status", [401, 403])
def test_claims_are_shown_before_pods_are_scheduled_where_all_was_refused_for_a_while(status: int) -> None:
    """An API server that restarts refuses everything: if this fails, a leader gives devices twice after that."""

    async def main(clock: Callable[[], float]) -> None:
        allowed_at = clock() + 3 * catching_up.REFUSED_SECONDS
        refused = ApiError(status, "refused", "not yet")
        kinds = [resources.RESOURCE_CLAIMS, resources.PERSISTENT_VOLUMES]
        entries: list[Any] = [
            _RefusedInformer(resources.PODS, allowed_at, clock, refused),
            # Another replica of the API server reads the roles a moment later.
            *(_RefusedInformer(each, allowed_at + 5.0, clock, refused) for each in kinds),
        ]
        await catching_up.catch_up(entries, {}, {})
        assert [entry.caught_up for entry in entries] == [True] * 3

    virtual_time.run(main)


def test_what_a_leader_goes_on_without_is_caught_up_once_it_may_be_read(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, an informer may pause for a minute, and /readyz goes on warning."""
    caplog.set_level("INFO")

    async def main(clock: Callable[[], float]) -> None:
        claims: Any = _RefusedInformer(resources.RESOURCE_CLAIMS, clock() + 25.0, clock)
        volumes: Any = _RefusedInformer(resources.PERSISTENT_VOLUMES, clock(), clock)
        given_up = {resources.RESOURCE_CLAIMS.name: "no"}
        trying = asyncio.ensure_future(catching_up.keep_catching_up([claims, volumes], given_up))
        await asyncio.sleep(24.0)
        assert given_up
        await asyncio.sleep(1.0 + catching_up.GIVEN_UP_SECONDS)
        assert (given_up, claims.caught_up, volumes.caught_up) == ({}, True, False)
        trying.cancel()

    virtual_time.run(main)
    assert caplog.messages == ["resourceclaims: what earlier leaders wrote is known by now"]


@pytest.mark.parametrize("all_refused_for", [0.0, 30.0])
def test_a_pod_goes_back_without_a_claim_that_may_not_be_read(
    all_refused_for: float, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a pod whose binding is undone waits, assumed, until somebody gives the role back."""

    async def main(clock: Callable[[], float]) -> None:
        started = clock()
        claims: Any = _RefusedInformer(resources.RESOURCE_CLAIMS, 1e12, clock)
        pods = _pods(lambda: 403 if clock() < started + all_refused_for else 0)
        await catching_up.catch_up_with(claims, "team", "c", pods)
        assert clock() - started == pytest.approx(all_refused_for + catching_up.REFUSED_SECONDS, abs=1.0)

    virtual_time.run(main)
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "given a second time" in caplog.messages[-1]
