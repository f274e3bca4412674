"""What ends by itself during a soak is started again and counted; what the soak ends is not."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys
from collections.abc import AsyncIterator
from typing import TypeAlias

import pytest

from tests.e2e import installation
from tools.soak import supervisor

ENDS = "import sys; print('lost the Lease'); sys.exit(3)"
STAYS = "import signal; print('listening on nothing', flush=True); signal.pause()"

Supervision: TypeAlias = tuple[supervisor.Supervisor, asyncio.Task[None]]


@contextlib.asynccontextmanager
async def _supervised(program: str, log: pathlib.Path) -> AsyncIterator[Supervision]:
    process = installation.Process("frontend-0", [sys.executable, "-c", program], log)
    process.start()
    supervising = supervisor.Supervisor([process])
    task = asyncio.create_task(supervising.run())
    try:
        yield supervising, task
    finally:
        task.cancel()
        await asyncio.wait([task])
        process.kill()


@pytest.mark.processes
async def test_a_process_that_ends_is_started_again_and_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarts are counted, so that a soak cannot hide processes that end."""
    monkeypatch.setattr(supervisor, "RESTART_SECONDS", 0.0)
    async with _supervised(ENDS, tmp_path / "log") as (supervising, task):
        await installation.until(lambda: len(supervising.restarts) >= 2, 60, lambda: str(supervising.restarts))
        assert not task.done()
    assert supervising.restarts[:2] == ["frontend-0 ended with 3: lost the Lease"] * 2


@pytest.mark.processes
async def test_a_process_that_the_soak_replaces_does_not_count(tmp_path: pathlib.Path) -> None:
    async with _supervised(STAYS, tmp_path / "log") as (supervising, _):
        (process,) = supervising._processes
        await process.listening()
        before = process.pid
        await supervising.replace(process)
        await process.listening()
        assert process.pid != before
        # A look after the replacement finds nothing either.
        await asyncio.sleep(2 * supervisor.POLL_SECONDS)
    assert supervising.restarts == []
