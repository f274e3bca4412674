"""How long a plugin's calls may keep a process waiting."""

from trireme.remote import call_budget


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_plugin_within_its_budget_is_always_called() -> None:
    """If this fails, a plugin that takes what it may is left out."""
    clock = Clock()
    budget = call_budget.CallBudget(0.1, clock)
    for _ in range(200):
        assert budget.admits()
        budget.spend(0.05)
        clock.now += 0.5
    assert (budget.bypassed, budget.exhausted) == (0, False)


def test_a_plugin_that_takes_more_is_left_out_for_a_while() -> None:
    """If this fails, a plugin that is slow and does not fail slows every pod forever, or is never called again."""
    clock = Clock()
    budget = call_budget.CallBudget(0.1, clock)
    budget.spend(0.9)
    assert budget.admits()
    budget.spend(0.2)
    assert not budget.admits()
    clock.now += call_budget.BURST_SECONDS / 2 - 0.5
    assert not budget.admits()
    assert (budget.bypassed, budget.exhausted) == (2, True)
    clock.now += 1.0
    assert budget.admits()
    assert not budget.exhausted


def test_the_time_between_two_calls_counts_once() -> None:
    """If this fails, calls within the budget use it up, or its calls are free while someone looks."""
    clock = Clock()
    budget = call_budget.CallBudget(0.1, clock)
    budget.spend(0.9)
    clock.now += 5.0
    budget.spend(0.55)
    assert budget.admits()
    for _ in range(9):
        budget.spend(0.0)
    budget.spend(0.1)
    assert not budget.admits()


def test_one_very_long_call_is_not_paid_off_for_ever() -> None:
    """If this fails, a call that met a deadline of minutes has the plugin left out for an hour."""
    clock = Clock()
    budget = call_budget.CallBudget(0.1, clock)
    budget.spend(300.0)
    assert not budget.admits()
    clock.now += call_budget.BURST_SECONDS / 2 + 0.1
    assert budget.admits()


def test_without_a_limit_nothing_is_counted() -> None:
    """If this fails, plugins without a budget are left out."""
    budget = call_budget.CallBudget(0.0, Clock())
    budget.spend(1000.0)
    assert budget.admits()
    assert budget.bypassed == 0
