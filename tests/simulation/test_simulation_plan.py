"""Plans: what is done to the cluster, drawn from a seed."""

import itertools

import pytest

from tests.simulation import simulation_plan
from tests.simulation.simulation_plan import Options, PlannedEvent

WEIGHTS = {"kill": 4, "pause": 4, "stall": 1, "cut": 2}
INTERVALS = {"pods": (0.5, 4.0), "nodes": (10.0,)}


def _storms(options: Options, count: int) -> list[simulation_plan.Storm]:
    return list(itertools.islice(simulation_plan.storms(options, WEIGHTS, INTERVALS), count))


def test_a_seed_gives_a_plan() -> None:
    """If this fails, the same seed gives different runs, or different seeds the same."""
    assert _storms(Options(1), 3) == _storms(Options(1), 3)
    assert _storms(Options(1), 3) != _storms(Options(2), 3)


def test_storms_differ() -> None:
    """If this fails, a long run tests the same mixture of faults all the time."""
    assert len({storm.description for storm in _storms(Options(1), 10)}) > 5


def test_events_are_in_order_and_within_their_storm() -> None:
    """If this fails, faults come too late or never."""
    for storm in _storms(Options(3), 5):
        moments = [event.at for event in storm.events]
        assert moments == sorted(moments)
        assert moments[0] > 0
        assert moments[-1] < simulation_plan.STORM_SECONDS


def test_only_the_faults_asked_for_are_drawn() -> None:
    """If this fails, FAULTS=kill injects others, too."""
    events = [event for storm in _storms(Options(1, faults=("kill", "cut")), 5) for event in storm.events]
    assert {event.name for event in events if event.what == "fault"} == {"kill", "cut"}


def test_there_are_plans_without_faults() -> None:
    """If this fails, --no-faults injects some."""
    assert all(event.what == "load" for event in _storms(Options(1, no_faults=True), 1)[0].events)


def test_unknown_faults_are_refused() -> None:
    """If this fails, a misspelt kind of fault is a run without faults."""
    with pytest.raises(ValueError, match="kil"):
        _storms(Options(1, faults=("kil",)), 1)


def test_given_events_are_the_whole_plan() -> None:
    """If this fails, a shrunk list of faults does not repeat its run."""
    events = (PlannedEvent(4, 1.0, "fault", "kill", 9), PlannedEvent(2, 7.0, "load", "pods", 1))
    found = _storms(Options(1, events=events), 9)
    assert [(storm.number, storm.events) for storm in found] == [(2, events[1:]), (4, events[:1])]


def test_an_event_draws_the_same_whatever_is_left_out() -> None:
    """If this fails, a fault does something else when others are left out."""
    storm = _storms(Options(5), 1)[0]
    event = storm.events[3]
    alone = _storms(Options(5, events=(event,)), 1)[0].events[0]
    assert alone.source(5) == event.source(5)
    assert event.source(5) != storm.events[4].source(5)
