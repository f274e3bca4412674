"""The transport of a watch: the chunks of an HTTP response, or the messages of a WebSocket.

A client that upgrades to WebSocket (fabric8's informers do) gets one text message per event. The handshake follows the
API server's rules: an Origin is required, and at most one subprotocol may be offered, which is accepted.

Source: k8s.io/apiserver, pkg/endpoints/handlers/watch.go (HandleWS), and golang.org/x/net/websocket.

Tests: tests/e2e/test_embedded_http.py.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from aiohttp import WSMsgType, web

from trireme_kube.embedded.api import api_errors


class Channel(Protocol):
    """An open connection for one client's watch."""

    @property
    def response(self) -> web.StreamResponse:
        """The request handler's response."""

    async def send(self, lines: bytes) -> None:
        """Send whole lines; raises ConnectionError if the client is gone."""

    async def finish(self) -> None:
        """End the watch after what has been sent."""


class _ChunkedResponse:
    """A chunked HTTP reply, one line an event."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(headers=headers)
        self.response.enable_chunked_encoding()

    async def send(self, lines: bytes) -> None:
        await self.response.write(lines)

    async def finish(self) -> None:
        """Nothing to do: the response ends with the request handler."""


class _WebSocketMessages:
    """A WebSocket, one text message an event."""

    def __init__(self, protocols: list[str], on_close: Callable[[], None] | None) -> None:
        self.response = web.WebSocketResponse(protocols=protocols)
        self._on_close = on_close
        self._reader: asyncio.Task[None] | None = None

    async def open(self, request: web.BaseRequest) -> None:
        await self.response.prepare(request)
        self._reader = asyncio.get_running_loop().create_task(self._discard_received_messages())

    async def _discard_received_messages(self) -> None:
        """Discard received messages: a client of a watch only ends it."""
        while (await self.response.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR):
            pass
        if self._on_close is not None:
            self._on_close()

    async def send(self, lines: bytes) -> None:
        for line in lines.splitlines(keepends=True):
            await self.response.send_str(line.decode())

    async def finish(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait((self._reader,))
        await self.response.close()


def wants_websocket(request: web.BaseRequest) -> bool:
    """Whether the client asks to upgrade the connection."""
    connection = request.headers.get("Connection", "").lower()
    return "upgrade" in connection and request.headers.get("Upgrade", "").lower() == "websocket"


async def open_channel(
    request: web.BaseRequest, headers: Mapping[str, str], on_close: Callable[[], None] | None
) -> Channel:
    """The channel that the request asks for; `on_close` is called when a WebSocket's client ends the watch.

    Raises: ApiError 400 or 403 for a handshake that the API server would refuse.
    """
    if not wants_websocket(request):
        chunks = _ChunkedResponse(headers)
        await chunks.response.prepare(request)
        return chunks
    if not request.headers.get("Origin"):
        raise api_errors.ApiError(403, "Forbidden", "a WebSocket needs the header Origin")
    protocols = [one.strip() for one in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if one.strip()]
    if len(protocols) > 1:
        raise api_errors.bad_request("a watch takes one subprotocol of WebSocket at most")
    messages = _WebSocketMessages(protocols, on_close)
    try:
        await messages.open(request)
    except web.HTTPBadRequest as error:
        raise api_errors.bad_request(f"no WebSocket handshake: {error.text}") from error
    return messages
