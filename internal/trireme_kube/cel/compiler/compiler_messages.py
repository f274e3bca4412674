"""Translates the library's compiler messages to Kubernetes': both show the place, and differ in wording.

Source: github.com/google/cel-go/common (error), github.com/google/cel-go/checker (errors).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import re
from collections.abc import Sequence
from typing import Final

_CODE = re.compile(r"^[A-Z_]+: (?=ERROR: )")
_TRAILING_CODE = re.compile(r" \[[A-Z_]+\]$")
_NO_FIELD = re.compile(r"^(undefined field '[^']*') not found in struct '(?!net\.)[^']*'$")
_NO_FIELDS = re.compile(r"^undefined field '[^']*' not found in struct '(net\.[^']*)'$")
_OPAQUE = re.compile(r"^undefined field '[^']*' not found in struct '(kubernetes\.(?!DRADevice')[^']*)'$")
_UNKNOWN_TYPE = re.compile(r"\bT%[0-9]+")
_NO_SELECTION = re.compile(r"^expression of (type '.*') cannot be the operand of a select operation$")
_NO_NAME = re.compile(r"^undeclared reference to '(\.?)([^'.]+\.[^']*)' ")
_NO_TOKEN = re.compile(r"^(Syntax error: token recognition error at: ')(.*\\[nrt].*)'$")
_FOLLOWING = re.compile(r"'\*error\*'|maximum number of ERROR issues exceeded")
_NO_TREE: Final = "\nERROR: <input>:-1:-1: <<nil>> parsetree"
_TYPES: Final = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Any": "any",
    "null_type": "null",
    "*error*": "!error!",
}
_MESSAGES: Final = {
    "has() argument must be a field selection": "invalid argument to has() macro",
    "cel.bind() variable name must be a simple identifier": "cel.bind() variable names must be simple identifiers",
    "map() variable name must be a simple identifier": "argument is not an identifier",
    "filter() variable name must be a simple identifier": "argument is not an identifier",
    "all() variable name must be a simple identifier": "argument must be a simple name",
    "exists() variable name must be a simple identifier": "argument must be a simple name",
    "exists_one() variable name must be a simple identifier": "argument must be a simple name",
}
_NO_SIMPLE_NAME = re.compile(r"^\w+\(\) (?:first|second) variable name must be a simple identifier$")
_SAME_NAME = re.compile(r"^\w+\(\) second variable must be different from the first variable$")
_FIRST_OF_TWO = re.compile(r"(\w+)\s*,\s*")
_PLACED = re.compile(r"ERROR: <input>:([0-9]+):([0-9]+): (.*)")
_NO_OVERLOAD = re.compile(r"(found no matching overload for '[^']*' applied to ')\((.*)\)'$")
_NAMESPACES: Final = ("optional", "ip", "cel", "sets", "lists", "strings", "format", "math", "base64")
_ANY_TYPE = re.compile("|".join(map(re.escape, _TYPES)))
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONGEST_SNIPPET: Final = 16384


def message_at(expression: str, offset: int, message: str) -> tuple[tuple[int, int], str]:
    """Format a message with its place in the expression; returns the place too, for sorting."""
    if not expression:
        # An empty expression has no place to show.
        return (1, 0), f"ERROR: <input>:1:0: {message}"
    before = expression[:offset]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    snippet = expression.split("\n")[line - 1].replace("\t", " ")
    text = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if len(snippet) <= _LONGEST_SNIPPET:
        dots = "".join("." if letter.isascii() else "．" for letter in snippet[:column])
        mark = "^" if snippet[column : column + 1].isascii() else "＾"
        text += f"\n | {snippet}\n | {dots}{mark}"
    return (line, column), text


def translate_library_messages(text: str, expression: str) -> str:
    """Translate the library's messages."""
    bare = _TRAILING_CODE.sub("", _CODE.sub("", text)).replace(_NO_TREE, "")
    messages = re.split(r"\n(?=ERROR: <input>)", bare)
    # Drop errors that only follow from an earlier one.
    first = [part for part in messages if _FOLLOWING.search(part.partition("\n")[0]) is None]
    problems = [_translate_message(part, expression) for part in first or messages]
    return "\n".join(message for _, message in sorted(problems, key=lambda problem: problem[0]))


