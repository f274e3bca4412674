"""No pod costs more calls, bytes or evaluated nodes than is stored."""

import json

import pytest

from tools.bench import guard


def test_no_figure_exceeds_the_stored_one() -> None:
    """A change that makes pods dearer stores the new figures (`python -m tools.bench.guard --write`) and says why."""
    stored = json.loads(guard.STORED.read_text())
    if stored["python"] != guard.python_version():
        pytest.skip(f"the figures are of Python {stored['python']}")
    counted = guard.figures()
    assert counted.keys() == stored["figures"].keys()
    assert guard.excesses(counted, stored["figures"]) == []


def test_excesses_name_what_costs_more() -> None:
    """A few percent pass, as they may come from a change of a library; a figure that is new, or higher, is named."""
    stored = {"basic": {"filter: calls": 100.0, "filter: bytes": 50.0}}
    counted = {"basic": {"filter: calls": 104.0, "filter: bytes": 53.0, "filter: messages": 1.0}}
    assert guard.excesses(counted, stored) == [
        "basic: filter: bytes: 53 a pod, 50 is stored",
        "basic: filter: messages: 1 a pod, 0 is stored",
    ]
