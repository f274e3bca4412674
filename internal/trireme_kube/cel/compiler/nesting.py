"""Splits expressions that are deeper than the CEL library's limit into parts.

It knows operators, brackets, and the variables that macros declare; the library does the rest. It marks subexpressions
that can be parsed separately as parts, so that no part is deep: within its surroundings, a part counts as one operand.
The limit of an expression's total depth is Kubernetes'.

Source: github.com/google/cel-go/parser (CEL.g4, parser, macro).
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

# The limit of nested grammar rules while parsing, and of nested operators in the tree.
DEEPEST: Final = 250

# Python calls per nesting level of this parser, and those of its callers.
_CALLS_PER_LEVEL: Final = 12
_CALLS_AROUND: Final = 1000

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<text>(?:[bB]?[rR]|[rR][bB])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"\n]*\"|'[^'\n]*')
        |[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|\"(?:\\.|[^\\\"\n])*\"|'(?:\\.|[^\\'\n])*'))
    |(?P<number>0x[0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+(?:[eE][+-]?[0-9]+|[uU])?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`\n]+`)
    |(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_EXPRESSION, _RELATION, _CALCULATION = "expr", "relation", "calc"
# Operators by increasing precedence; the rule that they nest in, if any, and whether the rule starts with them.
_LEVELS: Final[Sequence[tuple[frozenset[str], str, bool]]] = (
    (frozenset({"||"}), "", False),
    (frozenset({"&&"}), "", False),
    (frozenset({"<", "<=", ">=", ">", "==", "!=", "in"}), _RELATION, True),
    (frozenset({"+", "-"}), _CALCULATION, True),
    (frozenset({"*", "/", "%"}), _CALCULATION, False),
)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
# The most selections that form a qualified name with a name.
_LONGEST_NAME: Final = 2
# The relation of a macro's variable to its source.
ELEMENT, FIRST, SECOND, CONTENT, ITSELF = "element", "first of two", "second of two", "content", "itself"
_LOOPS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter", "sortBy"})
_LOOPS_OVER_TWO: Final = frozenset({"all", "exists", "exists_one", "existsOne"})
_LOOPS_OVER_TWO_ONLY: Final = frozenset({"transformList", "transformMap", "transformMapEntry"})
_UNPACKING: Final = frozenset({"optMap", "optFlatMap"})


class UnreadableError(Exception):
    """The text is not an expression; the library reports why."""


class TooDeepError(Exception):
    """The expression exceeds the depth limit."""


@dataclass(slots=True, eq=False)
class Piece:
    """A subexpression: its place in the text, its children, and its depth, where parts count as one operand."""

    start: int
    end: int = 0
    pieces: "list[Piece]" = field(default_factory=list)
    # A variable with field selections, which may be a qualified name.
    plain: bool = False
    depth: int = 0
    # How many levels of the limited tree it has: selections, indexes, methods, `? :`, comparisons and arithmetic; not
    # brackets, lists, `!`, `&&`, `||` or global functions.
    tree_depth: int = 0
    parsed_apart: bool = False
    # The variables that macros around it declare, the innermost last.
    variables: "tuple[Variable, ...]" = ()


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable of a macro; `what` is its relation to its `source`."""

    name: str
    source: Piece
    what: str


def split_into_parts(text: str, deepest_part: int) -> Piece:
    """Parse the text, marking parts of at most this depth. Raises: UnreadableError, TooDeepError."""
    return _ExpressionParser(text, deepest_part).read()


def names_in(text: str) -> frozenset[str]:
    """All names in the text."""
    return frozenset(token.text for token in _tokens(text) if token.kind == "name")


def parts_in(piece: Piece) -> Iterator[Piece]:
    """The outermost parts within a piece, in the order of the text."""
    waiting = list(reversed(piece.pieces))
    while waiting:
        each = waiting.pop()
        if each.parsed_apart:
            yield each
        else:
            waiting.extend(reversed(each.pieces))


@dataclass(frozen=True, slots=True)
class _Token:
    """One token with its place in the text."""

    kind: str
    text: str
    start: int
    end: int


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens without blanks, an end token last. Raises: UnreadableError."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnreadableError(f"no token at {at}")
        if match.lastgroup != "blank":
            yield _Token(match.lastgroup, match.group(), at, match.end())
        at = match.end()
    yield _Token("end", "", at, at)


def _raise_recursion_limit(levels: int) -> None:
    """Raise Python's recursion limit for this parser and for the compiled program."""
    needed = _CALLS_AROUND + _CALLS_PER_LEVEL * levels
    if needed > sys.getrecursionlimit():
        sys.setrecursionlimit(needed)


