"""The circuit breaker of remote plugins: when a plugin that fails is asked."""

from collections.abc import Callable

import pytest

from tests.helpers.virtual_time import Clock
from trireme.remote.remote_breaker import Breaker, State


def opened(clock: Clock, failures: int = 3) -> Breaker:
    """A breaker that has just opened, for ten seconds."""
    breaker = Breaker(failures, 10, clock)
    for _ in range(failures):
        breaker.record_failure(admitted(breaker))
    return breaker


def admitted(breaker: Breaker) -> int:
    """The period of a call, which must be admitted."""
    period = breaker.admit()
    assert period is not None
    return period


def test_failures_in_a_row_open_it() -> None:
    """If this fails, every pod waits out the deadline of a plugin that is down."""
    breaker = opened(Clock(100.0))
    assert breaker.state is State.OPEN
    assert breaker.admit() is None
    assert breaker.opened == 1


def test_an_answer_in_between_starts_the_count_again() -> None:
    """If this fails, a plugin that fails now and then is shut out."""
    breaker = Breaker(3, 10, Clock(100.0))
    for _ in range(5):
        breaker.record_failure(admitted(breaker))
        breaker.record_failure(admitted(breaker))
        breaker.record_answer()
    assert breaker.state is State.CLOSED
    assert breaker.failures_in_a_row == 0


def test_zero_failures_never_opens() -> None:
    """If this fails, the configuration's "always asked" is not honoured."""
    breaker = Breaker(0, 10, Clock(100.0))
    for _ in range(100):
        breaker.record_failure(admitted(breaker))
    assert breaker.admit() is not None


def test_one_call_tries_when_the_time_is_over() -> None:
    """If this fails, a plugin that comes back is flooded, or never asked again."""
    clock = Clock(100.0)
    assert not Breaker(3, 10, clock).is_probe_due
    breaker = opened(clock)
    clock.now += 9.99
    assert not breaker.is_probe_due
    assert breaker.admit() is None
    clock.now += 0.01
    assert breaker.is_probe_due
    admitted(breaker)
    assert not breaker.is_probe_due
    assert breaker.state is State.HALF_OPEN
    assert breaker.admit() is None


def answer(breaker: Breaker, _: int) -> None:
    """The plugin responds to a call."""
    breaker.record_answer()


@pytest.mark.parametrize(
    ("report", "state", "admits_next"),
    [
        pytest.param(answer, State.CLOSED, True, id="answer"),
        pytest.param(Breaker.record_failure, State.OPEN, False, id="failure"),
        pytest.param(Breaker.release, State.OPEN, True, id="end-without-result"),
    ],
)
def test_outcome_of_a_half_open_call(report: Callable[[Breaker, int], None], state: State, admits_next: bool) -> None:
    """If this fails, a trial call has the wrong effect: a cancelled one would shut the plugin out forever."""
    clock = Clock(100.0)
    breaker = opened(clock)
    clock.now += 10
    period = admitted(breaker)
    report(breaker, period)
    assert breaker.state is state
    if report is not Breaker.release:
        breaker.release(period)
        assert breaker.state is state
    assert (breaker.admit() is not None) is admits_next


@pytest.mark.parametrize("report", [Breaker.record_failure, Breaker.release])
@pytest.mark.parametrize("old_probe", [False, True])
def test_only_the_probe_decides_what_its_failure_means(report: Callable[[Breaker, int], None], old_probe: bool) -> None:
    """If this fails, a call from before the breaker opened that ends during a probe lets a second one out at once."""
    clock = Clock(100.0)
    breaker = Breaker(1, 10, clock)
    old = admitted(breaker)
    breaker.record_failure(admitted(breaker))
    clock.now += 10
    probe = admitted(breaker)
    if old_probe:
        # A response to another call closed the breaker during the probe; it opened again.
        old = probe
        breaker.record_answer()
        breaker.record_failure(admitted(breaker))
        clock.now += 10
        probe = admitted(breaker)
    opened_before = breaker.opened
    report(breaker, old)
    assert (breaker.state, breaker.opened) == (State.HALF_OPEN, opened_before)
    assert breaker.admit() is None
    breaker.record_failure(probe)
    assert (breaker.state, breaker.opened) == (State.OPEN, opened_before + 1)


def test_failures_of_calls_from_before_it_opened_do_not_open_it_again() -> None:
    """If this fails, calls that hung while the plugin was down shut it out again after it has come back."""
    clock = Clock(100.0)
    breaker = Breaker(3, 10, clock)
    old = [admitted(breaker) for _ in range(3)]
    for _ in range(3):
        breaker.record_failure(admitted(breaker))
    clock.now += 10
    admitted(breaker)
    breaker.record_answer()
    for period in old:
        breaker.record_failure(period)
    assert (breaker.state, breaker.failures_in_a_row) == (State.CLOSED, 0)


def test_late_failures_do_not_prolong_the_time() -> None:
    """If this fails, the calls that were under way when it opened would each push the next try further away."""
    clock = Clock(100.0)
    breaker = Breaker(3, 10, clock)
    late = admitted(breaker)
    for _ in range(3):
        breaker.record_failure(admitted(breaker))
    clock.now += 5
    breaker.record_failure(late)
    clock.now += 5
    assert breaker.admit() is not None
    assert breaker.opened == 1


def test_a_call_that_ends_without_a_failure_leaves_a_closed_breaker_as_it_is() -> None:
    """If this fails, a call that is cancelled has the next ones fail, or failures beside answers do not count."""
    breaker = Breaker(2, 10, Clock(100.0))
    cancelled, others = admitted(breaker), [admitted(breaker) for _ in range(2)]
    breaker.release(cancelled)
    assert (breaker.state, breaker.is_probe_due) == (State.CLOSED, False)
    answered = admitted(breaker)
    breaker.record_answer()
    breaker.release(answered)
    assert breaker.state is State.CLOSED
    for period in others:
        assert breaker.state is State.CLOSED
        breaker.record_failure(period)
        breaker.release(period)
    assert (breaker.state, breaker.opened, breaker.is_probe_due) == (State.OPEN, 1, False)
