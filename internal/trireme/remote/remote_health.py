"""How calls to one remote plugin have ended: circuit breakers, counters, and the log lines about changes.

Each RPC has a breaker of its own: a plugin whose Score always fails and whose PreScore answers must not cost every pod
Score's deadline. A plugin that is down fails in all its RPCs.

Also change: internal/trireme/phases/phase_metrics.py (states of answers in metrics).
Also change: internal/trireme/frontend/plugin_calls.py (how the text of what is not called begins).

Tests: tests/unit/remote/test_remote_health.py, tests/contract/test_plugin_client.py.
"""

import datetime
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trireme.remote import remote_breaker
from trireme.rpc import call_durations
from trireme_kube.componentbase import clocks

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BreakerStatistics:
    """The circuit breaker of one RPC."""

    state: remote_breaker.State
    opened: int  # times
    failures_in_a_row: int


class RpcHealth:
    """The results of one RPC's calls. Its breaker decides whether there is another one."""

    __slots__ = ("breaker", "last_error", "open_since", "open_until")

    def __init__(self, breaker: remote_breaker.Breaker) -> None:
        self.breaker = breaker
        #: The last failure, with its endpoint; empty before the first.
        self.last_error = ""
        #: When the breaker opened, and has not closed since.
        self.open_since: datetime.datetime | None = None
        #: When a breaker that is open admits a call again.
        self.open_until: datetime.datetime | None = None

    def until(self) -> str:
        """When a call is tried again: `until 19:05:13 UTC`; empty: the breaker is not open, or the time is over."""
        breaker = self.breaker
        if self.open_until is None or breaker.state is not remote_breaker.State.OPEN or breaker.is_probe_due:
            return ""
        return f"until {self.open_until:%H:%M:%S} UTC"

    def statistics(self) -> BreakerStatistics:
        """The breaker's state and counters."""
        return BreakerStatistics(self.breaker.state, self.breaker.opened, self.breaker.failures_in_a_row)


class PluginHealth:
    """The results of one plugin's calls, together and by RPC. RPCs are named without their service, as in `Score`."""

    __slots__ = (
        "_clock",
        "_last_failed",
        "_last_failed_at",
        "_make_breaker",
        "_open_time",
        "_plugin",
        "_rpcs",
        "answered",
        "durations",
        "failed",
        "not_called",
    )

    def __init__(self, plugin: str, failures: int, open_seconds: float, clock: Callable[[], float]) -> None:
        self._plugin = plugin
        self._make_breaker: Callable[[], remote_breaker.Breaker] = functools.partial(
            remote_breaker.Breaker, failures, open_seconds, clock
        )
        self._open_time = datetime.timedelta(seconds=open_seconds)
        self._rpcs: dict[str, RpcHealth] = {}
        #: Requests; `not_called` met an open breaker.
        self.answered = self.failed = self.not_called = 0
        self._clock = clock
        self._last_failed = ""
        self._last_failed_at = 0.0
        self.durations = call_durations.CallDurations()

    def admit(self, rpc: str) -> int | str:
        """The period of the RPC's breaker for a call that may be made now, or why there may be none."""
        health = self._health_of(rpc)
        period = health.breaker.admit()
        if period is not None:
            return period
        self.not_called += 1
        return f"{rpc} was not called: {self.describe_failures(rpc)}"

    def is_probe_due(self, rpc: str) -> bool:
        """Whether the next call of the RPC probes the plugin after failures."""
        return self._health_of(rpc).breaker.is_probe_due

    def describe_failures(self, rpc: str) -> str:
        """Since when its circuit breaker is open, until when, and why: calls about other pods may be the reason."""
        health = self._health_of(rpc)
        since = "" if health.open_since is None else f" since {health.open_since:%H:%M:%S} UTC"
        until = f", {text}" if (text := health.until()) else ""
        failures = health.breaker.failures_in_a_row
        calls = "the last call" if failures == 1 else f"the last {failures} calls"
        why = f"{calls} of {rpc} failed, about this or other pods, the last one with: {health.last_error}"
        return f"the circuit breaker of plugin {self._plugin} is open{since}{until}, because {why}"

    def record_answer(self, rpc: str) -> None:
        """Report a usable answer."""
        health = self._health_of(rpc)
        if health.breaker.failures_in_a_row:
            log.info("plugin %s answers %s again", self._plugin, rpc)
        self.answered += 1
        health.breaker.record_answer()
        health.open_since = None

    def record_rejected_request(self, rpc: str, text: str) -> None:
        """Report that the plugin rejected the request; that is no failure of the plugin."""
        health = self._record_error(rpc, text)
        health.breaker.record_answer()
        health.open_since = None

    def record_failure(self, rpc: str, period: int, text: str) -> None:
        """Report that a call of the breaker's period had no answer, or an unusable one."""
        health = self._record_error(rpc, text)
        breaker = health.breaker
        first = breaker.failures_in_a_row == 0
        opened = breaker.opened
        breaker.record_failure(period)
        if breaker.opened > opened:
            now = clocks.utc_now()
            health.open_since, health.open_until = health.open_since or now, now + self._open_time
            log.warning(
                "plugin %s: circuit breaker of %s opened: %s; it is called again in %.0f s",
                self._plugin,
                rpc,
                text,
                self._open_time.total_seconds(),
            )
        elif first:
            log.warning("plugin %s: %s failed: %s; it is called again", self._plugin, rpc, text)

    def release(self, rpc: str, period: int) -> None:
        """Report that a call of the breaker's period ended, however it did."""
        self._health_of(rpc).breaker.release(period)

    def breakers(self) -> Mapping[str, BreakerStatistics]:
        """The breaker of each RPC that was called, by the RPC's name."""
        return {rpc: health.statistics() for rpc, health in self._rpcs.items()}

    def last_error(self) -> str:
        """The last failure, with RPC and endpoint; empty before the first.

        While breakers are not closed: the RPCs that are not called, each with its last failure.
        """
        closed = remote_breaker.State.CLOSED
        not_called = [(rpc, each) for rpc, each in self._rpcs.items() if each.breaker.state is not closed]
        if not_called:
            texts = ((f"{rpc} is not called: {each.last_error}", each.until()) for rpc, each in not_called)
            return "; ".join(f"{text} ({until})" if until else text for text, until in texts)
        return f"{self._last_failed}: {self._rpcs[self._last_failed].last_error}" if self._last_failed else ""

    def last_error_age(self) -> float | None:
        """Seconds since the last failure; None: there was none."""
        return self._clock() - self._last_failed_at if self._last_failed else None

    def _record_error(self, rpc: str, text: str) -> RpcHealth:
        """Count a call that failed or was rejected, and keep its text; returns the RPC's health."""
        health = self._health_of(rpc)
        health.last_error = text
        self._last_failed, self._last_failed_at = rpc, self._clock()
        self.failed += 1
        return health

    def _health_of(self, rpc: str) -> RpcHealth:
        """The health of one RPC, made at its first call."""
        health = self._rpcs.get(rpc)
        if health is None:
            health = self._rpcs[rpc] = RpcHealth(self._make_breaker())
        return health