class _ExpressionParser:
    """Parses one expression."""

    def __init__(self, text: str, deepest_part: int) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._deepest_part = deepest_part
        # The current nesting of each rule.
        self._within = dict.fromkeys((_EXPRESSION, _RELATION, _CALCULATION), 0)
        self._variables: list[Variable] = []

    def read(self) -> Piece:
        """Parse the whole text. Raises: UnreadableError, TooDeepError."""
        levels = min(sum(token.text in _CLOSING or token.text == "?" for token in self._tokens), DEEPEST)
        _raise_recursion_limit(levels)
        piece = self._parse_expression()
        if self._next_token.kind != "end":
            raise UnreadableError(f"nothing may follow at {self._next_token.start}")
        if piece.tree_depth > DEEPEST:
            raise TooDeepError("max recursion depth exceeded")
        _raise_recursion_limit(levels + piece.tree_depth)
        return piece

    @property
    def _next_token(self) -> _Token:
        """The token to be read next; it is not consumed."""
        return self._tokens[self._at]

    def _expect_token(self, text: str = "") -> _Token:
        """Consume the next token. Raises: UnreadableError if it is not `text`, or the end."""
        token = self._next_token
        if token.kind == "end" or (text and token.text != text):
            raise UnreadableError(f"{text or 'something'} is missing at {token.start}")
        self._at += 1
        return token

    def _accept_token(self, text: str) -> bool:
        """Consume the next token if it is `text`, and return whether it was."""
        if self._next_token.kind in ("sign", "name") and self._next_token.text == text:
            self._at += 1
            return True
        return False

    def _end_piece(self, piece: Piece, *, deepens_tree: bool) -> Piece:
        """End the piece before the next token; `deepens_tree`: it is one more level of the tree.

        It becomes a part, which is parsed apart, once it is as deep as a part may be.
        """
        piece.end = self._tokens[self._at - 1].end
        piece.variables = tuple(self._variables)
        piece.depth = max((0 if each.parsed_apart else each.depth for each in piece.pieces), default=0) + bool(
            piece.pieces
        )
        piece.tree_depth = max((each.tree_depth for each in piece.pieces), default=0) + deepens_tree
        piece.parsed_apart = piece.depth >= self._deepest_part and not piece.plain
        return piece

    def _parse_expression(self) -> Piece:
        """Parse an expression, with `? :` if it has one."""
        self._enter_rule(_EXPRESSION)
        piece = self._parse_operators(0)
        if self._accept_token("?"):
            piece = Piece(piece.start, pieces=[piece, self._parse_operators(0)])
            self._expect_token(":")
            piece.pieces.append(self._parse_expression())
            self._end_piece(piece, deepens_tree=True)
        self._within[_EXPRESSION] -= 1
        return piece

    def _enter_rule(self, rule: str) -> None:
        """Count one more level of a grammar rule. Raises: TooDeepError with the parser's message."""
        self._within[rule] += 1
        if self._within[rule] > DEEPEST:
            raise TooDeepError(f"expression recursion limit exceeded: {DEEPEST}")

    def _parse_operators(self, level: int) -> Piece:
        """Parse the operators of a level and all that bind closer, counting how deep each rule of the grammar nests."""
        if level == len(_LEVELS):
            return self._parse_unary()
        signs, rule, begins = _LEVELS[level]
        if not rule:
            return self._parse_joined_operands(level, signs)
        if begins:
            self._enter_rule(rule)
        piece = self._parse_operators(level + 1)
        while self._next_token.text in signs and self._next_token.kind in ("sign", "name"):
            self._at += 1
            self._enter_rule(rule)
            piece = self._end_piece(
                Piece(piece.start, pieces=[piece, self._parse_operators(level + 1)]), deepens_tree=True
            )
            self._within[rule] -= 1
        self._within[rule] -= begins
        return piece

    def _parse_joined_operands(self, level: int, signs: frozenset[str]) -> Piece:
        """Parse operands joined by operators of one level."""
        pieces = [self._parse_operators(level + 1)]
        while self._next_token.text in signs:
            self._at += 1
            pieces.append(self._parse_operators(level + 1))
        return (
            pieces[0]
            if len(pieces) == 1
            else self._end_piece(Piece(pieces[0].start, pieces=pieces), deepens_tree=False)
        )

    def _parse_unary(self) -> Piece:
        """Parse an operand after any number of `!`, or of `-`."""
        start = self._next_token.start
        sign = self._next_token.text
        if sign not in ("!", "-") or self._next_token.kind != "sign":
            return self._parse_member()
        while self._accept_token(sign):
            pass
        return self._end_piece(Piece(start, pieces=[self._parse_member()]), deepens_tree=False)

    def _parse_member(self) -> Piece:
        """Parse an operand with all selections, indexes and method calls after it."""
        piece = self._parse_primary()
        while True:
            if self._accept_token("."):
                optional = self._accept_token("?")
                name = self._expect_token()
                if name.kind != "name":
                    raise UnreadableError(f"a name is missing at {name.start}")
                if not optional and self._next_token.text == "(":
                    piece = self._parse_call(piece, name.text)
                else:
                    plain = piece.plain and not optional and piece.depth < _LONGEST_NAME
                    piece = self._end_piece(Piece(piece.start, pieces=[piece], plain=plain), deepens_tree=True)
            elif self._accept_token("["):
                self._accept_token("?")
                piece = Piece(piece.start, pieces=[piece, self._parse_expression()])
                self._expect_token("]")
                self._end_piece(piece, deepens_tree=True)
            else:
                return piece

    def _parse_primary(self) -> Piece:
        """Parse a literal, a name, a call, a list, a map, or an expression in parentheses."""
        token = self._expect_token()
        if token.text == "(":
            piece = Piece(token.start, pieces=[self._parse_expression()])
            self._expect_token(")")
            return self._end_piece(piece, deepens_tree=False)
        if token.text in ("[", "{"):
            piece = Piece(token.start)
            while self._next_token.text != _CLOSING[token.text]:
                self._accept_token("?")
                piece.pieces.append(self._parse_expression())
                if not self._accept_token(",") and not (token.text == "{" and self._accept_token(":")):
                    break
            self._expect_token(_CLOSING[token.text])
            return self._end_piece(piece, deepens_tree=False)
        if token.kind in ("text", "number"):
            return self._end_piece(Piece(token.start), deepens_tree=False)
        if token.text == ".":
            start, token = token.start, self._expect_token()
        else:
            start = token.start
        if token.kind != "name":
            raise UnreadableError(f"a name is missing at {token.start}")
        if self._next_token.text != "(":
            return self._end_piece(Piece(start, plain=True), deepens_tree=False)
        return self._parse_call(None, token.text, start)

    def _parse_call(self, target: Piece | None, name: str, start: int = 0) -> Piece:
        """Parse a call, of a method if there is a target; macros are calls too."""
        self._expect_token("(")
        piece = Piece(start if target is None else target.start, pieces=[] if target is None else [target])
        outer_count = len(self._variables)
        arguments: list[Piece] = []
        while self._next_token.text != ")":
            arguments.append(self._parse_expression())
            self._declare_macro_variables(target, name, arguments)
            if not self._accept_token(","):
                break
        self._expect_token(")")
        declared = self._variables[outer_count:]
        del self._variables[outer_count:]
        if target is None and name == "has" and arguments:
            # `has` needs a literal selection as its argument.
            arguments[0].parsed_apart = False
        piece.pieces += arguments
        for variable in declared:
            self._make_source_a_part(variable, arguments)
        return self._end_piece(piece, deepens_tree=target is not None)

    def _declare_macro_variables(self, target: Piece | None, name: str, arguments: Sequence[Piece]) -> None:
        """Declare the macro's variables of the last of these arguments, for the following ones."""
        if target is None:
            return
        last = arguments[-1]
        first_name = self._tokens[self._at - 1].text
        alone = last.plain and not last.pieces
        if name == "bind" and len(arguments) == 2 and arguments[0].plain:
            self._variables.append(Variable(self._first_token_text(arguments[0]), last, ITSELF))
        elif alone and len(arguments) == 1 and name in _LOOPS | _LOOPS_OVER_TWO_ONLY:
            self._variables.append(Variable(first_name, target, ELEMENT))
        elif alone and len(arguments) == 1 and name in _UNPACKING:
            self._variables.append(Variable(first_name, target, CONTENT))
        elif alone and len(arguments) == 2 and name in _LOOPS_OVER_TWO | _LOOPS_OVER_TWO_ONLY:
            first = Variable(self._first_token_text(arguments[0]), target, FIRST)
            self._variables += [first, Variable(first_name, target, SECOND)]

    def _first_token_text(self, piece: Piece) -> str:
        """Return the text of a piece's first token."""
        return next(token.text for token in self._tokens if token.start == piece.start)

    def _make_source_a_part(self, variable: Variable, arguments: Sequence[Piece]) -> None:
        """Make the source of a variable a part if another part uses the variable."""
        source = variable.source
        if not source.parsed_apart and any(each.parsed_apart or any(parts_in(each)) for each in arguments):
            source.parsed_apart = True
            source.depth = 0
