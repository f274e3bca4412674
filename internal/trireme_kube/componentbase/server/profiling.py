"""Profiles of the running process, under the paths of Go's profiler.

Their contents are Python's: `profile` has the functions in which the event loop's thread spent its time, `goroutine`
the stack of every thread and task.

Tests: tests/contract/test_serving_http.py.
"""

import asyncio
import cProfile
import io
import pstats
import sys
import traceback
from collections.abc import Mapping, Sequence

from trireme_kube.componentbase.server.http_site import Page, Reply, Request, text

_PREFIX = "/debug/pprof/"
_DEFAULT_SECONDS = 30.0
_MAX_SECONDS = 300.0
_SHOWN_FUNCTIONS = 60

_INDEX = """<html>
<head>
<title>/debug/pprof/</title>
</head>
<body>
/debug/pprof/<br>
<table>
<tr><td><a href="goroutine">goroutine</a></td><td>where every thread and task stands</td></tr>
<tr><td><a href="profile?seconds=30">profile</a></td><td>CPU time by function, over ?seconds=</td></tr>
</table>
</body>
</html>
"""


def pages() -> Mapping[str, Page]:
    """The pages, by path."""
    profiler = _OneAtATimeProfiler()

    async def index_page(_: Request) -> Reply:
        body = f'<a href="{_PREFIX}">Found</a>.\n\n'.encode()
        return Reply(body, "text/html; charset=utf-8", 302, {"Location": _PREFIX})

    async def profile_page(request: Request) -> Reply:
        name = request.path.removeprefix(_PREFIX)
        if not name:
            return text(_INDEX, content_type="text/html; charset=utf-8")
        if name == "goroutine":
            return text(_thread_stacks())
        if name == "profile":
            return await profiler.run(request.query)
        unknown = text("Unknown profile\n", 404)
        return Reply(unknown.body, unknown.content_type, 404, {**unknown.headers, "X-Go-Pprof": "1"})

    return {"/debug/pprof": index_page, "/debug/pprof/*": profile_page}


class _OneAtATimeProfiler:
    """One profile at a time: Python allows no more."""

    def __init__(self) -> None:
        self._running = False

    async def run(self, query: Mapping[str, Sequence[str]]) -> Reply:
        """Profile the event loop's thread for the requested seconds; the reply has the costliest functions."""
        try:
            seconds = float(query.get("seconds", ["0"])[0]) or _DEFAULT_SECONDS
        except ValueError:
            return text("seconds must be a number\n", 400)
        if not 0 < seconds <= _MAX_SECONDS:
            return text(f"seconds must be between 0 and {_MAX_SECONDS:.0f}\n", 400)
        if self._running:
            return text("Could not enable CPU profiling: cpu profiling already in use\n", 500)
        self._running = True
        profile = cProfile.Profile()
        profile.enable()
        try:
            await asyncio.sleep(seconds)
        finally:
            profile.disable()
            self._running = False
        out = io.StringIO()
        pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(_SHOWN_FUNCTIONS)
        return text(out.getvalue())


def _thread_stacks() -> str:
    """Return the stacks of all threads and tasks."""
    out = []
    for identity, frame in sys._current_frames().items():
        out.append(f"thread {identity}:\n{''.join(traceback.format_stack(frame))}")
    for task in asyncio.all_tasks():
        where = io.StringIO()
        task.print_stack(file=where)
        out.append(f"task {task.get_name()}:\n{where.getvalue()}")
    return "\n".join(out)
