"""An informer that cannot read its collection says so as long as it cannot."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.helpers import virtual_time
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.componentbase import supervision

FORBIDDEN = ApiError(403, "Forbidden", 'storageclasses is forbidden: User "u" cannot list resource "storageclasses"')
TEXT = f"{FORBIDDEN} (https://trireme.dev/docs/troubleshooting.html#missing-permissions)"


class Api:
    """Refuses every request."""

    accept = "application/json"

    @contextlib.asynccontextmanager
    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[None]:
        """A watch, or a list that is streamed."""
        if self.accept:
            raise FORBIDDEN
        yield

    async def get(self, *_: Any, **__: Any) -> None:
        """A page of a list."""
        raise FORBIDDEN


def test_a_failure_that_lasts_is_logged_again_each_minute() -> None:
    """After one line at the start, the log of a frontend that waits forever does not have the reason."""
    moments: list[float] = []

    class Moments(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert record.getMessage() == f"storageclasses: {TEXT}; it is tried again"
            moments.append(asyncio.get_running_loop().time())

    async def main(clock: Callable[[], float]) -> None:
        api: Any = Api()
        following = informer.Informer(api, resources.STORAGE_CLASSES, dict, [], clock=clock)
        running = asyncio.create_task(following.run())
        await asyncio.sleep(600.0)
        running.cancel()
        found = following.statistics()
        assert (found.last_error, found.last_status) == (TEXT, 403)

    handler = Moments(logging.WARNING)
    informer.log.addHandler(handler)
    try:
        virtual_time.run(main)
    finally:
        informer.log.removeHandler(handler)
    between = [later - earlier for earlier, later in itertools.pairwise(moments)]
    longest = informer.REPEAT_WARNING_SECONDS + 60.0
    assert moments[0] < 1010.0
    assert between
    assert all(informer.REPEAT_WARNING_SECONDS <= seconds <= longest for seconds in between)


def test_a_list_on_request_that_fails_ends_the_informer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody awaits it: pods would be of outdated classes forever, in a process that looks healthy."""

    def fail(self: informer.Informer[Any]) -> bool:
        raise ZeroDivisionError("a mistake of ours")

    async def main(clock: Callable[[], float]) -> None:
        api: Any = Api()
        following = informer.Informer(api, resources.STORAGE_CLASSES, dict, [], clock=clock)
        running = asyncio.create_task(following.run())
        await asyncio.sleep(1.0)
        monkeypatch.setattr(informer.Informer, "_is_idle", fail)
        with pytest.raises(asyncio.CancelledError):
            await following.relist()
        with pytest.raises(supervision.TaskEnded) as caught:
            await running
        (ended,) = supervision.ended_tasks(caught.value)
        assert ended.how == "ZeroDivisionError: a mistake of ours"

    virtual_time.run(main)
