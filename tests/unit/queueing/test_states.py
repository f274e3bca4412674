"""The states of the queue's entries: frozen, assigned in one module only, and drawn in the documents."""

import ast
import dataclasses
import typing
from pathlib import Path

import pytest

from tests.helpers import queue_document
from trireme.queueing import state_machine, states

ROOM = Path(states.__file__).parent
STATES = typing.get_args(states.QueueState)


def _assigned(path: Path) -> list[int]:
    """The lines of the module that assign an attribute `state`, but for an entry's first."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr == "state" and ast.unparse(node.value) != "self"
    ]


@pytest.mark.slow
def test_only_transitions_assigns_states() -> None:
    modules = list(ROOM.rglob("*.py"))
    assert len(modules) > 20
    found = {path.relative_to(ROOM).as_posix() for path in modules if _assigned(path)}
    assert found == {"transitions.py", "groups/group_transitions.py"}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_states_are_frozen_and_small(state: type) -> None:
    """States are shared: one that could be changed would change for all pods that are in it."""
    assert dataclasses.is_dataclass(state)
    assert vars(state)["__dataclass_params__"].frozen
    assert "__dict__" not in dir(state)


def test_the_document_is_that_of_the_states() -> None:
    """docs/queue-states.md is where somebody looks who reads a pod's history."""
    assert queue_document.write() == queue_document.DOCUMENT.read_text(), "run `make docs`"


def test_a_step_that_a_machine_does_not_have_is_found() -> None:
    machine = state_machine.PODS
    history = [states.Active, states.InFlight, states.InFlight, states.Done, states.Gone]
    assert state_machine.impossible_transitions(history, machine) == []
    skipped = [states.InFlight, states.Active, states.Done]
    assert state_machine.impossible_transitions(skipped, machine) == [("Gone", "InFlight"), ("Active", "Done")]
