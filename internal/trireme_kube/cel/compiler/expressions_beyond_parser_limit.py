"""Parses expressions deeper than the CEL library's limit, in parts.

The library parses and checks each part as a separate expression. A placeholder, a variable of the same type with the
part's number in its name, replaces each part that was taken out, and variables of enclosing macros are bound to sample
values of their types. Then the trees are joined.

The library's limit is 32, Kubernetes' 250; `nesting` rejects expressions beyond that.
"""

import bisect
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from trireme_kube.cel import syntax
from trireme_kube.cel.compiler import checked_types, compiler_messages, nesting

# The most brackets and operators nested in a part. The library may count several levels for each.
DEEPEST_PART: Final = 8

# The name of a part's placeholder, followed by the part's number.
_STANDS_FOR: Final = "_trireme_part_"

_DYNAMIC: Final = b"\n\x00"
_INT: Final = b"\x18\x02"

_SAMPLES: Final = {
    "dyn": "dyn(0)",
    "null": "null",
    "bool": "true",
    "int": "0",
    "uint": "0u",
    "double": "0.0",
    "string": '""',
    "bytes": 'b""',
    "timestamp": "timestamp(0)",
    "duration": 'duration("0s")',
    "kubernetes.Quantity": 'quantity("0")',
    "kubernetes.Semver": 'semver("0.0.0")',
    "kubernetes.URL": 'url("/")',
    "kubernetes.NamedFormat": "format.date()",
    "kubernetes.DRADevice": "device",
    "net.IP": 'ip("::")',
    "net.CIDR": 'cidr("::/0")',
}
_HOLDING: Final = {"list": "[{}]", "map": "{{{}: {}}}", "optional_type": "optional.of({})"}
_DEEPEST_TYPE: Final = 12


class RefusedError(Exception):
    """The compiler's messages about the parts, in the order of the text."""


@dataclass(slots=True)
class _PartText:
    """The text of a part as compiled by the library, with the origins of its pieces."""

    text: str = ""
    # The start of each piece, here and in the expression, and whether the texts are equal.
    _pieces: list[tuple[int, int, bool]] = field(default_factory=list)

    def add(self, text: str, start: int, *, same: bool = False) -> None:
        """Append a piece."""
        self._pieces.append((len(self.text), start, same))
        self.text += text

    def original(self, at: int) -> int:
        """Map an offset in this text to the expression."""
        here, there, same = self._pieces[bisect.bisect_right(self._pieces, at, key=lambda piece: piece[0]) - 1]
        return there + at - here if same else there


def compile_in_parts(
    expression: str, compile_: Callable[[str], Any], deepest_part: int = DEEPEST_PART
) -> tuple[Any, str]:
    """Compile an expression too deep for the library's parser: its parts apart, joined into one checked tree.

    Returns the tree (`syntax.Checked`), and the name of its type. `compile_` is the library's compiler. Raises:
    RefusedError, nesting.UnreadableError, nesting.TooDeepError.
    """
    whole = nesting.split_into_parts(expression, deepest_part)
    joined = _PartJoiner(expression, compile_)
    root = joined.compile_piece(whole)
    if joined.problems:
        raise RefusedError("\n".join(text for _, text in sorted(set(joined.problems))))
    joined.checked.root = root.tree
    return joined.checked, root.type_name


@dataclass(slots=True)
class _CompiledPart:
    """A checked part of an expression, with its type as encoded and by name."""

    tree: syntax.Node
    type: bytes
    type_name: str


