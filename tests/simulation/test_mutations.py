"""Changes of the product by name: what they change, that they can be taken back, and what is an error."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.defects import mutations
from trireme.rpc import dialing
from trireme.scheduling import relists
from trireme_kube.componentbase import clocks


@pytest.fixture(autouse=True)
def _product_as_it_was() -> Iterator[None]:
    yield
    mutations.undo_all()


def test_a_function_is_replaced_for_all_who_hold_it() -> None:
    held = clocks.to_wall
    mutations.replace("clocks.to_wall", lambda original, moment, steady_now, wall_now: original(moment, 0, 1))
    assert held(5, 2, 3) == 6
    assert mutations.undo_all()
    assert held(5, 2, 3) == clocks.to_wall(5, 2, 3) == 6


def test_a_method_is_replaced() -> None:
    mutations.replace("RelistTracker.seen_keys", lambda original, self, name: original(self, name) | {"one more"})
    tracker = relists.RelistTracker()
    tracker.add("pods", "pod")
    assert tracker.seen_keys("pods") == {"pod", "one more"}
    mutations.undo_all()
    assert tracker.seen_keys("pods") == {"pod"}


def test_calls_are_left_out() -> None:
    def add() -> set[Any]:
        tracker = relists.RelistTracker()
        tracker.add("pods", "pod")
        return tracker.seen_keys("pods")

    mutations.drop_calls("RelistTracker.add", "add")
    assert add() == set()
    mutations.undo_all()
    assert add() == {"pod"}


def test_a_constant_has_another_value() -> None:
    before = dialing.UNIX
    mutations.set_constant("dialing.UNIX", "other:")
    assert dialing.UNIX == "other:"
    mutations.undo_all()
    assert before == dialing.UNIX


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param(
            lambda: mutations.find("RelistTracker.gone"), "RelistTracker.gone: nothing has this name", id="method"
        ),
        pytest.param(lambda: mutations.find("RelistTracker.gone"), "gone: nothing has this name", id="method"),
        pytest.param(lambda: mutations.find("Gone.method"), "method: nothing has this name", id="class"),
        pytest.param(lambda: mutations.find("process.main"), "main: several places have this name", id="several"),
        pytest.param(
            lambda: mutations.drop_calls("RelistTracker", "seen.gone"), "no statement that calls seen.gone", id="call"
        ),
        pytest.param(
            lambda: mutations.replace("clocks.to_wall", lambda original, moment: moment),
            "clocks.to_wall: takes moment, steady_now, wall_now by now",
            id="parameters",
        ),
    ],
)
def test_what_does_not_apply_is_named(change: Any, error: str) -> None:
    with pytest.raises(mutations.DefectError, match=error):
        change()
