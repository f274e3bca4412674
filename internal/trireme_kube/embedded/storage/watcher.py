"""One client's watch: which events it gets, in which form, and what happens if it reads too slowly.

A watcher listens to the store and buffers the lines that its client has not read yet. The buffer is bounded: a client
that falls behind is disconnected and has to resume from the last version it saw, as with the real API server. An object
that starts or stops matching the selectors appears as added or deleted to this client.
"""

import asyncio
from collections.abc import Callable

from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.storage.store import ADDED, DELETED, MODIFIED, Event, Record, Store

#: Implementers: trireme_kube.embedded.storage.watcher.watch_line, trireme_kube.embedded.endpoints.reads.
Render = Callable[[Record], bytes]
"""Makes the JSON that a client gets of a record."""

_OPENING = {kind: b'{"type":"%s","object":' % kind.encode() for kind in (ADDED, MODIFIED, DELETED, "BOOKMARK", "ERROR")}
_CLOSING = b"}\n"


def watch_line(kind: str, body: bytes) -> bytes:
    """One line of a watch."""
    return _OPENING[kind] + body + _CLOSING


class Watcher:
    """One watch. Call `start` once, then `take_lines` until it returns None, and `stop` in any case."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        *,
        namespace: str = "",
        matches: Callable[[Object], bool] | None = None,
        render: Render | None = None,
        limit: int = 10_000,
    ) -> None:
        """`resource` is the one that stores the objects; `render` is None for unchanged objects."""
        self.resource = resource
        self._store = store
        self._namespace = namespace
        self._matches = matches
        self._render = render
        self._limit = limit
        # Pieces of lines, not whole ones: the objects' bytes are shared between watchers, and joined once, when sent.
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._wake = asyncio.Event()
        self._ended = False
        self._stop_listening: Callable[[], None] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    @property
    def pending(self) -> bool:
        """Whether lines are waiting to be taken."""
        return bool(self._pieces)

    def start(self, *, since: int | None) -> None:
        """Start listening, after the events since that revision; with None, after all present objects as added.

        Raises: ApiError 410 if events since then have been dropped.
        """
        if since is None:
            for record in self._store.scan(self.resource, self._namespace):
                if self._matches is None or self._matches(record.object):
                    self._append_line(ADDED, record)
        else:
            for event in self._store.events_since(self.resource, since):
                self._append_if_selected(event)
        self._waiting = 0  # the client requested these at the start, so they do not count as its backlog
        self._stop_listening = self._store.listen(self.resource, self._on_event)

    def send_line(self, line: bytes) -> None:
        """Add a line of the server's own, such as a bookmark."""
        self._pieces.append(line)
        self._wake.set()

    def end(self) -> None:
        """End the watch after the buffered lines."""
        self._ended = True
        self._wake.set()

    def stop(self) -> None:
        """Stop listening; idempotent."""
        self._ended = True
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None

    async def take_lines(self, timeout: float) -> bytes | None:
        """The lines since the last call, waiting for some; empty after `timeout`; None at the end."""
        if not self._pieces and not self._ended:
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        self._wake.clear()
        if self._pieces:
            pieces, self._pieces, self._waiting = self._pieces, [], 0
            return b"".join(pieces)
        return None if self._ended else b""

    def _on_event(self, event: Event) -> None:
        if self._ended:
            return
        self._append_if_selected(event)
        if self._waiting > self._limit:
            self._pieces.clear()
            self.end()

    def _append_if_selected(self, event: Event) -> None:
        """Append an event if the watch selects it: an object that comes to match is ADDED, one that ceases, DELETED."""
        record, before = event.record, event.before
        if self._namespace and record.namespace != self._namespace:
            return
        if self._matches is None:
            self._append_line(event.type, record)
            return
        was = before is not None and self._matches(before.object)
        if event.type == DELETED:
            if was:
                self._append_line(DELETED, record)
            return
        if self._matches(record.object):
            self._append_line(MODIFIED if was else ADDED, record)
        elif was and before is not None:
            metadata = {**before.object["metadata"], "resourceVersion": str(event.revision)}
            self._append_line(DELETED, Record({**before.object, "metadata": metadata}, event.revision))

    def _append_line(self, kind: str, record: Record) -> None:
        """Append the line of an event to those that wait to be taken."""
        body = record.json() if self._render is None else self._render(record)
        self._pieces += (_OPENING[kind], body, _CLOSING)
        self._waiting += 1
        self._wake.set()
