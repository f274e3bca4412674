"""How calls to one remote plugin have ended: its circuit breaker, counters, and the log lines about changes."""

import logging
from collections.abc import Callable

from trireme.remote import remote_breaker
from trireme.rpc import call_durations

log = logging.getLogger(__name__)


class PluginHealth:
    """The results of one plugin's calls. `breaker` decides whether there is another one."""

    __slots__ = ("_plugin", "answered", "breaker", "durations", "failed", "last_error", "rejected_by_breaker")

    def __init__(self, plugin: str, failures: int, open_seconds: float, clock: Callable[[], float]) -> None:
        self._plugin = plugin
        self.breaker = remote_breaker.Breaker(failures, open_seconds, clock)
        #: Requests.
        self.answered = self.failed = self.rejected_by_breaker = 0
        #: The last failure, with its endpoint; empty before the first.
        self.last_error = ""
        self.durations = call_durations.CallDurations()

    def admit(self) -> int | str:
        """The breaker's period of a call that may be made now, or why there may be none."""
        period = self.breaker.admit()
        if period is not None:
            return period
        self.rejected_by_breaker += 1
        return f"not called, after {self.breaker.failures_in_a_row} failures in a row: {self.last_error}"

    def record_answer(self) -> None:
        """Report a usable answer."""
        if self.breaker.failures_in_a_row:
            log.info("plugin %s responds again", self._plugin)
        self.answered += 1
        self.breaker.record_answer()

    def record_rejected_request(self, text: str) -> None:
        """Report that the plugin rejected the request; that is no failure of the plugin."""
        self.failed += 1
        self.last_error = text
        self.breaker.record_answer()

    def record_failure(self, period: int, text: str) -> None:
        """Report that a call of the breaker's period had no answer, or an unusable one."""
        self.failed += 1
        self.last_error = text
        first = self.breaker.failures_in_a_row == 0
        opened = self.breaker.opened
        self.breaker.record_failure(period)
        if self.breaker.opened > opened:
            log.warning("plugin %s: circuit breaker opened: %s", self._plugin, text)
        elif first:
            log.warning("plugin %s failed: %s", self._plugin, text)
