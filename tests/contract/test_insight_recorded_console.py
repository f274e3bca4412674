"""The console of what insight records, over real sockets: who may see it, and its process: its start, end and loss."""

import asyncio
import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import test_utils

from tests.helpers import insight_http as support
from tests.helpers import polling
from tests.helpers.recorded_decisions import record_folder
from tests.helpers.recordings import BEGIN
from trireme.insight.http_api import access, api, recorded_console

BEGIN_MS = BEGIN // 1_000_000
PATIENCE_SECONDS = 60.0

pytestmark = pytest.mark.timeout(180)


@contextlib.asynccontextmanager
async def console(
    folder: pathlib.Path, *, seconds: float = api.REQUEST_SECONDS, **settings: Any
) -> AsyncIterator[tuple[test_utils.TestClient[Any, Any], recorded_console.RecordedConsole]]:
    """A console whose replica records in the folder, and what forwards to the process; it waits so long for answers."""
    recorded = recorded_console.RecordedConsole(folder, **settings)
    served = api.HttpApi(await support.replica(), access.LoopbackAccess(), recorded=recorded, seconds=seconds)
    application = served.application()
    async with test_utils.TestClient(test_utils.TestServer(application)) as client:
        try:
            yield client, recorded
        finally:
            await recorded.close()


async def ask(client: test_utils.TestClient[Any, Any], path: str = "/v1/recording") -> tuple[int, Any]:
    """Code and document of an answer."""
    async with client.get(path) as response:
        return response.status, orjson.loads(await response.read())


async def test_only_who_may_list_nodes_and_pods_sees_what_was_recorded(tmp_path: pathlib.Path) -> None:
    """A recording names everything: a reader of one pod would read those of all namespaces, an hour later."""
    await record_folder(tmp_path / "recordings")
    paths = ("/v1/recording", f"/v1/recorded/{BEGIN_MS + 1000}/pending", f"/v1/recorded/{BEGIN_MS}/overview")
    async with support.served(tmp_path, recordings=tmp_path / "recordings") as served:
        for path in paths:
            assert (await served.get(path))[0] == 401
            for user, resource in (("nobody", "nodes"), ("developer", "nodes")):
                code, refusal, _ = await served.get(path, user)
                assert (code, f'cannot list resource "{resource}"' in refusal["message"]) == (403, True)
        assert (await served.get("/v1/overview", "developer"))[1]["recorded"] is False
        # Nothing was started for those.
        assert not _processes_on(tmp_path / "recordings")
        assert (await served.get("/v1/overview", "operator"))[1]["recorded"] is True
        code, span, _ = await served.get("/v1/recording", "operator")
        assert (code, span["fromMs"], span["toMs"], span["live"]) == (200, BEGIN_MS, BEGIN_MS + 1000, True)
        for milliseconds, pods in ((1000, 1), (500, 0)):
            code, overview, headers = await served.get(f"/v1/recorded/{BEGIN_MS + milliseconds}/overview", "operator")
            assert (code, overview["cluster"]["pods"]) == (200, pods)
            # What has not changed is not sent again, as of the state of now.
            again = {"If-None-Match": headers["ETag"]}
            context = aiohttp.TCPConnector(ssl=False)
            token = {"Authorization": "Bearer operator-token", **again}
            url = f"{served.url}/v1/recorded/{BEGIN_MS + milliseconds}/overview"
            async with aiohttp.ClientSession(connector=context) as session, session.get(url, headers=token) as answer:
                assert answer.status == 304
        # The rights are looked at for each request, also while the process runs.
        assert (await served.get("/v1/recording", "developer"))[0] == 403
        assert _processes_on(tmp_path / "recordings")
    assert not _processes_on(tmp_path / "recordings")


