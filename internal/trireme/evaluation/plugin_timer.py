"""How long extension points and plugins take in one call of a phase, for the frontend's metrics.

Extension points are timed in every call, because there are few; plugins in one call of ten, because there are many and
kube-scheduler samples them so too.

Tests: tests/unit/evaluation/test_plugin_timer.py, tests/unit/evaluation/test_measured_times.py,
tests/unit/evaluation/test_batches_with_remote_scores.py, tests/unit/evaluation/test_filtering.py.
"""

import itertools
import time
from collections.abc import Callable, Iterator

from trireme.framework import status
from trireme.tracing import spans, trace_context
from trireme.v1 import filter_phase_pb2, status_pb2

SAMPLED_ONE_IN = 10

Clock = Callable[[], float]


class PluginTimer:
    """The times of one call. `sampled`: plugins are timed too."""

    __slots__ = ("_clock", "_times", "sampled")

    def __init__(self, sampled: bool = False, clock: Clock = time.perf_counter) -> None:
        self.sampled = sampled
        self._clock = clock
        self._times: dict[tuple[str, str], tuple[status.Code, float]] = {}  # by plugin ("": the whole point) and point

    def now(self) -> float:
        """The time, for `since` of the record that ends the measurement."""
        return self._clock()

    def record_point(self, point: str, since: float, code: status.Code = status.Code.SUCCESS) -> None:
        """Add the time since `since` to that of an extension point; the code recorded last counts."""
        self._add_time_since("", point, since, code)

    def record_plugin(self, plugin: str, point: str, since: float, code: status.Code = status.Code.SUCCESS) -> None:
        """Add the time since `since` to that of a plugin at an extension point, if plugins are timed in this call."""
        if self.sampled:
            self._add_time_since(plugin, point, since, code)

    def timing_messages(self, answers: int = 1) -> Iterator[filter_phase_pb2.Timing]:
        """The recorded times as messages, for the answer to the frontend, or the part of one of so many answers."""
        for (plugin, point), (code, spent) in self._times.items():
            yield filter_phase_pb2.Timing(
                plugin=plugin,
                extension_point=point,
                code=status_pb2.Code.ValueType(code.value),
                duration_us=_to_microseconds(spent / answers),
            )

    def _add_time_since(self, plugin: str, point: str, since: float, code: status.Code) -> None:
        """Add the time since `since` to that of the plugin at the point, and store the code.

        An empty name of a plugin stands for the point itself.
        """
        spent = self._clock() - since
        known = self._times.get((plugin, point))
        self._times[plugin, point] = (code, spent + (known[1] if known else 0.0))


class _NoTimer(PluginTimer):
    """Measures nothing."""

    __slots__ = ()

    def now(self) -> float:
        """No time in particular."""
        return 0.0

    def record_point(self, point: str, since: float, code: status.Code = status.Code.SUCCESS) -> None:
        """Record nothing."""

    def record_plugin(self, plugin: str, point: str, since: float, code: status.Code = status.Code.SUCCESS) -> None:
        """Record nothing."""

    def timing_messages(self, answers: int = 1) -> Iterator[filter_phase_pb2.Timing]:
        """None."""
        return iter(())


# For calls whose times nobody reads: to measure some fifty steps takes as long as several of them.
NO_TIMER: PluginTimer = _NoTimer()


class PluginTimers:
    """Makes a PluginTimer for each call; every tenth of them, and each that is traced, times plugins too."""

    def __init__(self, clock: Clock = time.perf_counter, *, timed: bool = True) -> None:
        """Without `timed` nothing is measured, and answers have no times."""
        self._calls = itertools.count()
        self._clock = clock
        self._timed = timed

    def timer_of_next_call(self) -> PluginTimer:
        """Make the timer of one call."""
        if not self._timed:
            return NO_TIMER
        sampled = next(self._calls) % SAMPLED_ONE_IN == 0
        if spans.recorder is not None and (context := trace_context.current.get()) is not None:
            sampled = sampled or context.sampled
        return PluginTimer(sampled, self._clock)


def _to_microseconds(seconds: float) -> int:
    """Whole microseconds, as the message can hold them."""
    return min(max(round(seconds * 1_000_000), 0), 0xFFFF_FFFF)
