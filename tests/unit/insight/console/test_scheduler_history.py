"""SchedulerHistory: rates, latencies and preemptions from what the frontend sends once a second."""

import pytest

from tests.helpers import console_states
from tests.helpers.console_states import T0
from trireme.insight.console import scheduler_history


def test_rates_are_differences_over_the_time_between_messages() -> None:
    """A message that was lost would look like twice the throughput."""
    history = scheduler_history.SchedulerHistory()
    for message in (
        console_states.status(0, bound=10),
        console_states.status(1, bound=30, unschedulable_total=4),
        console_states.status(3, bound=70, unschedulable_total=4),
    ):
        history.take(message)
    samples = history.samples_after(0)
    assert [(sample.bound, sample.unschedulable) for sample in samples] == [(20.0, 4.0), (20.0, 0.0)]
    assert [sample.at_ms for sample in history.samples_after(T0 + 1000)] == [T0 + 3000]


def test_another_leader_begins_anew() -> None:
    """Its counters are less than those of the one before it: there would be negative rates, and old preemptions."""
    history = scheduler_history.SchedulerHistory()
    history.take(console_states.status(0, bound=500, latencies=(500, 0, 0), preemptions=[console_states.preemption(7)]))
    history.take(console_states.status(1, bound=510, latencies=(510, 0, 0)))
    history.take(console_states.status(2, bound=3, leader="other", preemptions=[console_states.preemption(1)]))
    assert len(history.samples_after(0)) == 1
    assert [record.number for record in history.preemptions()] == [1]
    assert history.pod_latency().count == 0
    history.take(console_states.status(3, bound=5, leader="other", latencies=(2, 0, 0)))
    assert (history.samples_after(0)[-1].bound, history.pod_latency().count) == (2.0, 2)


def test_latencies_are_those_of_the_last_minute() -> None:
    """A slow start would be shown forever."""
    history = scheduler_history.SchedulerHistory()
    history.take(console_states.status(0))
    history.take(console_states.status(1, bound=10, latencies=(0, 10, 0)))
    slow = history.pod_latency()
    assert slow.count == 10
    assert slow.p99 == pytest.approx(0.1 + 0.9 * 0.99)
    for second in range(2, 2 + scheduler_history.LATENCY_SAMPLES):
        history.take(console_states.status(second, bound=10 + second, latencies=(second - 1, 10, 0)))
    fast = history.pod_latency()
    assert fast.count == scheduler_history.LATENCY_SAMPLES
    assert fast.p99 == pytest.approx(0.1 * 0.99)


def test_a_message_sent_again_adds_no_preemption_twice() -> None:
    """After a new stream the last ones come again."""
    history = scheduler_history.SchedulerHistory()
    history.take(console_states.status(0, preemptions=[console_states.preemption(1), console_states.preemption(2)]))
    history.take(console_states.status(1, preemptions=[console_states.preemption(2), console_states.preemption(3)]))
    assert [record.number for record in history.preemptions()] == [3, 2, 1]


def test_what_is_remembered_is_bounded() -> None:
    """Insight would grow with the days."""
    history = scheduler_history.SchedulerHistory()
    for second in range(scheduler_history.SAMPLES + 100):
        history.take(console_states.status(second, preemptions=[console_states.preemption(second + 1)]))
    assert len(history.samples_after(0)) == scheduler_history.SAMPLES
    assert len(history.preemptions()) == scheduler_history.PREEMPTIONS


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        pytest.param((0, 0, 0), 0.5, None, id="nothing"),
        pytest.param((10, 0, 0), 0.5, 0.05, id="within the first bucket"),
        pytest.param((0, 10, 0), 0.5, 0.55, id="within the second"),
        pytest.param((5, 5, 0), 0.5, 0.1, id="at a bound"),
        pytest.param((0, 0, 4), 0.99, 1.0, id="beyond the last bound"),
    ],
)
def test_quantiles(counts: tuple[int, ...], share: float, expected: float | None) -> None:
    """A percentile would be one of another bucket."""
    found = scheduler_history.quantile((0.1, 1.0), counts, share)
    assert found == (None if expected is None else pytest.approx(expected))
