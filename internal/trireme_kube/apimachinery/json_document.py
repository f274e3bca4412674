"""Parses JSON to a tree that preserves order, duplicate keys and the text of numbers.

The standard library's parsers drop duplicates and normalise numbers, and strict decoding has to report both. Messages
for malformed text are those of Go's `encoding/json` (as of Go 1.27), which is what operators know from kube-scheduler.

Tests: tests/unit/apimachinery/test_documents.py.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from trireme_kube.apimachinery import golang


class Number(str):
    """A number, as its text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Object:
    """A JSON object: its members in order, duplicates included."""

    members: tuple[tuple[str, "Node"], ...]


#: `list` is an array, `str` a string (check for `Number` first).
Node: TypeAlias = "Object | list[Node] | Number | str | bool | None"


class MalformedJSONError(ValueError):
    """The text is not JSON; the message is Go's."""


_MAX_DEPTH = 10_000
_TOO_DEEP = "exceeded max depth"
_SPACE = re.compile(r"[ \t\r\n]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_SIMPLE_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_LITERALS: dict[str, tuple[str, bool | None]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_DIGITS = re.compile(r"[0-9]*")
_HEX = frozenset("0123456789abcdefABCDEF")


def parse(text: str) -> Node:
    """Parses JSON text.

    Raises:
        MalformedJSONError: with Go's message.
    """
    scanner = _JSONParser(text)
    node = scanner.parse_first_value()
    end = scanner.skip_space(scanner.at)
    if end < len(text):
        scanner.reject_character(end, "after top-level value")
    return node


def parse_first_value(text: str) -> Node:
    """Parse the first value of the text, ignoring what follows it.

    Raises:
        MalformedJSONError: with Go's message.
    """
    return _JSONParser(text).parse_first_value()


def _show_escape(escape: str) -> str:
    """Format a wrong escape sequence for messages as Go does: in backquotes if all of it can be seen."""
    seen = escape.isprintable() and "`" not in escape and " " not in escape
    return f"`{escape}`" if seen else golang.quote(escape)


class _JSONParser:
    """A recursive-descent parser; `at` is the end of the last value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parse_first_value(self) -> Node:
        """Parse the value that the text begins with. Raises: MalformedJSONError."""
        try:
            return self.parse_value(self.skip_space(0), 0)
        except RecursionError:
            # Exceeds this process's recursion limit, though perhaps not Go's depth limit.
            raise MalformedJSONError(f"invalid character '[' {_TOO_DEEP}") from None

    def skip_space(self, at: int) -> int:
        """Return the next position that is not white space."""
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def reject_character(self, at: int, context: str) -> None:
        """Raise the error for the character at a position, or for the end of the text. Raises: MalformedJSONError."""
        if at >= len(self.text):
            raise MalformedJSONError("unexpected end of JSON input")
        raise MalformedJSONError(f"invalid character {golang.quote_rune(self.text[at])} {context}")

    def parse_value(self, at: int, depth: int) -> Node:
        """Parse the value that starts at a position; `self.at` is after its end. Raises: MalformedJSONError."""
        if depth > _MAX_DEPTH:
            self.reject_character(at, _TOO_DEEP)
        char = self.text[at : at + 1]
        if char == "{":
            return self._parse_object(at + 1, depth + 1)
        if char == "[":
            return self._parse_array(at + 1, depth + 1)
        if char == '"':
            return self._parse_string(at + 1)
        if char in _LITERALS and char:
            return self._parse_literal(at)
        if char and char in "-0123456789":
            return self._parse_number(at)
        self.reject_character(at, "looking for beginning of value")
        return None

    def _parse_object(self, at: int, depth: int) -> Object:
        """Parse an object whose brace is before `at`; duplicate members stay. Raises as Go's parser, by `reject`."""
        members: list[tuple[str, Node]] = []
        at = self.skip_space(at)
        if self.text[at : at + 1] == "}":
            self.at = at + 1
            return Object(())
        while True:
            if self.text[at : at + 1] != '"':
                self.reject_character(at, "looking for beginning of object key string")
            key = self._parse_string(at + 1)
            at = self.skip_space(self.at)
            if self.text[at : at + 1] != ":":
                self.reject_character(at, "after object key")
            members.append((key, self.parse_value(self.skip_space(at + 1), depth)))
            at = self.skip_space(self.at)
            if self.text[at : at + 1] == "}":
                self.at = at + 1
                return Object(tuple(members))
            if self.text[at : at + 1] != ",":
                self.reject_character(at, "after object key:value pair")
            at = self.skip_space(at + 1)

    def _parse_array(self, at: int, depth: int) -> list[Node]:
        """Parse an array; `at` is after its opening bracket."""
        items: list[Node] = []
        at = self.skip_space(at)
        if self.text[at : at + 1] == "]":
            self.at = at + 1
            return items
        while True:
            items.append(self.parse_value(at, depth))
            at = self.skip_space(self.at)
            if self.text[at : at + 1] == "]":
                self.at = at + 1
                return items
            if self.text[at : at + 1] != ",":
                self.reject_character(at, "after array element")
            at = self.skip_space(at + 1)

    def _parse_literal(self, at: int) -> bool | None:
        """Parse true, false or null. Raises: MalformedJSONError."""
        word, value = _LITERALS[self.text[at]]
        for offset in range(1, len(word)):
            if self.text[at + offset : at + offset + 1] != word[offset]:
                self.reject_character(at + offset, f"in literal {word} (expecting '{word[offset]}')")
        self.at = at + len(word)
        return value

    def _skip_digits(self, at: int) -> int:
        """Return the position after some digits. Raises: MalformedJSONError if there is none."""
        match = _DIGITS.match(self.text, at)
        end = match.end() if match else at
        if end == at:
            self.reject_character(at, "in numeric literal")
        return end

    def _parse_number(self, start: int) -> Number:
        """Check a number by JSON's grammar and keep its text: how it is rounded is decided by its use."""
        at = start
        if self.text[at] == "-":
            at += 1
        if self.text[at : at + 1] == "0":
            at += 1
        else:
            at = self._skip_digits(at)
        if self.text[at : at + 1] == ".":
            at = self._skip_digits(at + 1)
        if self.text[at : at + 1] in ("e", "E"):
            at += 1
            if self.text[at : at + 1] in ("+", "-"):
                at += 1
            at = self._skip_digits(at)
        self.at = at
        return Number(self.text[start:at])

    def _parse_hex(self, at: int) -> int:
        """Parse the four digits of an escape. Raises: MalformedJSONError."""
        digits = self.text[at : at + 4]
        if not _HEX.issuperset(digits):
            # As many bytes as the escape should have had.
            shown = self.text[at - 2 : at + 4].encode("utf-8", "surrogateescape")[:6]
            self._reject_escape(shown.decode("utf-8", "surrogateescape"))
        if len(digits) < 4:
            self.reject_character(len(self.text), "in string")
        return int(digits, 16)

    def _reject_escape(self, escape: str) -> None:
        """Raise the error for an escape sequence that does not exist. Raises: MalformedJSONError."""
        raise MalformedJSONError(f"invalid escape sequence {_show_escape(escape)} in string")

    def _parse_unicode_escape(self, at: int) -> tuple[str, int]:
        r"""The character of a `\u` escape whose digits start here, and where what follows starts."""
        code = self._parse_hex(at)
        at += 4
        if 0xD800 <= code < 0xDC00 and self.text[at : at + 2] == "\\u":
            low = self._parse_hex(at + 2)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 6
        return ("\ufffd" if 0xD800 <= code < 0xE000 else chr(code)), at

    def _parse_string(self, at: int) -> str:
        """Parse a string whose quotation mark is before `at`, and return it decoded; `self.at` is after its end."""
        parts: list[str] = []
        while True:
            match = _PLAIN.match(self.text, at)
            assert match is not None  # the pattern may be empty
            parts.append(match.group())
            at = match.end()
            char = self.text[at : at + 1]
            if char == '"':
                self.at = at + 1
                return "".join(parts)
            if char != "\\":
                self.reject_character(at, "in string")
            escape = self.text[at + 1 : at + 2]
            if escape == "u":
                decoded, at = self._parse_unicode_escape(at + 2)
                parts.append(decoded)
            elif escape in _SIMPLE_ESCAPES and escape:
                parts.append(_SIMPLE_ESCAPES[escape])
                at += 2
            elif escape:
                shown = self.text[at : at + 2].encode("utf-8", "surrogateescape")[:2]
                self._reject_escape(shown.decode("utf-8", "surrogateescape"))
            else:
                self.reject_character(at + 1, "in string")


def plain(node: Node) -> object:
    """Convert the tree to dicts, lists and numbers; the last of duplicate keys wins."""
    if isinstance(node, Object):
        return {key: plain(value) for key, value in node.members}
    if isinstance(node, list):
        return [plain(item) for item in node]
    if isinstance(node, Number):
        try:
            return int(node)
        except ValueError:
            return float(node)
    return node