class _PartJoiner:
    """Joins the checked parts of one expression."""

    def __init__(self, expression: str, compile_: Callable[[str], Any]) -> None:
        self._expression = expression
        self._compile = compile_
        self._parts: dict[nesting.Piece, _CompiledPart] = {}
        self._numbers: list[nesting.Piece] = []
        self._last_id = 0
        self.problems: list[tuple[tuple[int, int], str]] = []
        self.checked = syntax.Checked(syntax.Literal(0, None))

    def compile_piece(self, piece: nesting.Piece) -> _CompiledPart:
        """Compile the part, after its nested parts."""
        node = self._parts.get(piece)
        if node is None:
            node = self._parts[piece] = self._compile_part(piece)
        return node

    def _compile_part(self, piece: nesting.Piece) -> _CompiledPart:
        """Compile one part with variables in place of the parts inside it, whose trees then replace the variables.

        A part that does not compile notes its problems and counts as a literal.
        """
        text = _PartText()
        bound = self._bind_variables(piece, text)
        at = piece.start
        for part in nesting.parts_in(piece):
            text.add(self._expression[at : part.start], at, same=True)
            name = f"{_STANDS_FOR}{self._assign_number(part)}"
            text.add(f"cel.bind({name}, {expression_of_type(self.compile_piece(part).type)}, {name})", part.start)
            at = part.end
        text.add(self._expression[at : piece.end], at, same=True)
        if bound:
            # On a separate line: a comment may precede it.
            text.add("\n" + ")" * bound, piece.end)
        try:
            tree = self._compile(text.text)
        except RuntimeError as error:
            self.problems += compiler_messages.translated_problems(
                str(error), text.text, self._expression, text.original
            )
            return _CompiledPart(syntax.Literal(0, None), _DYNAMIC, "DYN")
        checked = syntax.decode_checked(tree.serialize())
        root = checked.root
        for _ in range(bound):
            assert isinstance(root, syntax.Comprehension)
            root = root.result
        return _CompiledPart(
            self._replace_placeholders(checked, root, text), checked.type(root.id), tree.return_type().name()
        )

    def _bind_variables(self, piece: nesting.Piece, text: _PartText) -> int:
        """Bind the variables that the part may use; return their number."""
        names = nesting.names_in(self._expression[piece.start : piece.end]) if piece.variables else frozenset()
        variables_by_name = {variable.name: variable for variable in piece.variables if variable.name in names}
        for variable in variables_by_name.values():
            kind = _macro_variable_type(self.compile_piece(variable.source).type, variable.what)
            text.add(f"cel.bind({variable.name}, {expression_of_type(kind)}, ", piece.start)
        return len(variables_by_name)

    def _assign_number(self, part: nesting.Piece) -> int:
        """Note a part and return its number, by which a placeholder names it."""
        self._numbers.append(part)
        return len(self._numbers) - 1

    def _replace_placeholders(self, checked: syntax.Checked, root: syntax.Node, text: _PartText) -> syntax.Node:
        """Replace placeholders in the tree by their parts, and renumber its nodes and their data."""
        first = self._last_id
        self._last_id += 1 + max([*checked.types, *checked.positions], default=0)
        own = self.checked
        own.overloads.update((first + key, value) for key, value in checked.overloads.items())
        own.names.update((first + key, value) for key, value in checked.names.items())
        own.types.update((first + key, value) for key, value in checked.types.items())
        own.positions.update((first + key, text.original(value)) for key, value in checked.positions.items())
        return self._renumbered(root, first)

    def _renumbered(self, node: syntax.Node, first: int) -> syntax.Node:
        """A copy of the tree with `first` added to all numbers, and parts' trees in place of their placeholders."""

        def renumbered_child(inner: syntax.Node) -> syntax.Node:
            return self._renumbered(inner, first)

        number = first + node.id
        if isinstance(node, syntax.Call):
            return dataclasses.replace(node, id=number, arguments=[renumbered_child(one) for one in node.arguments])
        if isinstance(node, syntax.Select):
            return dataclasses.replace(node, id=number, operand=renumbered_child(node.operand))
        if isinstance(node, syntax.ListOf):
            return dataclasses.replace(node, id=number, elements=[renumbered_child(one) for one in node.elements])
        if isinstance(node, syntax.MapOf):
            entries = [
                dataclasses.replace(one, key=renumbered_child(one.key), value=renumbered_child(one.value))
                for one in node.entries
            ]
            return dataclasses.replace(node, id=number, entries=entries)
        if isinstance(node, syntax.Comprehension):
            if node.result_variable.startswith(_STANDS_FOR):
                return self._parts[self._numbers[int(node.result_variable.removeprefix(_STANDS_FOR))]].tree
            return dataclasses.replace(
                node,
                id=number,
                over=renumbered_child(node.over),
                start=renumbered_child(node.start),
                condition=renumbered_child(node.condition),
                step=renumbered_child(node.step),
                result=renumbered_child(node.result),
            )
        return dataclasses.replace(node, id=number)


def expression_of_type(kind: bytes, within: int = 0) -> str:
    """Return an expression whose value has the type.

    Beyond the library's depth limit of types, the type is dynamic.
    """
    name, of = checked_types.decode_type(kind)
    inner = [expression_of_type(each, within + 1) for each in of] if within < _DEEPEST_TYPE else []
    if name in _HOLDING:
        return _HOLDING[name].format(*inner) if inner else _SAMPLES["dyn"]
    if name == "type":
        return f"type({inner[0]})" if inner else "type(type(0))"
    return _SAMPLES.get(name, _SAMPLES["dyn"])


def _macro_variable_type(kind: bytes, what: str) -> bytes:
    """Return the type of a macro's variable, by the type that the macro is called on and the variable's role."""
    name, of = checked_types.decode_type(kind)
    if what == nesting.ITSELF:
        return kind
    if what == nesting.CONTENT:
        return of[0] if name == "optional_type" else _DYNAMIC
    if name == "list":
        return _INT if what == nesting.FIRST else of[0]
    if name == "map":
        return of[1] if what == nesting.SECOND else of[0]
    return _DYNAMIC
