"""Catching up goes on until it succeeds, and says why it has not."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme.frontend import catching_up
from trireme_kube.client.informers import resources
from trireme_kube.client.rest.errors import ApiUnreachable


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