def _translate_message(message_block: str, expression: str) -> tuple[tuple[int, int], str]:
    """Translate one message; returns it with its place."""
    head, _, _ = message_block.partition("\n")
    match = _PLACED.fullmatch(head)
    if match is None:
        return (0, 0), message_block
    row, column, message = int(match.group(1)), int(match.group(2)) - 1, _in_kubernetes_words(match.group(3))
    lines = expression.split("\n")
    line = lines[row - 1]
    # What follows depends on the place in the expression; some messages of Kubernetes name another place.
    variables = _FIRST_OF_TWO.match(line, column)
    if variables is not None and _SAME_NAME.match(message):
        message, column = f"duplicate variable name: {variables.group(1)}", variables.end()
    token = _NO_TOKEN.match(message)
    if token is not None:
        message = (
            f"{token.group(1)}{_original_excerpt(token.group(2), expression, _offset_of_position(lines, row, column))}'"
        )
    overload = _NO_OVERLOAD.fullmatch(message)
    if overload is not None:
        message = _UNKNOWN_TYPE.sub("dyn", message)
        message = _rename_types(message)
        overload = _NO_OVERLOAD.fullmatch(message)
    if overload is not None and line[column : column + 1] == "(" and _ends_with_method_name(line[:column]):
        target, *arguments = _split_types(overload.group(2))
        message = f"{overload.group(1)}{target}.({', '.join(arguments)})'"
    name = _NO_NAME.match(message)
    if name is not None:
        # The unknown part is the first of the qualified name.
        first, *rest = name.group(2).split(".")
        chain = re.compile(r"\s*\.\s*".join(map(re.escape, [first, *rest])))
        places = [at.start() for at in chain.finditer(line) if at.start() <= column < at.end()]
        if places:
            column = places[0]
            message = message.replace(name.group(2), first, 1)
    return message_at(expression, _offset_of_position(lines, row, column), message)


def _in_kubernetes_words(message: str) -> str:
    """Say in Kubernetes' words what needs no look at the expression."""
    message = _OPAQUE.sub(r"unexpected failed resolution of '\1'", message)
    message = _NO_FIELDS.sub(r"type '\1' does not support field selection", message)
    message = _NO_FIELD.sub(r"\1", message)
    message = _NO_SELECTION.sub(
        lambda match: f"{_rename_types(match.group(1))} does not support field selection", message
    )
    # The library's parser escapes this token in its list.
    message = _MESSAGES.get(message, message).replace(r"'\u003F'", "'?'")
    return _NO_SIMPLE_NAME.sub("argument must be a simple name", message)


def _rename_types(text: str) -> str:
    """Replace the library's type names by Kubernetes'."""
    return _ANY_TYPE.sub(lambda match: _TYPES[match.group()], text)


def _offset_of_position(lines: Sequence[str], row: int, column: int) -> int:
    """Return the offset of a row (from 1) and column in the text of these lines."""
    return sum(len(each) + 1 for each in lines[: row - 1]) + column


def _original_excerpt(escaped: str, text: str, at: int) -> str:
    """Return the original text of an excerpt in which line ends and tabs are escaped."""
    end = at
    while escaped and end < len(text):
        letter = _ESCAPES.get(text[end], text[end])
        if not escaped.startswith(letter):
            break
        escaped = escaped.removeprefix(letter)
        end += 1
    return text[at:end] + escaped


def _ends_with_method_name(before: str) -> bool:
    match = re.search(r"([A-Za-z_]\w*)?\s*\.\s*[A-Za-z_]\w*\s*$", before)
    return match is not None and match.group(1) not in _NAMESPACES


def _split_types(types: str) -> list[str]:
    """Split a comma-separated list of types."""
    out, depth = [""], 0
    for letter in types:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            out.append("")
        elif letter != " " or depth or out[-1]:
            out[-1] += letter
    return out
