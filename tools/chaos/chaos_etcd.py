"""Follows the objects of an API server at their source: the watch of its etcd, which has every write in order.

A watch of the API server begins anew when that is restarted, and what happened in between is gone. etcd keeps its
history over its own restarts. Through its HTTP gateway; the API server stores JSON (`STORAGE_FLAGS`).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import aiohttp
import orjson

STORAGE_FLAGS = ("--storage-media-type=application/json",)

PODS = "/registry/pods/"
LEASE = "/registry/leases/kube-system/kube-scheduler"

_FOREVER = aiohttp.ClientTimeout(total=None, connect=5)
_RETRY_SECONDS = 0.1

Take = Callable[[str, dict[str, Any] | None], None]


async def follow(url: str, prefix: str, take: Take) -> None:
    """Call `take` with the key and the object (None: deleted) of every write from the first one on, until cancelled."""
    revision = 1
    async with aiohttp.ClientSession(timeout=_FOREVER, read_bufsize=1 << 20) as session:
        while True:
            try:
                async for result in _watch(session, url, prefix, revision):
                    for event in result.get("events", ()):
                        revision = int(event["kv"]["mod_revision"]) + 1
                        take(*_change(event))
            except (aiohttp.ClientError, TimeoutError):
                pass  # etcd is restarted: go on from there
            await asyncio.sleep(_RETRY_SECONDS)


async def _watch(session: aiohttp.ClientSession, url: str, prefix: str, revision: int) -> Any:
    """The results of one watch. Events of one revision are not divided, so going on after it misses none."""
    start, end = prefix.encode(), prefix.encode()[:-1] + bytes([prefix.encode()[-1] + 1])
    request = {"key": _base64(start), "range_end": _base64(end), "start_revision": str(revision)}
    async with session.post(f"{url}/v3/watch", json={"create_request": request}) as response:
        response.raise_for_status()
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                answer = orjson.loads(line)
                if "result" not in answer:
                    return  # the stream broke off
                if answer["result"].get("canceled"):
                    raise RuntimeError(f"etcd has ended the watch of {prefix}: {answer['result']}")
                yield answer["result"]


def _change(event: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    key = base64.b64decode(event["kv"]["key"]).decode()
    if event.get("type") == "DELETE":
        return key, None
    return key, orjson.loads(base64.b64decode(event["kv"]["value"]))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
