"""The console of what this insight has recorded, in a process of its own, to which requests are forwarded.

Reading a recording and evaluating decisions again takes processor time and memory that the process that follows the
cluster does not have. The other process (`recorded_console_process.py`) is started by the first request, ends after
some minutes without any, and ends with insight. One that answers nothing any more, as where the disk under it is gone,
is ended, and replaced at the next request.

Insight authenticates each caller, and checks that the caller may list all nodes and pods, before it forwards a request
with the caller's name in a header. The process trusts that header: only this user can enter the folder of its socket.

Tests: tests/contract/test_insight_recorded_console.py.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp
import yarl
from aiohttp import web

from trireme.insight.http_api import access, failures, lost_requests, request_places
from trireme.rpc import channels
from trireme_kube.componentbase.server import http_site
from trireme_kube.componentbase.server.authentication import User

log = logging.getLogger(__name__)

IDLE_SECONDS = 300.0
"""The process ends after this time without a request."""
RESTART_SECONDS = 10.0
"""One that ended by itself is not started again before."""
HANG_SECONDS = 15.0
"""A process that does not answer the simplest request for so long hangs."""
START_SECONDS = 60.0
"""It may take so long for its first answer."""
MAX_REQUESTS = 32
"""Forwarded at once."""
OUT_OF_MEMORY = 3
"""The exit code of the process where its limit of memory was reached."""
_STOP_SECONDS = 5.0
_BACKLOG = 128
_MODULE = "trireme.insight.http_api.recorded_console_process"
# The prefix of the folders of sockets; the id of the insight follows.
_FOLDER = "trireme-recorded-"
_BEGAN = 19  # of /proc/PID/stat after the name: when the process began
_EXIT_SECONDS = 1.0
_OUT_OF_MEMORY = (
    "what it reads needs more than half of the memory that the container may have: raise that limit, or use `trireme "
    "replay DIR --serve` elsewhere"
)
# What of a request and of its answer is passed on. Credentials are not.
_REQUEST_HEADERS = ("Accept", "Content-Type", "If-None-Match", "User-Agent")
_ANSWER_HEADERS = ("Allow", "ETag", "Retry-After", "Vary", "X-Content-Type-Options")


@dataclass(frozen=True, slots=True)
class _Running:
    """The process, the connections to it, and the folder of its socket."""

    process: subprocess.Popen[bytes]
    session: aiohttp.ClientSession
    folder: pathlib.Path


class RecordedConsole:
    """Forwards requests to the process; `close` it."""

    def __init__(
        self,
        recordings: pathlib.Path,
        *,
        command: Sequence[str] = (sys.executable, "-m", _MODULE),
        idle_seconds: float = IDLE_SECONDS,
        restart_seconds: float = RESTART_SECONDS,
        hang_seconds: float = HANG_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`recordings` is the folder that this insight records in."""
        self._recordings = recordings
        self._command = command
        self._idle_seconds = idle_seconds
        self._restart_seconds = restart_seconds
        self._hang_seconds = hang_seconds
        # How many answers the process has given; sees to it while requests wait for more.
        self._answers = 0
        self._watching: asyncio.Task[None] | None = None
        self._clock = clock
        self._places = request_places.RequestPlaces(MAX_REQUESTS)
        self._changing = asyncio.Lock()
        self._running: _Running | None = None
        self._not_before = 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process id; 0: there is none now."""
        running = self._running
        return running.process.pid if running is not None and running.process.poll() is None else 0

    @property
    def waiting(self) -> int:
        """How many requests it has not answered yet."""
        return self._places.in_use

    @property
    def socket_path(self) -> pathlib.Path | None:
        """Where the process listens; None: there is none now."""
        return None if self._running is None else self._running.folder / "socket"

    async def reply_to(self, request: web.Request, user: User) -> http_site.Reply:
        """The answer of the process. Raises: HttpFailure, NoPlaceLeft."""
        with self._places.place_for(user.name):
            self._cancel_idle()
            try:
                body = await request.read() if request.can_read_body else None
                return await lost_requests.unless_lost(request, self._forward(request, user, body))
            except web.HTTPRequestEntityTooLarge as error:
                raise failures.body_too_large() from error
            except lost_requests.RequestLostError as error:
                raise failures.unavailable(channels.CLOSED) from error
            finally:
                self._cancel_idle()
                self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._begin_ending)

    async def close(self) -> None:
        """End the process."""
        self._cancel_idle()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._ending is not None:
            await self._ending
        async with self._changing:
            await self._end()

    async def _forward(self, request: web.Request, user: User, body: bytes | None) -> http_site.Reply:
        """Send a request to the process. Raises: HttpFailure."""
        running = await self._the_process()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(running))
        headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
        headers[access.USER_HEADER] = user.name.encode().hex()
        url = yarl.URL(f"http://localhost{request.raw_path}", encoded=True)
        try:
            async with running.session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer:
                content = await answer.read()
                self._answers += 1
        except (aiohttp.ClientError, OSError) as error:
            raise failures.unavailable(await _why_it_is_gone(running.process)) from error
        kept = {name: answer.headers[name] for name in _ANSWER_HEADERS if name in answer.headers}
        return http_site.Reply(content, answer.headers.get("Content-Type", http_site.JSON), answer.status, kept)

    async def _the_process(self) -> _Running:
        """The process, started if it does not run. Raises: HttpFailure."""
        async with self._changing:
            if self._running is not None and self._running.process.poll() is None:
                return self._running
            if self._running is not None:
                code = self._running.process.returncode
                why = f": {_OUT_OF_MEMORY}" if code == OUT_OF_MEMORY else ""
                log.error("the process that reads the recording ended: code %d%s; a request starts it again", code, why)
                self._not_before = self._clock() + self._restart_seconds
                await self._end()
            if (wait := self._not_before - self._clock()) > 0:
                text = f"the process that reads the recording has ended: it is started again in {wait:.0f} s"
                raise failures.unavailable(f"{text}; the log of insight says more")
            try:
                self._running = self._start()
            except OSError as error:
                log.error("the process that reads the recording cannot be started: %s; a request tries again", error)
                self._not_before = self._clock() + self._restart_seconds
                text = f"the process that reads the recording cannot be started: {error.strerror or error}"
                raise failures.unavailable(text) from error
            return self._running

    def _start(self) -> _Running:
        """Start the process; it is connected to at once, and answers when it is ready. Raises: OSError."""
        _remove_folders_left()
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{_read_process_name(str(os.getpid()))}-"))
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(str(folder / "socket"))
                listener.listen(_BACKLOG)
                descriptor = listener.fileno()
                ours = ("--socket-descriptor", str(descriptor), "--parent", str(os.getpid()))
                # Not by the event loop, whose fork copies page tables and meets gRPC's handlers of forks: this one
                # is a vfork. In this thread, with which the child ends (`parent_death`). Standard output is for
                # insight's own announcements.
                process = subprocess.Popen(
                    [*self._command, *ours, "--record-dir", str(self._recordings)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(descriptor,),
                )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._answers = 0
        session = aiohttp.ClientSession(
            # One more for whether it answers at all.
            connector=aiohttp.UnixConnector(path=str(folder / "socket"), limit=MAX_REQUESTS + 1),
            # The caller that waits for the answer bounds the time.
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        return _Running(process, session, folder)

    async def _watch(self, running: _Running) -> None:
        """While requests wait, see that it answers; end it if it does not, even when all callers gave up."""
        answers = -1
        while running is self._running and (self._places.in_use or answers != self._answers):
            answers = self._answers
            await asyncio.sleep(self._hang_seconds / 4)
            if answers != self._answers or await self._does_answer(running):
                continue
            async with self._changing:
                if running is self._running and running.process.poll() is None:
                    log.error("the process that reads the recording hangs, and is ended; a request starts it again")
                    self._not_before = self._clock() + self._restart_seconds
                    await self._end(by_force=True)
            return

    async def _does_answer(self, running: _Running) -> bool:
        """Whether it answers a request for which nothing is read, or has ended, which is seen elsewhere."""
        seconds = self._hang_seconds if self._answers else max(self._hang_seconds, START_SECONDS)
        try:
            async with running.session.get("http://localhost/", timeout=aiohttp.ClientTimeout(total=seconds)) as answer:
                await answer.read()
        except TimeoutError:
            return running.process.poll() is not None
        except (aiohttp.ClientError, OSError, RuntimeError):
            return True
        return True

    async def _end(self, *, by_force: bool = False) -> None:
        """End the process, if there is one, and remove its socket; what waits for it fails. `by_force`: it hangs."""
        running, self._running = self._running, None
        if running is None:
            return
        await running.session.close()
        if not by_force:
            running.process.terminate()
        if by_force or not await _has_ended(running.process):
            running.process.kill()
            if not await _has_ended(running.process):
                log.error("the process that reads the recording does not end; check the disk, which it waits for")
        shutil.rmtree(running.folder, ignore_errors=True)

    def _cancel_idle(self) -> None:
        """Have the process go on."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _begin_ending(self) -> None:
        self._idle = None
        if not self._places.in_use and (self._ending is None or self._ending.done()):
            self._ending = asyncio.create_task(self._end_idle())

    async def _end_idle(self) -> None:
        """End the process unless somebody asks just now."""
        async with self._changing:
            if not self._places.in_use:
                await self._end()


async def _why_it_is_gone(process: subprocess.Popen[bytes]) -> str:
    """What to say where the process has closed a connection."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, _EXIT_SECONDS)
    if process.returncode == OUT_OF_MEMORY:
        return f"the process that reads the recording has ended: {_OUT_OF_MEMORY}"
    return "the process that reads the recording has ended: try again; the log of insight says more"


def _remove_folders_left() -> None:
    """Remove the folders of this user's insights that were killed."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*-*"):
        owner = folder.name.removeprefix(_FOLDER).rpartition("-")[0]
        with contextlib.suppress(OSError):
            if owner != _read_process_name(owner.partition("-")[0]) and folder.lstat().st_uid == os.getuid():
                shutil.rmtree(folder)


def _read_process_name(number: str) -> str:
    """Read the number of a process and when it began, for numbers are given again; empty: there is none."""
    with contextlib.suppress(OSError, ValueError):
        fields = pathlib.Path(f"/proc/{int(number)}/stat").read_bytes().rpartition(b")")[2].split()
        return f"{number}-{int(fields[_BEGAN])}"
    return ""


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends within some seconds."""
    try:
        await asyncio.to_thread(process.wait, _STOP_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True
