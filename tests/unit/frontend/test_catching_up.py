"""Catching up goes on until it succeeds, or is refused for long, and says why it has not."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme.frontend import catching_up
from trireme_kube.client.informers import resources
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable


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
        await catching_up.catch_up_with(claims, "team", "c")
        assert clock() - started == pytest.approx(catching_up.CATCH_UP_SECONDS + 2 * catching_up.CATCH_UP_RETRY_SECONDS)

    virtual_time.run(main)
    assert claims.calls == [("team", "c", catching_up.CATCH_UP_SECONDS)] * 3
    what = "resourceclaims: what was written into team/c is not known yet: "
    assert [record.message for record in caplog.records] == [f"{what}no answer", f"{what}not shown within 60 s"]


PAGE = "docs/troubleshooting.md#missing-permissions"
REFUSED = ApiError(403, "Forbidden", "resourceclaims is forbidden")


class _RefusedInformer:
    """One whose collection the API server refuses to list, until a time."""

    def __init__(self, resource: resources.Resource, until: float, clock: Callable[[], float]) -> None:
        self.resource = resource
        self._until = until
        self._clock = clock

    async def catch_up(self, deadline: float) -> int:
        """As Informer.catch_up."""
        if self._clock() < self._until:
            raise REFUSED
        return 7


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

    async def main(clock: Callable[[], float]) -> None:
        entry: Any = _RefusedInformer(resource, clock() + until, clock)
        started = clock()
        waiting = asyncio.ensure_future(catching_up.catch_up(entry, problems))
        await asyncio.sleep(2.0)
        what = "the writes of an earlier leader are not known yet"
        assert problems == {resource.name: f"{what}: resourceclaims is forbidden (403 Forbidden) ({PAGE})"}
        await waiting
        assert clock() - started == pytest.approx(takes, abs=catching_up.CATCH_UP_RETRY_SECONDS)

    virtual_time.run(main)
    assert problems == {}
    warned, *more = caplog.messages
    assert (resource.name in warned, PAGE in warned) == (True, True)
    assert [text for text in more if "going on with what was listed before" in text and PAGE in text] == more
    assert len(more) == goes_on
