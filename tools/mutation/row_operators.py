"""Mutation operators for tables, which Cosmic Ray does not have: rows and words that are gone or wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cosmic_ray.operators import operator

# parso's nodes have no stubs.
Node = Any
Position = tuple[tuple[int, int], tuple[int, int]]

_SWAPS = {"always": "never", "never": "always", "helps_all": "helps_none", "helps_none": "helps_all"}


class RemoveElement(operator.Operator):
    """Removes one element of a tuple, list, set or dictionary, or of the arguments of `ClusterEventWithHint`."""

    def mutation_positions(self, node: Node) -> Sequence[Position]:
        """One for each element."""
        # No generator: Cosmic Ray changes the node while it goes through the positions.
        return [(node.children[start].start_pos, node.children[end - 1].end_pos) for start, end in _elements(node)]

    def mutate(self, node: Node, index: int) -> Node:
        """Without the element, and the comma behind it."""
        start, end = _elements(node)[index]
        if end < len(node.children):
            end += 1
        elif start:
            start -= 1
        del node.children[start:end]
        if len(node.children) == 1 and node.type == "testlist_comp" and node.parent.children[0] == "(":
            # One element alone would be no tuple any more.
            comma = type(node.parent.children[0])(",", node.children[0].end_pos)
            node.children.append(comma)
        return node if node.children else None

    @classmethod
    def examples(cls) -> Iterable[operator.Example]:
        """What it does."""
        return (
            operator.Example("t = (a, b)", "t = ( b,)"),
            operator.Example("t = (a,)", "t = ()"),
            operator.Example("t = {a: 1, b: 2}", "t = {a: 1}", 1),
            operator.Example("ClusterEventWithHint(a, b)", "ClusterEventWithHint(a)", 1),
        )


class ChangeString(operator.Operator):
    """Changes a text that is not a docstring."""

    def mutation_positions(self, node: Node) -> Iterator[Position]:
        """One for each text."""
        if node.type == "string" and node.parent.type not in ("simple_stmt", "expr_stmt_docstring"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Node, index: int) -> Node:
        """With another letter at its end."""
        quote = node.value[-1]
        node.value = f"{node.value[:-1]}X{quote}"
        return node

    @classmethod
    def examples(cls) -> Iterable[operator.Example]:
        """What it does."""
        return (operator.Example('t = "a"', 't = "aX"'),)


class SwapAnswer(operator.Operator):
    """Swaps the ready-made answers of hints: always and never, helps_all and helps_none."""

    def mutation_positions(self, node: Node) -> Iterator[Position]:
        """One for each use; definitions and imports stay."""
        if node.type == "name" and node.value in _SWAPS and not _is_named(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Node, index: int) -> Node:
        """The other answer."""
        node.value = _SWAPS[node.value]
        return node

    @classmethod
    def examples(cls) -> Iterable[operator.Example]:
        """What it does."""
        return (operator.Example("return always", "return never"),)


def _is_named(node: Node) -> bool:
    """Whether the name is defined or imported here."""
    return node.parent.type in ("funcdef", "import_as_names", "import_from", "import_as_name")


def _elements(node: Node) -> Sequence[tuple[int, int]]:
    """The children of each element, from and to, without commas."""
    if node.type not in ("testlist_comp", "dictorsetmaker") and not _is_event(node):
        return ()
    if node.parent.parent.type == "subscriptlist":
        return ()  # the parameters of a Callable: types are not run
    if any(getattr(child, "type", "") in ("sync_comp_for", "comp_for") for child in node.children):
        return ()
    out = []
    start = 0
    for at, child in enumerate([*node.children, ","]):
        if child == "," or getattr(child, "value", None) == ",":
            if at > start:
                out.append((start, at))
            start = at + 1
    return out


def _is_event(node: Node) -> bool:
    if node.type != "arglist" or node.parent.type != "trailer":
        return False
    called = node.parent.get_previous_sibling()
    return called is not None and getattr(called, "value", "") == "ClusterEventWithHint"
