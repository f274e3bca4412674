"""Pods that an extender reports as bound, until the informer confirms it.

An extender's report cannot be verified from its response. A wrong one would leave the pod assumed on a node forever,
neither bound nor retried; kube-scheduler has that gap. So a pod that is not confirmed within the time after which any
other pod is retried is requeued, and the extender is called again.

Tests: tests/unit/scheduling/test_never_lost.py, tests/unit/scheduling/test_bound_by_extenders.py.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

# As long as pods wait without an event; no working watch is this late.
BELIEVED_SECONDS = 300.0

T = TypeVar("T")


class ReportedBound(Generic[T]):
    """The unconfirmed pods by UID, oldest first."""

    def __init__(self, in_doubt: Callable[[str], bool], requeue: Callable[[T], None]) -> None:
        """`in_doubt` returns whether a pod (UID) is neither confirmed as bound nor deleted."""
        self._in_doubt = in_doubt
        self._requeue = requeue
        self._pods: dict[str, tuple[float, T]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods and self._in_doubt(uid)

    def add(self, uid: str, pod: T) -> None:
        """Add a pod that an extender has just reported as bound."""
        loop = asyncio.get_running_loop()
        self._pods[uid] = loop.time() + BELIEVED_SECONDS, pod
        if self._timer is None:
            self._timer = loop.call_later(BELIEVED_SECONDS, self._requeue_unconfirmed)

    def close(self) -> None:
        """Stop requeueing pods."""
        if self._timer is not None:
            self._timer.cancel()

    def _requeue_unconfirmed(self) -> None:
        """Requeue the pods that have waited for confirmation too long, and wait for the next one."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        while self._pods:
            uid, (due, pod) = next(iter(self._pods.items()))
            if due > now:
                self._timer = loop.call_at(due, self._requeue_unconfirmed)
                return
            del self._pods[uid]
            if self._in_doubt(uid):
                self._requeue(pod)
