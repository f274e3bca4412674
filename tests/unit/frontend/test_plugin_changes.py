"""How often a remote plugin may have scheduling begin anew by describing itself otherwise."""

import itertools

from tests.helpers.virtual_time import Clock
from trireme.frontend import plugin_changes


def _counted(changes: plugin_changes.DescriptionChanges, clock: Clock, seconds: float) -> list[float]:
    """When changes counted, where every answer of so many seconds, each 5 s, differs from what is in force."""
    out = []
    end = clock.now + seconds
    while clock.now < end:
        if changes.may_take_effect():
            out.append(clock.now)
            changes.begin_back_off()
        clock.now += 5
    return out


def test_changes_that_repeat_count_ever_less_often() -> None:
    """If this fails, a plugin that never describes itself as before keeps the scheduler from scheduling."""
    clock = Clock(1000.0)
    changes = plugin_changes.DescriptionChanges(clock)
    counted = _counted(changes, clock, 3600)
    gaps = [after - before for before, after in itertools.pairwise(counted)]
    assert gaps[:5] == [30, 60, 120, 240, 300]
    assert set(gaps[5:]) == {300}


def test_an_update_now_and_then_counts_at_once() -> None:
    """If this fails, a plugin is called by the description of its old version after an update."""
    clock = Clock(1000.0)
    changes = plugin_changes.DescriptionChanges(clock)
    for _ in range(20):
        assert changes.may_take_effect()
        changes.begin_back_off()
        assert not changes.is_repeating
        clock.now += plugin_changes.STEADY_SECONDS + 1


def test_a_steady_time_ends_the_back_offs() -> None:
    """If this fails, one restless hour slows every later update of the plugin."""
    clock = Clock(1000.0)
    changes = plugin_changes.DescriptionChanges(clock)
    _counted(changes, clock, 3600)
    assert changes.is_repeating
    clock.now += plugin_changes.STEADY_SECONDS + 1
    assert not changes.is_repeating
    assert _counted(changes, clock, 60) == [clock.now - 60, clock.now - 30]


def test_the_problem_has_the_time_until_a_new_description_counts() -> None:
    """If this fails, nobody knows when the plugin is called as it describes itself."""
    clock = Clock(1000.0)
    changes = plugin_changes.DescriptionChanges(clock)
    assert changes.may_take_effect()
    assert not changes.is_repeating
    changes.begin_back_off()
    clock.now += 10
    assert not changes.may_take_effect()
    assert changes.is_repeating
    assert "for another 20 s" in changes.problem()


def test_a_change_that_could_not_be_made_begins_no_back_off() -> None:
    """If this fails, a plugin that was updated and could not be configured at once waits for half a minute."""
    clock = Clock(1000.0)
    changes = plugin_changes.DescriptionChanges(clock)
    assert changes.may_take_effect()
    clock.now += 5
    assert changes.may_take_effect()


def test_a_new_instance_is_reported_once_and_not_too_soon() -> None:
    """If this fails, a plugin that restarts often, or several behind one address, retries pods at each poll."""
    clock = Clock(1000.0)
    restarts = plugin_changes.Restarts(clock)
    restarts.observe("a")
    assert restarts.due
    restarts.report()
    restarts.observe("a")
    restarts.observe("")
    clock.now += 100
    assert not restarts.due
    reports = 0
    for second in range(60):
        clock.now += 1
        restarts.observe(f"instance {second}")
        if restarts.due:
            restarts.report()
            reports += 1
    assert reports == 2
    clock.now += plugin_changes.RESTART_SECONDS
    assert restarts.due, "the last ones are reported too"