def _processes_on(folder: pathlib.Path) -> list[int]:
    """The processes that show this folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().split(b"\0")
            if str(folder).encode() in arguments and b"--socket-descriptor" in arguments:
                found.append(int(path.parent.name))
    return found


async def test_without_a_recording_there_is_no_such_page(tmp_path: pathlib.Path) -> None:
    """The page would lead to nothing."""
    async with support.served(tmp_path, tls=False, reviews=False) as served:
        assert (await served.get("/v1/overview"))[1]["recorded"] is False
        for path in ("/v1/recording", f"/v1/recorded/{BEGIN_MS}/pending"):
            code, refusal, _ = await served.get(path)
            assert (code, "recorded" in refusal["message"]) == (404, False)


async def test_a_process_that_was_killed_is_said_to_be_gone_and_started_again(tmp_path: pathlib.Path) -> None:
    """The view would stay broken until insight is restarted, or a request wait forever."""
    await record_folder(tmp_path)
    async with console(tmp_path, restart_seconds=0.2) as (client, recorded):
        assert (await ask(client))[0] == 200
        first = recorded.pid
        os.kill(first, signal.SIGKILL)
        code, refusal = await ask(client)
        assert (code, refusal["reason"], "has ended" in refusal["message"]) == (503, "ServiceUnavailable", True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await ask(client))[0] != 200:
                await asyncio.sleep(0.05)
        assert recorded.pid not in (0, first)


async def test_a_process_that_cannot_be_started_is_said_so_and_not_tried_all_the_time(tmp_path: pathlib.Path) -> None:
    """Each of a page's requests would start a process, on a machine that has no room for one."""
    async with console(tmp_path, command=("/no/such/program",)) as (client, recorded):
        code, refusal = await ask(client)
        assert (code, "cannot be started: No such file" in refusal["message"]) == (503, True)
        code, refusal = await ask(client)
        assert (code, "started again in" in refusal["message"]) == (503, True)
        assert recorded.pid == 0
        # The state of now is shown all the same.
        assert (await ask(client, "/v1/overview"))[0] == 200


async def test_a_folder_without_a_recording_is_said_to_have_none_until_there_is(tmp_path: pathlib.Path) -> None:
    """An empty cluster would be shown as the one of that time."""
    folder = tmp_path / "recordings"
    async with console(folder) as (client, _):
        code, refusal = await ask(client)
        assert (code, "cannot be read" in refusal["message"]) == (500, True)
        folder.mkdir()
        code, refusal = await ask(client, f"/v1/recorded/{BEGIN_MS}/pending")
        assert (code, "no recording with a full state" in refusal["message"]) == (503, True)
        await record_folder(folder)
        assert (await ask(client, f"/v1/recorded/{BEGIN_MS}/pending"))[0] == 200
        # A question with a body passes as well, and one that is too large does not.
        body = {"scenario": {"changes": [{"drain": {"nodeNames": ["n0", "n1"]}}]}}
        async with client.post(f"/v1/recorded/{BEGIN_MS + 1000}/simulation", json=body) as response:
            assert (response.status, len((await response.json())["evictions"])) == (200, 1)
        content = io.BytesIO(b"x" * (2 << 20))
        async with client.post(f"/v1/recorded/{BEGIN_MS}/simulation", data=content) as response:
            assert response.status == 413


async def test_the_process_ends_when_nobody_asks_and_is_started_by_the_next_request(tmp_path: pathlib.Path) -> None:
    """It would hold the memory of several clusters forever, once somebody has looked."""
    await record_folder(tmp_path)
    async with console(tmp_path, idle_seconds=0.3, restart_seconds=600) as (client, recorded):
        assert (await ask(client))[0] == 200
        first = recorded.pid
        await polling.until(lambda: recorded.pid == 0)
        await polling.until(lambda: not pathlib.Path(f"/proc/{first}").exists())
        # It ended as it should: the next one does not have to wait.
        assert (await ask(client))[0] == 200
        second = recorded.pid
    assert not pathlib.Path(f"/proc/{second}").exists()


