"""What frontends answer by their admin sockets."""

import pathlib

import aiohttp
import orjson

from trireme.v1.scheduler_status_pb2 import SchedulerStatus
from trireme.wire import json_documents


async def read(socket: pathlib.Path, path: str) -> str:
    """The text of a page."""
    connector = aiohttp.UnixConnector(path=str(socket))
    async with aiohttp.ClientSession(connector=connector) as session, session.get(f"http://frontend{path}") as answer:
        return await answer.text()


async def scheduler_status(socket: pathlib.Path) -> SchedulerStatus:
    """What `trireme status` reads."""
    return json_documents.parse(orjson.loads(await read(socket, "/trireme/v1/status")), SchedulerStatus())
