"""Object templates: YAML with the few Go-template expressions that scheduler_perf's templates use.

Reading the same notation lets one driver run both our workloads and those of kube-scheduler's own suite. Only values
and integer arithmetic are understood: `{{.Index}}`, `{{DivideInt .Index .podsPerGroup}}`, `{{AddInt 100 (Mod .Index
20)}}`. Conditions, loops and variables are refused by name rather than rendered wrongly.

Rendering is kept off the clock: a `Template` parses each *distinct* text once, so ten thousand pods of one shape cost
one YAML parse and ten thousand byte replacements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

Value = int | str

FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "AddInt": lambda a, b: a + b,
    "SubtractInt": lambda a, b: a - b,
    "MultiplyInt": lambda a, b: a * b,
    "DivideInt": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
}

# Stands where the object's own name goes in the parsed form; no name of a Kubernetes object has such characters.
NAME = "@NAME@"

_EXPRESSION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_WORD = re.compile(r"[()]|[^\s()]+")


class TemplateError(ValueError):
    """A template that cannot be rendered; the message names the file and the expression."""


def evaluate(expression: str, values: Mapping[str, Value]) -> Value:
    """The value of one expression between braces. Raises TemplateError for what is not understood."""
    value, rest = _operand(["(", *_WORD.findall(expression), ")"], values, expression)
    if rest:
        raise TemplateError(f"cannot read {expression!r}")
    return value


def _operand(words: list[str], values: Mapping[str, Value], whole: str) -> tuple[Value, list[str]]:
    """Reads one operand off the front of `words`: a value, a number, or a call in parentheses."""
    if not words:
        raise TemplateError(f"{whole!r} ends too early")
    first, rest = words[0], words[1:]
    if first == "(":
        return _call(rest, values, whole)
    if first.startswith(".") and first[1:] in values:
        return values[first[1:]], rest
    if re.fullmatch(r"-?\d+", first):
        return int(first), rest
    raise TemplateError(f"{first!r} in {whole!r} is not known; values are {', '.join(sorted(values))}")


def _call(words: list[str], values: Mapping[str, Value], whole: str) -> tuple[Value, list[str]]:
    """Reads what follows an opening parenthesis, up to and with the closing one."""
    function = FUNCTIONS.get(words[0]) if words else None
    if function is None:
        value, rest = _operand(words, values, whole)
    else:
        left, rest = _operand(words[1:], values, whole)
        right, rest = _operand(rest, values, whole)
        try:
            value = function(int(left), int(right))
        except (ValueError, ZeroDivisionError) as error:
            raise TemplateError(f"{whole!r}: {error}") from error
    if not rest or rest[0] != ")":
        raise TemplateError(f"cannot read {whole!r}")
    return value, rest[1:]


def render(text: str, values: Mapping[str, Value]) -> str:
    """The text with every expression replaced by its value."""
    return _EXPRESSION.sub(lambda found: str(evaluate(found.group(1), values)), text)


class Template:
    """One object template: makes the objects of one kind that differ in their number."""

    def __init__(self, text: str, origin: str, amend: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._text = text
        self._origin = origin
        self._amend = amend
        self._encoded: dict[str, tuple[str, bytes]] = {}
        kinds = self._read(_EXPRESSION.sub("0", text))  # any number shows the kind; parameters come with the workload
        self.kind, self.api_version = str(kinds["kind"]), str(kinds["apiVersion"])

    @classmethod
    def load(cls, path: Path, amend: Callable[[dict[str, Any]], None] | None = None) -> Template:
        """Reads a template file. `amend` may change the parsed object before it is encoded."""
        try:
            return cls(path.read_text(), str(path), amend)
        except OSError as error:
            raise TemplateError(f"{path}: {error.strerror}") from error

    def make(self, name: str, values: Mapping[str, Value]) -> tuple[str, bytes]:
        """An object's name and its JSON. A name in the template wins over `name`; a generateName does not."""
        try:
            text = render(self._text, values)
        except TemplateError as error:
            raise TemplateError(f"{self._origin}: {error}") from error
        made = self._encoded.get(text)
        if made is None:
            made = self._encoded[text] = self._encode(text)
        own, encoded = made
        return (name, encoded.replace(NAME.encode(), name.encode())) if own == NAME else (own, encoded)

    def _encode(self, text: str) -> tuple[str, bytes]:
        parsed = self._read(text)
        metadata = parsed.setdefault("metadata", {})
        metadata.pop("generateName", None)
        metadata.setdefault("name", NAME)
        if self._amend is not None:
            self._amend(parsed)
        return str(metadata["name"]), orjson.dumps(parsed)

    def _read(self, text: str) -> dict[str, Any]:
        try:
            parsed = yaml.load(text, Loader=yaml.CSafeLoader)  # the safe loader, in C
        except yaml.YAMLError as error:
            raise TemplateError(f"{self._origin}: {error}") from error
        if not isinstance(parsed, dict) or "kind" not in parsed or "apiVersion" not in parsed:
            raise TemplateError(f"{self._origin}: not a Kubernetes object (kind and apiVersion)")
        return parsed
