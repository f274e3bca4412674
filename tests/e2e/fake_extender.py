"""A small HTTP extender inside the test: it keeps what it was sent, and answers what the test tells it to."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

Json = dict[str, Any]
Answer = Callable[[Json], Any] | Callable[[Json], Awaitable[web.StreamResponse]]


class FakeExtender:
    """`answers` are by verb: what makes the answer (JSON, or a response) of a request's body."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Callable[[Json], Any]] = {}
        self.asked: list[tuple[str, Json]] = []

    def bodies(self, verb: str) -> list[Json]:
        """What was sent to a verb so far."""
        return [body for asked, body in self.asked if asked == verb]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        verb = request.match_info["verb"]
        body = orjson.loads(await request.read())
        self.asked.append((verb, body))
        answer = self.answers[verb](body)
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    def config(self, *verbs: str, **settings: Any) -> Json:
        """Its entry in a scheduler's configuration."""
        out: Json = {"urlPrefix": self.url, "enableHTTPS": False, **settings}
        for verb in verbs:
            out[f"{verb}Verb"] = verb
        if "prioritize" in verbs:
            out.setdefault("weight", 1)
        return out


@contextlib.asynccontextmanager
async def serving(count: int = 1) -> AsyncIterator[list[FakeExtender]]:
    """So many extenders behind one port."""
    app = web.Application(client_max_size=1 << 30)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    extenders: list[FakeExtender] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        return await extenders[int(request.match_info["number"])].handle(request)

    app.router.add_post("/{number}/{verb}", handle)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        extenders += [FakeExtender(f"http://127.0.0.1:{port}/{number}") for number in range(count)]
        yield extenders
    finally:
        await runner.cleanup()


def passing(body: Json, *refused: str, reason: str = "not today") -> Json:
    """All nodes but these, in the form in which they were sent."""
    failed = dict.fromkeys(refused, reason)
    if body["NodeNames"] is not None:
        names = [name for name in body["NodeNames"] if name not in refused]
        return {"NodeNames": names, "FailedNodes": failed}
    items = [node for node in body["Nodes"]["items"] if node["metadata"]["name"] not in refused]
    return {"Nodes": {"items": items}, "FailedNodes": failed}


def node_names(body: Json) -> list[str]:
    """The nodes that a body names, sorted."""
    if body["NodeNames"] is not None:
        return sorted(body["NodeNames"])
    return sorted(node["metadata"]["name"] for node in body["Nodes"]["items"])