_INSIGHT = """
import asyncio, pathlib, sys
from unittest import mock
from trireme.insight.http_api import recorded_console
async def main():
    recorded = recorded_console.RecordedConsole(pathlib.Path(sys.argv[1]))
    running = await recorded._the_process()
    async with running.session.get("http://localhost/", headers={"Trireme-User": "6d65"}) as answer:
        print(recorded.pid, answer.status, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_the_process_ends_with_insight_however_that_ends(tmp_path: pathlib.Path) -> None:
    """One would be left for each crash, with a socket to all that was recorded."""
    with subprocess.Popen([sys.executable, "-c", _INSIGHT, str(tmp_path)], stdout=subprocess.PIPE) as insight:
        assert insight.stdout is not None
        pid, status = insight.stdout.readline().split()
        assert (status, pathlib.Path(f"/proc/{int(pid)}").exists()) == (b"200", True)
        insight.kill()
    asyncio.run(polling.until(lambda: not _processes_on(tmp_path)))


# Answers with the headers that it got.
_ECHO = """
import json, socket, sys
listener = socket.socket(fileno=int(sys.argv[2]))
while True:
    connection, _ = listener.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += connection.recv(65536)
    body = json.dumps(head.decode().split("\\r\\n")).encode()
    answer = "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nSet-Cookie: a=b\\r\\n"
    answer += "Content-Length: %d\\r\\n\\r\\n"
    connection.sendall((answer % len(body)).encode() + body)
    connection.close()
"""


# Answers the simplest request at once, and others after so long that one that hangs would have been noticed.
_SLOW = """
import asyncio, socket, sys
from aiohttp import web
async def answer(request):
    await asyncio.sleep(0 if request.path == "/" else 2)
    return web.json_response({})
application = web.Application()
application.router.add_get("/{rest:.*}", answer)
web.run_app(application, sock=socket.socket(fileno=int(sys.argv[2])), print=None)
"""


async def test_credentials_are_not_passed_on(tmp_path: pathlib.Path) -> None:
    """A process that needs none would have the tokens of all readers in its memory and its log."""
    async with console(tmp_path, command=(sys.executable, "-c", _ECHO)) as (client, _):
        sent = {"Authorization": "Bearer secret", "Cookie": "a=secret", "Trireme-User": "726f6f74", "X-Other": "secret"}
        async with client.get(f"/v1/recorded/{BEGIN_MS}/pods?text=a%26b", headers=sent) as response:
            got = json.loads(await response.read())
            assert "Set-Cookie" not in response.headers
    assert got[0] == f"GET /v1/recorded/{BEGIN_MS}/pods?text=a%26b HTTP/1.1"
    assert [line for line in got if "secret" in line] == []
    assert [line for line in got if line.startswith("Trireme-User")] == [f"Trireme-User: {b'loopback'.hex()}"]


async def test_a_process_that_hangs_holds_up_nothing_else_and_a_lost_caller_keeps_no_place(
    tmp_path: pathlib.Path,
) -> None:
    """Insight would stop to follow the scheduler while a recording is read."""
    await record_folder(tmp_path)
    async with console(tmp_path) as (client, recorded):
        assert (await ask(client))[0] == 200
        os.kill(recorded.pid, signal.SIGSTOP)
        try:
            waiting = asyncio.create_task(ask(client))
            await polling.until(lambda: recorded.waiting == 1)
            assert (await ask(client, "/v1/overview"))[0] == 200
            assert not waiting.done()
            waiting.cancel()
            await polling.until(lambda: recorded.waiting == 0)
        finally:
            os.kill(recorded.pid, signal.SIGCONT)
        assert (await ask(client))[0] == 200


async def test_a_process_that_answers_nothing_any_more_is_replaced(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The past would be gone until insight is restarted, as where the disk of the recording was, and nobody be told."""
    await record_folder(tmp_path)
    async with console(tmp_path, hang_seconds=0.4, restart_seconds=0.2) as (client, recorded):
        assert (await ask(client))[0] == 200
        first = recorded.pid
        os.kill(first, signal.SIGSTOP)
        code, refusal = await ask(client)
        assert (code, "has ended: try again" in refusal["message"]) == (503, True)
        assert "hangs, and is ended" in caplog.text
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await ask(client))[0] != 200:
                await asyncio.sleep(0.05)
        assert recorded.pid not in (0, first)
        assert not pathlib.Path(f"/proc/{first}").exists()
        # Also where those who asked did not wait so long.
        second = recorded.pid
        os.kill(second, signal.SIGSTOP)
        waiting = asyncio.create_task(ask(client))
        await polling.until(lambda: recorded.waiting == 1)
        waiting.cancel()
        await polling.until(lambda: recorded.pid != second)


