"""The file of the admin socket: its owner keeps it, removes nobody else's, and is followed by who waits for it."""

import asyncio
import contextlib
import logging
import pathlib
import socket
import types
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
import uvloop
from aiohttp import web

from trireme.frontend.serving import admin_socket_file, serving
from trireme_kube.componentbase import supervision


def _is_listening(path: pathlib.Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_a_second_frontend_leaves_the_first_one_s(tmp_path: pathlib.Path) -> None:
    """It took the socket without a word and removed it at its end: nobody could reach the first one any more."""
    path = tmp_path / "admin.sock"
    with contextlib.closing(admin_socket_file.AdminSocket(str(path))):
        with pytest.raises(admin_socket_file.SocketInUse):
            admin_socket_file.AdminSocket(str(path))
        assert _is_listening(path)
    assert not path.exists()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_second_frontend_takes_the_socket_over(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a change of leader on one machine nobody could ask the only frontend that is left."""
    monkeypatch.setattr(serving, "SOCKET_RETRY_SECONDS", 0.01)
    path = tmp_path / "admin.sock"

    async def run() -> None:
        supervisor = supervision.Supervisor()
        async with contextlib.AsyncExitStack() as first:
            await first.enter_async_context(serving._serve_on_socket(str(path), _site("first"), supervisor))
            async with serving._serve_on_socket(str(path), _site("second"), supervisor):
                assert await _answer(path) == "first"
                await first.aclose()
                async with asyncio.timeout(20):
                    while not _is_listening(path):
                        await asyncio.sleep(0.01)
                assert await _answer(path) == "second"
        assert not path.exists()
        await supervisor.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run())
    (error,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert error.startswith(f"admin.socket: {path}: another process listens there")


def _site(name: str) -> Any:
    """A site with one page, which says whose it is."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=name)

    def application(_: object) -> web.Application:
        out = web.Application()
        out.router.add_get("/", page)
        return out

    return types.SimpleNamespace(site=types.SimpleNamespace(application=application))


async def _answer(path: pathlib.Path) -> str:
    connector = aiohttp.UnixConnector(str(path))
    async with aiohttp.ClientSession(connector=connector) as http, http.get("http://here/") as reply:
        return await reply.text()


def test_a_socket_with_a_full_queue_is_in_use(tmp_path: pathlib.Path) -> None:
    """A frontend that is too busy to accept connections still owns its file."""
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waits:
        busy.bind(str(path))
        busy.listen(0)
        waits.connect(str(path))
        with pytest.raises(admin_socket_file.SocketInUse):
            admin_socket_file.AdminSocket(str(path))
    assert path.exists()


def test_the_socket_of_a_killed_process_is_replaced(tmp_path: pathlib.Path) -> None:
    """A frontend that was killed could not remove it; its successor must not do without for that."""
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
        stale.listen()
    with contextlib.closing(admin_socket_file.AdminSocket(str(path))):
        assert _is_listening(path)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_another_file_at_the_end_stays(tmp_path: pathlib.Path) -> None:
    """Somebody removed ours and listens there now."""
    path, other = tmp_path / "admin.sock", tmp_path / "other.sock"
    with contextlib.closing(admin_socket_file.AdminSocket(str(path))), socket.socket(socket.AF_UNIX) as successor:
        successor.bind(str(other))
        successor.listen()
        other.replace(path)
    assert path.exists()


def test_a_folder_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    """The caller names the field."""
    with pytest.raises(OSError, match="No such file"):
        admin_socket_file.AdminSocket(str(tmp_path / "none" / "admin.sock"))
