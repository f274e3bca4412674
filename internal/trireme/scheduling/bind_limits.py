"""How much of the binding cycle is in calls to bind at once.

Only calls under way are limited. Pods that wait for others (on Permit, for volumes or devices, for the condition of an
earlier attempt) are as many as there is room for on nodes, as in kube-scheduler: a plugin that lets them wait would
otherwise stop the scheduling of all other pods.

Also change: docs/deployment.md, docs/runbooks/README.md (how many bindings wait).

Tests: tests/unit/scheduling/test_room_for_bindings.py.
"""

import asyncio
from collections import defaultdict

# Pods in Bind calls, whose bindings wait for nothing but bind's rate limit and the API server. Beyond, no more pods are
# placed until some are bound: what is pending is bound by priority, what is placed in its turn.
MAX_IN_BIND_CALLS = 1000

# Calls under way for one profile and extension point, where plugins of others may take until their deadline. Its other
# pods wait, and other profiles go on. A server refuses all calls beyond `grpc_server.MAX_CONCURRENT_CALLS`.
MAX_CALLS_OF_PROFILE = 128

# Pods that extenders bind at once. Fewer than `extender_assembly.MAX_CONNECTIONS`: extenders that bind slowly leave
# connections for the calls that scheduling waits for.
MAX_BOUND_BY_EXTENDERS = 48


class RoomForBindings:
    """Counts pods in Bind calls: while there are too many no more are placed."""

    def __init__(self) -> None:
        self._pods = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def has_room(self) -> bool:
        """Whether more pods may be placed."""
        return self._room.is_set()

    async def wait(self) -> None:
        """Return when more pods may be placed."""
        await self._room.wait()

    def add(self, pods: int) -> None:
        """Count so many more pods in Bind calls; fewer, if negative."""
        self._pods += pods
        if self._pods < MAX_IN_BIND_CALLS:
            self._room.set()
        else:
            self._room.clear()


class CallTurns:
    """Limits how many calls of one extension point are under way at a time for each profile."""

    def __init__(self) -> None:
        self._turns: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MAX_CALLS_OF_PROFILE))

    def turn_for(self, profile: str) -> asyncio.Semaphore:
        """The context in which a call of that profile is made; entering it waits until the call may begin."""
        return self._turns[profile]
