"""A snapshot whose nodes and pods come, change and go, for tests of incremental evaluation against a fresh one."""

from collections.abc import Mapping
from typing import ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.helpers.snapshot_views import Json, SnapshotBuilder
from trireme.v1 import core_pb2

NODES = [f"n{number}" for number in range(5)]


class SnapshotMachine(RuleBasedStateMachine):
    """The stimuli. What must hold after them is up to subclasses."""

    #: Pods by the number of their class.
    CLASSES: ClassVar[Mapping[int, core_pb2.Pod]]
    #: Draws the fields of a node.
    NODE_FIELDS: ClassVar[st.SearchStrategy[Json]]

    def __init__(self) -> None:
        super().__init__()
        self.builder = SnapshotBuilder()
        for number, pod in self.CLASSES.items():
            self.builder.add_class(number, pod)
        self.alive: set[str] = set()
        self.rows: dict[int, str] = {}

    @rule(name=st.sampled_from(NODES), fields=st.runner().flatmap(lambda machine: machine.NODE_FIELDS))
    def set_node(self, name: str, fields: Json) -> None:
        """A node is added, or changes."""
        self.builder.set_node(name, **fields)
        self.alive.add(name)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        """A node is removed, and its pods with it."""
        if name in self.alive:
            gone = [row for row, node in self.rows.items() if node == name]
            if gone:
                self.builder.remove(*gone)
            self.rows = {row: node for row, node in self.rows.items() if node != name}
            self.before_removal(name)
            self.builder.remove_node(name)
            self.alive.discard(name)

    def before_removal(self, name: str) -> None:
        """What else has to be removed with a node."""

    @rule(
        name=st.sampled_from(NODES),
        number=st.runner().flatmap(lambda machine: st.sampled_from(list(machine.CLASSES))),
        count=st.integers(1, 2),
    )
    def place(self, name: str, number: int, count: int) -> None:
        """Pods are placed, whether or not they fit."""
        if name in self.alive:
            self.rows.update(dict.fromkeys(self.builder.place(number, *[name] * count), name))

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        """A pod is removed."""
        if self.rows:
            row = data.draw(st.sampled_from(sorted(self.rows)))
            self.builder.remove(row)
            del self.rows[row]
