"""PluginTimer: whose times are measured, and what the frontend gets of them."""

from types import SimpleNamespace

import pytest

from tests.helpers.virtual_time import Clock
from trireme.evaluation import plugin_timer
from trireme.framework import status
from trireme.tracing import spans, trace_context
from trireme.v1 import filter_phase_pb2, status_pb2


def _messages(timer: plugin_timer.PluginTimer, answers: int = 1) -> dict[tuple[str, str], tuple[str, int]]:
    """By plugin and point the code and the duration."""
    return {
        (each.plugin, each.extension_point): (status_pb2.Code.Name(each.code), each.duration_us)
        for each in timer.timing_messages(answers)
    }


@pytest.mark.parametrize("sampled", [False, True])
def test_times_add_up_by_point_and_plugin_and_the_last_code_counts(sampled: bool) -> None:
    clock = Clock(10.0)
    timer = plugin_timer.PluginTimer(sampled, clock)
    for seconds, code in ((3.0, status.Code.ERROR), (1.0, status.Code.UNSCHEDULABLE)):
        since = timer.now()
        clock.now += seconds
        timer.record_plugin("Fit", "Filter", since, code)
        timer.record_point("Filter", since)
    found = _messages(timer)
    assert found["", "Filter"] == ("CODE_SUCCESS", 4_000_000)
    assert found.get(("Fit", "Filter")) == (("CODE_UNSCHEDULABLE", 4_000_000) if sampled else None)
    assert _messages(timer, 4)["", "Filter"] == ("CODE_SUCCESS", 1_000_000)


@pytest.mark.parametrize(("seconds", "expected"), [(-1.0, 0), (0.0, 0), (4e-7, 0), (6e-7, 1), (1e6, 0xFFFF_FFFF)])
def test_a_duration_is_as_the_message_can_hold_it(seconds: float, expected: int) -> None:
    """Clocks may go backwards."""
    clock = Clock(0.0)
    timer = plugin_timer.PluginTimer(clock=clock)
    clock.now = seconds
    timer.record_point("Filter", 0.0)
    assert _messages(timer) == {("", "Filter"): ("CODE_SUCCESS", expected)}


def test_plugins_are_timed_in_one_of_ten_calls() -> None:
    timers = plugin_timer.PluginTimers(Clock(0.0))
    sampled = [timers.timer_of_next_call().sampled for _ in range(2 * plugin_timer.SAMPLED_ONE_IN)]
    assert sampled == [number % plugin_timer.SAMPLED_ONE_IN == 0 for number in range(len(sampled))]


@pytest.mark.parametrize("traced", [False, True])
def test_plugins_are_timed_in_calls_that_are_traced(monkeypatch: pytest.MonkeyPatch, traced: bool) -> None:
    """And in those that would be timed without."""
    context = SimpleNamespace(get=lambda: SimpleNamespace(sampled=traced))
    monkeypatch.setattr(spans, "recorder", object())
    monkeypatch.setattr(trace_context, "current", context)
    timers = plugin_timer.PluginTimers(Clock(0.0))
    assert [timers.timer_of_next_call().sampled for _ in range(2)] == [True, traced]


def test_nothing_is_measured_for_nobody() -> None:
    timer = plugin_timer.PluginTimers(Clock(5.0), timed=False).timer_of_next_call()
    timer.record_point("Filter", timer.now())
    timer.record_plugin("Fit", "Filter", timer.now())
    none: list[filter_phase_pb2.Timing] = []
    assert (timer.now(), list(timer.timing_messages())) == (0.0, none)
