"""How large a message between processes may be, and how callers divide what is larger.

A server refuses a message that is too large with RESOURCE_EXHAUSTED, as it refuses a call because it is busy: repeated
as it is, such a call never passes.

Also change: internal/trireme/frontend/phase_clients/replica_link.py, internal/trireme/remote/remote_endpoint.py,
internal/trireme/rpc/grpc_server.py, internal/trireme/sdk/plugin_server.py (gRPC options of both sides).
Also change: examples/score-phase-go/main.go (size of messages).
Also change: docs/protocol.md.

Tests: tests/unit/frontend/test_divided_calls.py.
"""

from collections.abc import Iterable, Sequence

MAX_PHASE_BYTES = 64 << 20
"""A message between the frontend and a phase. An answer about many nodes, with a text of its own for each, is large,
and goes from filter to score. A full sync has chunks under 4 MiB."""

MAX_PLUGIN_BYTES = 16 << 20
"""A message between a phase and a remote plugin."""

CALL_BYTES = 4 << 20
"""How much of what can be divided is sent in one call. The rest of the message, a cycle with its pod, is at most as
large as an object of the API server."""

MAX_ITEM_BYTES = 12 << 20
"""An item that is larger is in no call: bind could not pass it on to a plugin."""


def divide(sizes: Iterable[int]) -> list[Sequence[int]]:
    """Divide items among calls: the indexes for each call, in order. `sizes` are the bytes of each item."""
    parts: list[list[int]] = []
    room = 0
    for index, size in enumerate(sizes):
        if not parts or size > room:
            parts.append([])
            room = CALL_BYTES
        parts[-1].append(index)
        room -= size
    return list(parts)