async def test_a_request_without_an_answer_is_told_what_may_be_wrong(tmp_path: pathlib.Path) -> None:
    """It was advised to leave out scores, whatever it was about."""
    slow = (sys.executable, "-c", _SLOW.replace("else 2", "else 600"))
    async with console(tmp_path, command=slow, seconds=0.5) as (client, _):
        code, refusal = await ask(client)
        assert (code, "no answer within 0" in refusal["message"], "scores" in refusal["message"]) == (504, True, False)
        assert "the log of insight" in refusal["message"]


async def test_a_process_that_is_slow_is_not_ended(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """What takes long would never be answered, for it would be begun anew each time."""
    async with console(tmp_path, command=(sys.executable, "-c", _SLOW), hang_seconds=0.4) as (client, recorded):
        # For its first answer it has longer anyhow.
        for _ in range(2):
            assert (await ask(client, f"/v1/recorded/{BEGIN_MS}/pending"))[0] == 200
        assert recorded.pid
        assert "hangs" not in caplog.text


async def test_the_socket_is_for_this_user_alone(tmp_path: pathlib.Path) -> None:
    """Everybody on the machine would read what was recorded, without credentials."""
    await record_folder(tmp_path)
    async with console(tmp_path) as (client, recorded):
        assert (await ask(client))[0] == 200
        path = recorded.socket_path
        assert path is not None
        assert (path.is_socket(), path.parent.stat().st_mode & 0o777) == (True, 0o700)
        # One that comes without a name is refused even so.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"GET /v1/recording HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 401 " in await asyncio.to_thread(connection.recv, 64)
    assert not path.parent.exists()


_GREEDY = """
import sys
import tempfile
from trireme.insight.http_api import recorded_console_process
from trireme.insight.http_api.recorded_moments import RecordedMoments
def read(*_):
    raise MemoryError
RecordedMoments.at = read
sys.exit(recorded_console_process.main(sys.argv[1:]))
"""


async def test_a_process_whose_memory_is_at_its_limit_ends_and_is_started_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It could not read the next request either, and would be of no use until insight ends."""
    await record_folder(tmp_path / "recordings")
    command = (sys.executable, "-c", _GREEDY)
    async with console(tmp_path / "recordings", command=command, restart_seconds=0.0) as (client, recorded):
        assert (await ask(client))[0] == 200
        first = recorded.pid
        code, refusal = await ask(client, f"/v1/recorded/{BEGIN_MS}/overview")
        assert (code, "more than half of the memory" in refusal["message"]) == (503, True)
        # What needs no moment is answered, by another process.
        assert (await ask(client))[0] == 200
        assert recorded.pid not in (0, first)
    assert "code 3: what it reads needs more than half of the memory" in caplog.text


async def test_folders_that_a_killed_insight_left_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them would stay in the volume at /tmp, which outlives the container."""
    # A socket's path has to be short.
    temporary = pathlib.Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    of_nobody, of_another_time = (
        temporary / "trireme-recorded-999999999-5-x",
        temporary / f"trireme-recorded-{os.getpid()}-5-x",
    )
    others = [temporary / "trireme-recorded-notes", temporary / "other-1-2-x"]
    of_somebody = temporary / "trireme-recorded-no-number-x"
    for folder in (of_nobody, of_another_time, of_somebody, *others):
        folder.mkdir()
    await record_folder(tmp_path / "recordings")
    async with console(tmp_path / "recordings") as (client, recorded):
        assert (await ask(client))[0] == 200
        assert not of_nobody.exists()
        assert not of_another_time.exists()
        assert all(folder.exists() for folder in others)
        assert recorded.socket_path is not None
        # One that is in use stays where another one is started.
        async with console(tmp_path / "recordings") as (second, _):
            assert (await ask(second))[0] == 200
            assert recorded.socket_path.exists()
    shutil.rmtree(temporary)
