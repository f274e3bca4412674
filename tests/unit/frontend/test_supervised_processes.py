"""A process whose long-lived task ends unexpectedly ends with exit code 1, and its log names the task."""

import asyncio
import contextlib
import logging
import pathlib
import types
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from trireme.frontend import running
from trireme.rpc import grpc_server, listen_flags
from trireme_kube.componentbase import supervision


async def _forever(*_: Any) -> None:
    await asyncio.Event().wait()


async def _cancelled(*_: Any) -> None:
    """As a call of grpc.aio whose channel is closed."""
    raise asyncio.CancelledError


async def _nothing() -> None:
    return None


async def test_a_phase_exits(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its replica would be followed, and its metrics stand still."""

    @contextlib.asynccontextmanager
    async def lifespan(supervisor: supervision.Supervisor) -> AsyncIterator[Sequence[grpc_server.Service]]:
        supervisor.keep("event loop lag", _cancelled)
        yield ()
        await supervisor.close()

    listener = listen_flags.make_listener(f"unix:{tmp_path}/phase.sock")
    async with asyncio.timeout(20):
        assert await grpc_server.serve_until_stopped(listener, lifespan, grace=0) == 1
    assert "a background task ended unexpectedly; the process exits: task 'event loop lag' ended" in caplog.text


def _parts(failing: str = "") -> dict[str, Any]:
    """A frontend that leads, with one task that ends."""
    return {
        "built": types.SimpleNamespace(
            context=types.SimpleNamespace(wakeup=asyncio.Event(), leader=types.SimpleNamespace(leading=True)),
            namespace=types.SimpleNamespace(deleted=asyncio.Event(), name="here"),
        ),
        "leadership": types.SimpleNamespace(run=_cancelled if failing == "frontend" else _forever),
        "elector": types.SimpleNamespace(wait_until_elected=None, lost=asyncio.Event(), stop=_nothing),
        "local": types.SimpleNamespace(
            keep_running=_cancelled if failing == "local phases" else _forever, stop=_nothing
        ),
        "stopping": asyncio.Event(),
        "site": types.SimpleNamespace(begin_shutdown=lambda: None),
    }


@pytest.mark.parametrize("failing", ["frontend", "local phases", "https"])
async def test_a_frontend_exits(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    """It would keep the Lease, and schedule nothing."""
    caplog.set_level(logging.INFO)
    supervisor = supervision.Supervisor()
    supervisor.keep("https", _cancelled if failing == "https" else _forever)
    parts = _parts(failing)
    async with asyncio.timeout(20):
        reason = await running._run_until_something_ends(**parts, supervisor=supervisor)
    await supervisor.close()
    assert running._report_end(reason, elects=True) == 1
    (values,) = [record.values for record in caplog.records if record.message.startswith("A task ended")]
    assert values == {"task": failing, "err": "something that it awaited was cancelled"}


async def test_why_a_frontend_stops_is_logged_before_its_phases_end(caplog: pytest.LogCaptureFixture) -> None:
    """Its phases may take seconds to end, in which nobody would know why it schedules nothing any more."""
    caplog.set_level(logging.INFO)
    parts, before = _parts(), []

    async def stop() -> None:
        before.extend(record.message for record in caplog.records if "namespace" in record.message)
        parts["stopping"].set()

    parts["local"].stop = stop
    parts["built"].namespace.deleted.set()
    supervisor = supervision.Supervisor()
    async with asyncio.timeout(20):
        reason = await running._run_until_something_ends(**parts, supervisor=supervisor)
    await supervisor.close()
    assert before == ["This pod's namespace is being deleted, so this frontend leads no more"]
    assert running._report_end(reason, elects=True) == 0
