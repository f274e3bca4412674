"""Pods of which an extender says that it has bound them, until the API server shows it.

An extender is anybody's program, and what it says of a binding cannot be read from its answer. One that is wrong would
leave the pod with room on a node for ever, neither tried nor bound; kube-scheduler has that gap. So whoever is not seen
on a node by the time at which any other pod is tried anyway is taken back, and the extender asked once more.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

# As long as pods wait that no event wakes: no watch that works is so late.
BELIEVED_SECONDS = 300.0

T = TypeVar("T")


class ReportedBound(Generic[T]):
    """What is known of such pods, by UID, the oldest first."""

    def __init__(self, in_doubt: Callable[[str], bool], take_back: Callable[[T], None]) -> None:
        """`in_doubt` says of a UID whether nobody has seen the pod bound or gone."""
        self._in_doubt = in_doubt
        self._take_back = take_back
        self._pods: dict[str, tuple[float, T]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods and self._in_doubt(uid)

    def add(self, uid: str, pod: T) -> None:
        """An extender says so now."""
        loop = asyncio.get_running_loop()
        self._pods[uid] = loop.time() + BELIEVED_SECONDS, pod
        if self._timer is None:
            self._timer = loop.call_later(BELIEVED_SECONDS, self._look)

    def close(self) -> None:
        """Nobody is taken back any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        while self._pods:
            uid, (due, pod) = next(iter(self._pods.items()))
            if due > now:
                self._timer = loop.call_at(due, self._look)
                return
            del self._pods[uid]
            if self._in_doubt(uid):
                self._take_back(pod)
