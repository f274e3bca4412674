"""Places for requests: how many one caller may have, and what is left for others."""

import contextlib

import pytest

from trireme.insight.http_api import request_places


def _fill(stack: contextlib.ExitStack, places: request_places.RequestPlaces, caller: str) -> int:
    """How many places the caller gets in a row."""
    got = 0
    with contextlib.suppress(request_places.NoPlaceLeft):
        while True:
            stack.enter_context(places.place_for(caller))
            got += 1
    return got


def test_one_caller_gets_a_fifth_of_all_places() -> None:
    """One user with a loop would shut out everybody else."""
    places = request_places.RequestPlaces(64)
    with contextlib.ExitStack() as stack:
        assert _fill(stack, places, "greedy") == 13
        with places.place_for("modest"):
            assert places.in_use == 14
    assert places.in_use == 0


def test_a_newcomer_gets_a_place_beside_ten_greedy_callers() -> None:
    """With a fixed limit for each, some callers together would use all places."""
    places = request_places.RequestPlaces(64)
    with contextlib.ExitStack() as stack:
        got = [_fill(stack, places, f"greedy-{number}") for number in range(10)]
        assert got[0] == 13
        assert sum(got) < 64
        with places.place_for("modest"):
            pass


def test_all_places_can_be_in_use_but_never_more() -> None:
    """The bound is one of memory: it holds for all callers together."""
    places = request_places.RequestPlaces(8)
    with contextlib.ExitStack() as stack:
        assert sum(_fill(stack, places, str(number)) for number in range(100)) == 8
        with pytest.raises(request_places.NoPlaceLeft), places.place_for("one more"):
            pass


def test_a_place_is_free_again_after_an_error() -> None:
    """Requests that fail would use up the places."""
    places = request_places.RequestPlaces(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="fails"), places.place_for("a"):
            raise ValueError("fails")
    assert places.in_use == 0
