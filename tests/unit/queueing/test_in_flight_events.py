"""InFlightEvents: what happened since a pod was popped."""

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.queue_builders import NODE_ADD
from trireme.queueing.in_flight_events import EventCursor, InFlightEvent, InFlightEvents


def happen(log: InFlightEvents, number: int) -> None:
    """Records an event that carries the number."""
    log.append(InFlightEvent(NODE_ADD, None, number))


def numbers(log: InFlightEvents, cell: EventCursor) -> list[int] | None:
    """The numbers of the events since the cell was opened."""
    happened = log.since(cell.start)
    return None if happened is None else [each.new for each in happened]


def test_a_cell_sees_what_happened_since_it_was_opened() -> None:
    log = InFlightEvents()
    happen(log, 0)
    first = log.open_cursor(1)
    happen(log, 1)
    second = log.open_cursor(1)
    happen(log, 2)
    assert numbers(log, first) == [1, 2]
    assert numbers(log, second) == [2]
    assert log.by_label() == {"NodeAdd": 2}


def test_events_without_a_cursor_before_them_are_dropped() -> None:
    log = InFlightEvents()
    first = log.open_cursor(2)
    happen(log, 1)
    second = log.open_cursor(1)
    happen(log, 2)
    log.close_cursor(first)
    assert len(log) == 2
    log.close_cursor(first)
    assert len(log) == 1
    assert numbers(log, second) == [2]
    log.close_cursor(second)
    assert len(log) == 0
    happen(log, 3)
    assert len(log) == 0


def test_a_long_attempt_does_not_retain_other_events() -> None:
    log = InFlightEvents()
    cells = []
    for number in range(1000):
        cells.append(log.open_cursor(1))
        happen(log, number)
    assert len(log._events) == len(log) == 1000
    for cell in cells[:900]:
        log.close_cursor(cell)
    assert len(log._events) <= 2 * len(log) <= 200


def test_a_pod_whose_events_were_dropped_is_known() -> None:
    log = InFlightEvents(limit=10)
    old = log.open_cursor(1)
    for number in range(11):
        happen(log, number)
    young = log.open_cursor(1)
    happen(log, 99)
    assert log.dropped == 5
    assert numbers(log, old) is None
    assert numbers(log, young) == [99]


@given(st.lists(st.sampled_from(["open", "happen", "close first", "close last"]), max_size=60))
def test_the_pruned_log_equals_the_full_log(steps: list[str]) -> None:
    log = InFlightEvents()
    history: list[int] = []
    opened: list[tuple[EventCursor, int]] = []
    for number, step in enumerate(steps):
        if step == "open":
            opened.append((log.open_cursor(1), len(history)))
        elif step == "happen":
            happen(log, number)
            history.append(number)
        elif opened:
            cell, _ = opened.pop(0 if step == "close first" else -1)
            log.close_cursor(cell)
        for cell, position in opened:
            assert numbers(log, cell) == history[position:]
        needed = history[min((position for _, position in opened), default=len(history)) :]
        assert len(log) == len(needed) == sum(log.by_label().values())


def test_events_are_not_recorded_while_no_pod_is_tried() -> None:
    """They would fill the memory, and count as dropped."""
    log = InFlightEvents(limit=10)
    for number in range(100):
        happen(log, number)
    first = log.open_cursor(1)
    happen(log, 100)
    assert (numbers(log, first), log.dropped) == ([100], 0)
    log.close_cursor(first)
    for number in range(100):
        cursor = log.open_cursor(1)
        happen(log, number)
        assert numbers(log, cursor) == [number]
        log.close_cursor(cursor)
    assert log.dropped == 0
