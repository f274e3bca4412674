"""Kubernetes' checks of expressions beyond types: valid literals, and lists with one element type.

Source: k8s.io/apiserver/pkg/cel/environment, github.com/google/cel-go/cel (validator), ext (formatting).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from trireme_kube.cel import syntax
from trireme_kube.cel.compiler import checked_types, compiler_messages
from trireme_kube.cel.library import format_function, operators, string_functions
from trireme_kube.cel.values import EvaluationError

_Problem = tuple[int, str]


def validation_message(expression: str, checked: syntax.Checked) -> str:
    """Return what Kubernetes' validators find wrong with a checked expression, as compiler messages; empty: nothing."""
    placed_messages = [
        compiler_messages.message_at(expression, checked.positions.get(node, 0), message)
        for check in (_find_wrong_flatten_arguments, _find_invalid_literals, _find_mixed_types, _find_invalid_formats)
        for node, message in check(checked)
    ]
    return "\n".join(text for _, text in sorted(placed_messages, key=lambda problem: problem[0]))


def _nodes_below(node: syntax.Node) -> Iterator[syntax.Node]:
    """Yield the node and all below it, in the order of the text."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(syntax.children(each)))


def _find_wrong_flatten_arguments(checked: syntax.Checked) -> Iterator[_Problem]:
    """Check that `flatten` gets lists of lists or of a dynamic type."""
    for node in _nodes_below(checked.root):
        if isinstance(node, syntax.Call) and node.function == "flatten" and len(node.arguments) == 1:
            name, of = checked_types.decode_type(checked.type(node.arguments[0].id))
            if name == "list" and checked_types.decode_type(of[0])[0] not in ("list", "dyn"):
                kind = checked_types.type_text(checked.type(node.arguments[0].id))
                yield node.id, f"found no matching overload for 'flatten' applied to '{kind}.()'"


def _find_invalid_literals(checked: syntax.Checked) -> Iterator[_Problem]:
    """Find literal arguments that their function rejects, such as an invalid pattern."""
    for node in _nodes_below(checked.root):
        check = _CHECKS.get(node.function) if isinstance(node, syntax.Call) else None
        if check is None or not isinstance(node, syntax.Call):
            continue
        first = node.arguments[1:] if node.member else node.arguments
        if first and isinstance(first[0], syntax.Literal):
            try:
                check(first[0].value)
            except (EvaluationError, string_functions.PatternError):
                yield first[0].id, f"invalid {node.function} argument"


def _find_mixed_types(checked: syntax.Checked) -> Iterator[_Problem]:
    """Find lists and maps with mixed types; only arguments of `format` may have them."""
    waiting = [checked.root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Call) and node.function == "format":
            continue
        waiting.extend(syntax.children(node))
        if isinstance(node, syntax.ListOf):
            elements = [(each, at in node.optional) for at, each in enumerate(node.elements)]
            yield from _mixed_element_types(checked, elements, whole=False)
        elif isinstance(node, syntax.MapOf) and not node.name:
            yield from _mixed_element_types(checked, [(entry.key, False) for entry in node.entries], whole=True)
            yield from _mixed_element_types(
                checked, [(entry.value, entry.optional) for entry in node.entries], whole=True
            )


def _mixed_element_types(
    checked: syntax.Checked, nodes: Sequence[tuple[syntax.Node, bool]], *, whole: bool
) -> Iterator[_Problem]:
    """Find the first element of another type than the first one's; all of them with `whole`."""
    first = b""
    for node, optional in nodes:
        kind = checked.type(node.id)
        if optional:
            kind = checked_types.element_type(kind)
        first = first or kind
        if kind != first:
            expected, actual = map(checked_types.type_text, (first, kind))
            yield node.id, f"expected type '{expected}' but found '{actual}'"
            if not whole:
                return


def _find_invalid_formats(checked: syntax.Checked) -> Iterator[_Problem]:
    """Find problems of calls of string.format whose text and list are literals."""
    for node in _nodes_below(checked.root):
        if not isinstance(node, syntax.Call) or node.function != "format" or not node.member:
            continue
        text, arguments = node.arguments[0], node.arguments[-1]
        if isinstance(text, syntax.Literal) and isinstance(text.value, str) and isinstance(arguments, syntax.ListOf):
            yield from _problems_of_format_call(checked, node.id, text.value, arguments.elements)


def _problems_of_format_call(
    checked: syntax.Checked, id_: int, text: str, arguments: Sequence[syntax.Node]
) -> Iterator[_Problem]:
    """Yield the first problem of a call of string.format whose text is a literal."""
    needed = 0

    def check_argument_of_clause(at: int, letter: str) -> None:
        nonlocal needed
        needed = at + 1
        wrong = _find_misplaced_argument(checked, letter, arguments[at])
        if wrong is not None:
            raise _MisplacedArgumentError(wrong)

    try:
        format_function.check_clauses(text, len(arguments), check_argument_of_clause)
    except _MisplacedArgumentError as error:
        letter, node = error.args[0]
        kind = checked_types.type_text(checked.type(node)).partition("(")[0]
        message = format_function.wrong_argument_message(letter, checked_types.RUNTIME_NAMES.get(kind, kind))
        yield node, f"error during formatting: {message}"
    except EvaluationError as error:
        yield id_, str(error)
    else:
        if len(arguments) > needed:
            yield id_, f"too many arguments supplied to string.format (expected {needed}, got {len(arguments)})"


class _MisplacedArgumentError(Exception):
    """A value that its clause does not accept."""


def _find_misplaced_argument(checked: syntax.Checked, letter: str, node: syntax.Node) -> tuple[str, int] | None:
    """Return the clause and the node that it does not accept, or None."""
    kind = checked_types.type_text(checked.type(node.id)).partition("(")[0]
    if kind != "dyn" and kind not in format_function.KINDS[letter]:
        return letter, node.id
    if letter == "s" and isinstance(node, (syntax.ListOf, syntax.MapOf)):
        for each in syntax.children(node):
            wrong = _find_misplaced_argument(checked, letter, each)
            if wrong is not None:
                return wrong
    return None


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "duration": operators.to_duration,
    "timestamp": operators.to_timestamp,
    "matches": string_functions.compiled_pattern,
}
