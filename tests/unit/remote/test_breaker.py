"""The circuit breaker of remote plugins: when a plugin that fails is asked."""

import pytest
from virtual_time import Clock

from trireme.remote.remote_breaker import Breaker, State


def opened(clock: Clock, failures: int = 3) -> Breaker:
    """A breaker that has just opened, for ten seconds."""
    breaker = Breaker(failures, 10, clock)
    for _ in range(failures):
        assert breaker.admit()
        breaker.record_failure()
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """Broken, every pod waits out the deadline of a plugin that is down."""
    breaker = opened(Clock(100.0))
    assert breaker.state is State.OPEN
    assert not breaker.admit()
    assert breaker.opened == 1


def test_an_answer_in_between_starts_the_count_again() -> None:
    """Broken, a plugin that fails now and then is shut out."""
    breaker = Breaker(3, 10, Clock(100.0))
    for _ in range(5):
        breaker.record_failure()
        breaker.record_failure()
        breaker.record_answer()
    assert breaker.state is State.CLOSED
    assert breaker.failures_in_a_row == 0


def test_zero_failures_never_opens() -> None:
    """Broken, the configuration's "always asked" is not honoured."""
    breaker = Breaker(0, 10, Clock(100.0))
    for _ in range(100):
        breaker.record_failure()
    assert breaker.admit()


def test_one_call_tries_when_the_time_is_over() -> None:
    """Broken, a plugin that comes back is flooded, or never asked again."""
    clock = Clock(100.0)
    breaker = opened(clock)
    clock.now += 9.99
    assert not breaker.admit()
    clock.now += 0.01
    assert breaker.admit()
    assert breaker.state is State.HALF_OPEN
    assert not breaker.admit()


@pytest.mark.parametrize(
    ("outcome", "state", "admits_next"),
    [
        ("record_answer", State.CLOSED, True),
        ("record_failure", State.OPEN, False),
        ("record_abandoned", State.OPEN, True),
    ],
)
def test_outcome_of_a_half_open_call(outcome: str, state: State, admits_next: bool) -> None:
    """Broken, the try has the wrong consequence; above all, a caller that left would shut the plugin out for ever."""
    clock = Clock(100.0)
    breaker = opened(clock)
    clock.now += 10
    assert breaker.admit()
    getattr(breaker, outcome)()
    assert breaker.state is state
    assert breaker.admit() is admits_next


def test_late_failures_do_not_prolong_the_time() -> None:
    """Broken, the calls that were under way when it opened would each push the next try further away."""
    clock = Clock(100.0)
    breaker = opened(clock)
    clock.now += 5
    breaker.record_failure()
    clock.now += 5
    assert breaker.admit()
    assert breaker.opened == 1
