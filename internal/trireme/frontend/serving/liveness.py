"""The check `scheduling` of /livez: whether scheduling makes progress.

A scheduler that waits forever holds the Lease, and nobody else schedules. A restart helps, so the scheduler is alive
only as long as cycles complete while there is work, or evictions for which one waits. Problems that a restart would not
solve fail no liveness check: a missing phase (readiness shows it), or bindings that the API server does not accept.
"""

from collections.abc import Callable
from typing import Protocol

from trireme.config import commandline
from trireme.scheduling import scheduler

STALL_SECONDS = 120.0
"""How long no cycle may complete while work is waiting, at least."""

CALLS_PER_CYCLE = 4
"""A cycle may wait for so many calls one after the other, and each of them as long as its deadline allows."""


class HasProgress(Protocol):
    """What /livez checks: something that reports its progress.

    Implementers: trireme.scheduling.scheduler.Scheduler, tests.contract.serving_frontend.Scheduling.
    """

    def progress(self) -> scheduler.Progress:
        """A number that changes with each completed cycle or eviction, and whether there is work."""
        ...


class Liveness:
    """The check of /livez: remembers, between probes, since when work has been waiting without progress."""

    def __init__(self, scheduling: HasProgress, limit_seconds: float, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._scheduling = scheduling
        self._limit = limit_seconds
        self._clock = clock
        self._completed = 0
        self._stalled_since: float | None = None

    def problem(self) -> str:
        """Return why the scheduler is not alive, or empty text.

        The first probe that finds work waiting begins the wait; it begins anew with each cycle, or eviction for one,
        that completed since the last probe. An empty queue is never a problem.
        """
        progress = self._scheduling.progress()
        now = self._clock()
        if not progress.work_waiting or progress.completed != self._completed:
            self._stalled_since = None
        self._completed = progress.completed
        if not progress.work_waiting:
            return ""
        if self._stalled_since is None:
            self._stalled_since = now
        stalled = now - self._stalled_since
        if stalled < self._limit:
            return ""
        return f"pods are waiting, and no scheduling cycle has completed for {stalled:.0f} s"


def limit_seconds(completed: commandline.CompletedConfig) -> float:
    """How long no cycle may complete with this configuration: two minutes, or longer if calls may take longer."""
    deadlines = [completed.trireme.phase(name).deadline.seconds for name in ("filter", "score")]
    deadlines.extend(extender.http_timeout.seconds for extender in completed.configuration.extenders)
    return max(STALL_SECONDS, CALLS_PER_CYCLE * max(deadlines))
