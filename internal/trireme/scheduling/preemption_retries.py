"""When a preemptor is tried again whose victims could not all be deleted.

At once, the first time: most deletions that are refused are refused once, by a conflict or by a busy API server. After
that the preemptor waits, longer each time, as pods do that failed by error. An admission webhook, or a role that lacks
a verb, refuses forever, and the preemptor would try dozens of times a second; kube-scheduler, which has no such wait,
tries as often as its client's rate limit allows. The pod is not gated meanwhile: it waits in the queue for the
events of the plugins that rejected it, and is tried at the first such event or when its time has come.

Tests: tests/unit/scheduling/test_preemption_retries.py, tests/unit/scheduling/test_preemption_failures.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# How long a failure is remembered after the pod was tried again. Long enough for the attempt to end as before.
FORGET_SECONDS = 60.0


@dataclass(slots=True)
class _Retry:
    """A preemptor whose last preemption failed."""

    #: In a row.
    failures: int
    reason: str
    #: When it is tried again, on the steady clock; 0: that has been done.
    retry_at: float
    #: Ends then; after that, when it is forgotten.
    timer: asyncio.TimerHandle


class PreemptionRetries:
    """The preemptors whose last preemption failed, by UID, and when each may be tried again."""

    def __init__(
        self,
        delay: Callable[[int], float],
        activate: Callable[[Sequence[tuple[str, str]]], object],
        now: Callable[[], float],
    ) -> None:
        """Take `delay`, the seconds to wait for the n-th time; `activate`, which has pods (key, UID) tried now.

        `now` is the steady clock.
        """
        self._delay = delay
        self._activate = activate
        self._now = now
        self._retries: dict[str, _Retry] = {}

    def __len__(self) -> int:
        return len(self._retries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._retries

    def on_failure(self, key: str, uid: str, reason: str) -> None:
        """Try the preemptor again, now or after a delay: a victim of it stays."""
        before = self._retries.get(uid)
        failures = 1 if before is None else before.failures + 1
        self.forget(uid)
        delay = self._delay(failures - 1)
        loop = asyncio.get_running_loop()
        if delay:
            timer, retry_at = loop.call_later(delay, self._retry_now, key, uid), self._now() + delay
        else:
            timer, retry_at = loop.call_later(FORGET_SECONDS, self.forget, uid), 0.0
        self._retries[uid] = _Retry(failures, reason, retry_at, timer)
        if not delay:
            self._activate([(key, uid)])

    def delayed_retry(self, uid: str) -> tuple[str, float] | None:
        """Return why the victims stay, and when the preemptor is tried again (steady clock); None: it does not wait."""
        retry = self._retries.get(uid)
        return None if retry is None or not retry.retry_at else (retry.reason, retry.retry_at)

    def on_preemption(self, uid: str) -> None:
        """Cancel the delay: the preemptor preempts again, sooner than it had to."""
        retry = self._retries.get(uid)
        if retry is not None and retry.retry_at:
            self._forget_later(uid, retry)

    def forget(self, uid: str) -> None:
        """Drop what is known of the preemptor: it needs no retry any more, or is gone."""
        retry = self._retries.pop(uid, None)
        if retry is not None:
            retry.timer.cancel()

    def close(self) -> None:
        """Cancel all retries."""
        for uid in list(self._retries):
            self.forget(uid)

    def _retry_now(self, key: str, uid: str) -> None:
        self._forget_later(uid, self._retries[uid])
        self._activate([(key, uid)])

    def _forget_later(self, uid: str, retry: _Retry) -> None:
        """Remember the preemptor's failures a while longer, without a retry."""
        retry.timer.cancel()
        retry.retry_at = 0.0
        retry.timer = asyncio.get_running_loop().call_later(FORGET_SECONDS, self.forget, uid)
