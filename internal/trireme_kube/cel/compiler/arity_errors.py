"""Error messages of calls with a wrong number of arguments or without a receiver, equal to Kubernetes'.

The library reports such a call as an unknown function; Kubernetes knows the function and lists the argument types. So
an expression with that error is checked again, in an environment where every function has an overload of every other
shape, with parameters of a type without values: then the library itself reports the argument types. Calls whose types
it does not know, or without arguments, are found here.

Source: github.com/google/cel-go/checker (resolveOverload).

Tests: tests/conformance/test_selectors.py.
"""

import re
from collections.abc import Iterator
from typing import Final

from trireme_kube.cel import syntax
from trireme_kube.cel.compiler import checked_types, compiler_messages
from trireme_kube.cel.library import functions

#: The library's message for a function that has no overload of this shape.
UNKNOWN: Final = "undeclared reference to "
_PREFIX: Final = "misused "
_MOST_ARGUMENTS: Final = 5
_ANYTHING: Final = "*T"
_UNDECLARED: Final = re.compile(
    r"(ERROR: <input>:([0-9]+):([0-9]+): )undeclared reference to '(\w+)' \(in container ''\)"
)
_METHOD: Final = re.compile(r"\.\s*\w+\s*$")
_EMPTY_ARGUMENTS: Final = re.compile(r"\(\s*\)")


def shapes_without_overload(name: str) -> Iterator[tuple[str, int, bool]]:
    """Yield the shapes of calls that no overload of a function has: name, number of arguments, whether a method."""
    overloads = functions.BY_NAME[name]
    for count in range(_MOST_ARGUMENTS + 1):
        same_arity = [each for each in overloads if len(functions.split_parameters(each.parameters)) == count]
        for member in (False, True):
            # Calls without arguments are found in the text, except those of qualified names.
            possible = count > 0 or (not member and "." in name)
            if possible and not any(_conflicts_with_shape(each, member) for each in same_arity):
                yield f"{_PREFIX}{name} {count} {member}", count, member


def _conflicts_with_shape(overload: functions.Overload, member: bool) -> bool:
    """Whether the overload conflicts with one of this shape; a built-in one only if it takes any type."""
    if overload.declared:
        return overload.member == member
    return not overload.parameters or any(
        part[-1] in _ANYTHING for part in functions.split_parameters(overload.parameters)
    )


def explain_empty_calls(expression: str, messages: str) -> str:
    """Replace messages about unknown functions where the function is known but called without arguments."""
    lines = expression.split("\n")

    def explain_empty_call(match: re.Match[str]) -> str:
        place, row, column, name = match.groups()
        line, at = lines[int(row) - 1], int(column) - 1
        if name in functions.BY_NAME and _EMPTY_ARGUMENTS.match(line, at) and not _METHOD.search(line[:at]):
            return f"{place}found no matching overload for '{name}' applied to '()'"
        return match.group()

    return _UNDECLARED.sub(explain_empty_call, messages)


def arity_problems(expression: str, checked: syntax.Checked) -> str:
    """Return the compiler's messages about calls with a wrong number of arguments; empty if there are none."""
    placed_messages = []
    for node in _all_calls(checked.root):
        if checked.overload(node.id).startswith(_PREFIX):
            types = [_type_name_in_messages(checked, each) for each in node.arguments]
            target = f"{types.pop(0)}." if node.member else ""
            message = f"found no matching overload for '{node.function}' applied to '{target}({', '.join(types)})'"
            placed_messages.append(compiler_messages.message_at(expression, checked.positions.get(node.id, 0), message))
    return "\n".join(text for _, text in sorted(placed_messages, key=lambda problem: problem[0]))


def _type_name_in_messages(checked: syntax.Checked, node: syntax.Node) -> str:
    """Return the node's type for messages; `!error!` where it is itself a call of a wrong shape."""
    if checked.overload(node.id).startswith(_PREFIX):
        return "!error!"
    return checked_types.type_text(checked.type(node.id))


def _all_calls(root: syntax.Node) -> Iterator[syntax.Call]:
    """Yield all calls of the tree."""
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, syntax.Call):
            yield each
        waiting.extend(syntax.children(each))
