"""Parses YAML to the tree of the equivalent JSON, with the rules of Kubernetes' YAML library.

Those rules are neither YAML 1.1's nor 1.2's: `yes`, `on` and `y` are booleans, `0o17` and `0x1F` and `1_000` are
integers, timestamps stay text, base 60 does not exist, and of several documents the first one counts. A later key
replaces an earlier one when decoding leniently and is an error when decoding strictly; both results are needed, because
wrong values are reported before duplicate keys. PyYAML does the parsing (with libyaml underneath if available, whose
messages are those of the Go port); composing and resolving are done here, because PyYAML's constructors drop duplicates
and resolve scalars differently.

Tests: tests/unit/apimachinery/test_documents.py.
"""

import base64
import binascii
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.json_document import Node, Number, Object

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LONG_TAG = "tag:yaml.org,2002:"


class MalformedYAMLError(ValueError):
    """The text is not YAML that is convertible to JSON."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document and its errors under strict decoding."""

    node: Node
    #: One message with all duplicate keys, or empty.
    duplicates: str = ""


@dataclass(slots=True)
class _ScalarNode:
    """A scalar as written; `implicit` if it had neither tag nor quotes."""

    value: str
    tag: str
    implicit: bool
    line: int


@dataclass(slots=True)
class _SequenceNode:
    """A sequence, filled while its items are parsed."""

    line: int
    items: list["_Node"] = field(default_factory=list)


@dataclass(slots=True)
class _MappingNode:
    """A mapping with its pairs in order, duplicates among them."""

    line: int
    pairs: list[tuple["_Node", "_Node"]] = field(default_factory=list)


@dataclass(slots=True)
class _AliasNode:
    """A reference to a node with an anchor."""

    name: str
    target: "_Node"
    line: int


_Node = _ScalarNode | _SequenceNode | _MappingNode | _AliasNode

_TOO_DEEP = "yaml: exceeded max depth of 10000"
"""What Go says beyond that depth; here it is reached earlier, at the depth of Python's stack."""


def parse(data: bytes) -> Document:
    """Parses the first document.

    Raises:
        MalformedYAMLError: it is malformed, or has something that JSON has not.
    """
    try:
        root = _compose_first_document(data)
        if root is None:
            return Document(None)
        value = _NodeDecoder(strict=False).decode(root)
        node = _to_json(value)
        strict = _NodeDecoder(strict=True)
        strict.decode(root)
    except RecursionError:
        raise MalformedYAMLError(_TOO_DEEP) from None
    duplicates = ""
    if strict.duplicates:
        duplicates = "yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in strict.duplicates)
    return Document(node, duplicates)


def parse_string_map(data: bytes) -> dict[str, str]:
    """Parse a document that is a map of strings; scalars of any type count as text.

    Raises:
        MalformedYAMLError: it is malformed, or something else.
    """
    try:
        root = _compose_first_document(data)
    except RecursionError:
        raise MalformedYAMLError(_TOO_DEEP) from None
    if root is None:
        return {}
    problems: list[str] = []
    entries: dict[str, str] = {}
    target = _resolve_alias(root)
    if isinstance(target, _MappingNode):
        for key_node, value_node in target.pairs:
            key, value = _text_value(key_node, problems), _text_value(value_node, problems)
            if key is not None and value is not None:
                entries[key] = value
    elif not _is_null(target):
        problems.append(_mismatch_text(target, "map[string]string"))
    if problems:
        raise MalformedYAMLError("yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in problems))
    return entries


def _resolve_alias(node: "_Node") -> "_Node":
    """Return the node that an alias refers to; any other node as it is."""
    while isinstance(node, _AliasNode):
        node = node.target
    return node


def _is_null(node: "_Node") -> bool:
    return isinstance(node, _ScalarNode) and node.implicit and resolve_scalar(node.tag, node.value, plain=True) is None


def _text_value(node: "_Node", problems: list[str]) -> str | None:
    """Return a scalar's text, "" for null; None, after noting a problem, for other nodes."""
    target = _resolve_alias(node)
    if isinstance(target, _ScalarNode):
        return "" if _is_null(target) else target.value
    problems.append(_mismatch_text(target, "string"))
    return None


def _mismatch_text(node: "_Node", type_name: str) -> str:
    """Return the message for a node that is not of a type, in the library's words."""
    if isinstance(node, _ScalarNode):
        value = resolve_scalar(node.tag, node.value, plain=node.implicit or bool(node.tag))
        excerpt = f"{node.value[:7]}..." if len(node.value) > 10 else node.value
        what = f"{_short_tag_of_value(value, node.value)} `{excerpt}`"
    else:
        what = "!!seq" if isinstance(node, _SequenceNode) else "!!map"
    return f"line {node.line}: cannot unmarshal {what} into {type_name}"


# Composing: events to nodes.


def _compose_first_document(data: bytes) -> _Node | None:
    """The first document as nodes; None if there is none. Raises: MalformedYAMLError."""
    events: Iterator[Any] = yaml.parse(data, Loader=_LOADER)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                _check_yaml_version(event.version, event.start_mark)
                anchors: dict[str, _Node] = {}
                root = _compose_node(next(events), events, anchors)
                next(events)  # the document's end, where trailing rubbish is noticed
                return root
            if isinstance(event, yaml.StreamEndEvent):
                return None
    except yaml.YAMLError as error:
        if getattr(error, "problem", None) == "did not find expected <document start>":
            # Directives come before what follows them.
            for token in itertools.takewhile(_is_before_content, yaml.scan(data, Loader=_LOADER)):
                if isinstance(token, yaml.DirectiveToken) and token.name == "YAML":
                    _check_yaml_version(token.value, token.start_mark)
        raise MalformedYAMLError(_problem_text(error)) from error
    return None


def _is_before_content(token: Any) -> bool:
    return isinstance(token, yaml.StreamStartToken | yaml.DirectiveToken)


def _check_yaml_version(version: tuple[int, int] | None, mark: Any) -> None:
    """Check a %YAML directive. Raises: MalformedYAMLError for a version other than 1.1."""
    if version not in (None, (1, 1)):
        where = f"line {mark.line}: " if mark and mark.line else ""
        raise MalformedYAMLError(f"yaml: {where}found incompatible YAML document")


def _compose_node(event: Any, events: Iterator[Any], anchors: dict[str, _Node]) -> _Node:
    """The node that begins with `event`, with all below it; reads `events` up to its end and notes its anchors."""
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        name = str(event.anchor)
        target = anchors.get(name)
        if target is None:
            raise MalformedYAMLError(f"yaml: unknown anchor '{name}' referenced")
        return _AliasNode(name, target, line)
    if isinstance(event, yaml.ScalarEvent):
        tag = event.tag or ""
        # A lone "!" makes text of whatever follows it.
        scalar = _ScalarNode(event.value, "" if tag == "!" else tag, bool(event.implicit[0]) and tag != "!", line)
        if event.anchor is not None:
            anchors[event.anchor] = scalar
        return scalar
    if isinstance(event, yaml.SequenceStartEvent):
        sequence = _SequenceNode(line)
        if event.anchor is not None:
            anchors[event.anchor] = sequence
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            sequence.items.append(_compose_node(event, events, anchors))
        return sequence
    mapping = _MappingNode(line)
    if event.anchor is not None:
        anchors[event.anchor] = mapping
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _compose_node(event, events, anchors)
        mapping.pairs.append((key, _compose_node(next(events), events, anchors)))
    return mapping


def _problem_text(error: yaml.YAMLError) -> str:
    """The library's message: the problem and its line, where that is not the first."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    line = error.problem_mark.line if error.problem_mark else 0
    if line:
        # A scanner counts lines from one, a parser from zero.
        line += isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    return f"yaml: {where}{error.problem or 'unknown problem parsing YAML content'}"


# Decoding: nodes to values.


class _NodeDecoder:
    """Resolves scalars, aliases and merges; bounds the number of nodes against alias bombs."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.duplicates: list[str] = []
        self._open: set[int] = set()
        self._decoded = 0
        self._through_aliases = 0
        self._depth = 0

    def _count_node(self) -> None:
        """Count a node. Raises: MalformedYAMLError if most nodes come through aliases, as in an alias bomb."""
        self._decoded += 1
        if self._depth:
            self._through_aliases += 1
        allowed = 0.99
        if self._decoded > 400_000:
            allowed = max(0.10, 0.99 - 0.89 * (self._decoded - 400_000) / 3_600_000)
        if self._through_aliases > 100 and self._decoded > 1000 and self._through_aliases / self._decoded > allowed:
            raise MalformedYAMLError("yaml: document contains excessive aliasing")

    def decode(self, node: _Node, into: dict[Any, Any] | None = None) -> Any:
        """The value of a node; `into` is the map that a merge adds to."""
        self._count_node()
        if isinstance(node, _AliasNode):
            if id(node) in self._open:
                raise MalformedYAMLError(f"yaml: anchor '{node.name}' value contains itself")
            self._open.add(id(node))
            self._depth += 1
            value = self.decode(node.target, into)
            self._depth -= 1
            self._open.discard(id(node))
            return value
        if isinstance(node, _ScalarNode):
            return resolve_scalar(node.tag, node.value, plain=node.implicit or bool(node.tag))
        if isinstance(node, _SequenceNode):
            return [self.decode(item) for item in node.items]
        return self._decode_mapping(node, {} if into is None else into)

    def _decode_mapping(self, node: _MappingNode, out: dict[Any, Any]) -> dict[Any, Any]:
        """Decode a mapping into `out`, merge keys included.

        Keys of `out` are pairs of type and key. A duplicate key is noted, if we are strict; else the last one wins.
        """
        for key_node, value_node in node.pairs:
            if _is_merge(key_node):
                self._decode_merge(value_node, out)
                continue
            key = self.decode(key_node)
            if isinstance(key, dict | list):
                raise MalformedYAMLError(f"yaml: invalid map key: {_as_go_syntax(key)}")
            value = self.decode(value_node)
            # Python holds 1, 1.0 and True for one key; YAML does not.
            slot = (type(key), key)
            if self.strict and slot in out:
                self.duplicates.append(f"line {value_node.line}: key {_as_go_syntax(key)} already set in map")
                continue
            out[slot] = value
        return out

    def _decode_merge(self, node: _Node, out: dict[Any, Any]) -> None:
        """Add the maps that a merge key (`<<`) refers to; earlier ones take precedence. Raises: MalformedYAMLError."""
        message = "yaml: map merge requires map or sequence of maps as the value"
        sources = [node]
        if isinstance(node, _SequenceNode):
            sources = list(reversed(node.items))  # what comes first has precedence, so it is written last
        for source in sources:
            target = source.target if isinstance(source, _AliasNode) else source
            if not isinstance(target, _MappingNode):
                raise MalformedYAMLError(message)
            self.decode(source, out)


def _is_merge(node: _Node) -> bool:
    """Whether the key is a merge key (`<<`)."""
    return isinstance(node, _ScalarNode) and node.value == "<<" and (node.implicit or node.tag == _LONG_TAG + "merge")


def _as_go_syntax(value: Any) -> str:
    """A value as `%#v` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return golang.quote(value)
    if isinstance(value, float):
        return golang.format_float(value)
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(_go_item(item) for item in value) + "}"
    if isinstance(value, dict):
        inner = ", ".join(sorted(f"{_go_item(key)}:{_go_item(item)}" for (_, key), item in value.items()))
        return "map[interface {}]interface {}{" + inner + "}"
    return f"{value:#x}" if value >= 1 << 63 else str(value)


def _go_item(value: Any) -> str:
    """Return an element as `%#v` prints it within a map or slice."""
    return "interface {}(nil)" if value is None else _as_go_syntax(value)


# Resolving: what a plain scalar is.

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    "<<": "<<",
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-")
_DATE_FORMATS = (
    re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})([.,]\d+)?(Z|[-+]\d{2}:\d{2})"),
    re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2}):(\d{1,2})([.,]\d+)?"),
    re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})"),
)
_GO_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")


def _is_timestamp(text: str) -> bool:
    """Whether the text is a valid date, or date and time, in one of YAML's forms."""
    if not _DATE.match(text):
        return False
    for pattern in _DATE_FORMATS:
        match = pattern.fullmatch(text)
        if match:
            numbers = [int(part) for part in match.groups()[:6] if part is not None and part.isdigit()]
            year, month, day, hour, minute, second = (*numbers, 0, 0, 0)[:6]
            try:
                datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                return False
            return True
    return False


# The digits of an integer of 64 bits in decimal.
_MOST_DIGITS = 20


def _parse_integer(text: str) -> int | None:
    """An integer as Go's ParseInt reads it with base 0, up to 64 bits without sign."""
    match = _GO_INTEGER.fullmatch(text)
    if not match:
        return None
    sign, digits = match.groups()
    if digits[:2].lower() in ("0x", "0b", "0o"):
        value = int(digits, 0)
    elif len(digits) > 1 and digits[0] == "0":
        value = int(digits, 8)
    elif len(digits) > _MOST_DIGITS:
        return None  # Python refuses to read thousands of them
    else:
        value = int(digits)
    if sign == "-":
        return -value if value <= 1 << 63 else None
    if sign == "+":
        return value if value < 1 << 63 else None
    return value if value < 1 << 64 else None


def _resolve_plain(text: str, tag: str) -> Any:
    """The value and the short tag of a plain scalar."""
    hint = text[:1]
    if hint == "" or hint in "+-0123456789yYnNtTfFoO~.<" or text in _WORDS:
        if text in _WORDS:
            return _WORDS[text]
        if hint == ".":
            return _parse_float_or_text(text)
        if hint in "+-0123456789" and hint:
            if tag in ("", _LONG_TAG + "timestamp") and _is_timestamp(text):
                return text
            digits = text.replace("_", "")
            integer = _parse_integer(digits)
            if integer is not None:
                return integer
            if _FLOAT.fullmatch(digits):
                return _parse_float_or_text(digits, text)
    return text


def _parse_float_or_text(digits: str, text: str | None = None) -> Any:
    """Parse a float; without a finite value return `text`, or `digits` if that is None."""
    try:
        value = float(digits)
    except ValueError:
        return digits if text is None else text
    if value in (float("inf"), float("-inf")):
        return digits if text is None else text
    return value


_RESOLVABLE = frozenset({"", *(_LONG_TAG + name for name in ("str", "bool", "int", "float", "null", "timestamp"))})


def _short_tag_of_value(value: Any, text: str) -> str:
    """The short tag of a resolved value."""
    if value is None:
        return "!!null"
    if isinstance(value, bool):
        return "!!bool"
    if isinstance(value, int):
        return "!!int"
    if isinstance(value, float):
        return "!!float"
    return "!!timestamp" if value == text and _is_timestamp(text) else "!!str"


def resolve_scalar(tag: str, text: str, *, plain: bool) -> Any:
    """The value of a scalar; `plain` is false for a quoted one without a tag.

    Raises:
        MalformedYAMLError: its tag says that it is something else.
    """
    if not plain or tag == _LONG_TAG + "str":
        return text
    if tag == _LONG_TAG + "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise MalformedYAMLError("yaml: !!binary value contains invalid base64 data") from error
    if tag not in _RESOLVABLE:
        return text
    value = _resolve_plain(text, tag)
    kind = _short_tag_of_value(value, text)
    short = tag.replace(_LONG_TAG, "!!")
    if tag == _LONG_TAG + "float" and kind == "!!int":
        return float(value)
    if tag and short != kind:
        raise MalformedYAMLError(f"yaml: cannot decode {kind} `{text}` as a {short}")
    return value


# Converting: values to the tree that JSON would have, keys sorted.


def _key_text(key: Any, value: Any) -> str:
    """Return a map's key as JSON has it. Raises: MalformedYAMLError for one that JSON cannot have."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str):
        return key
    if isinstance(key, int) and key < 1 << 63:
        return str(key)
    if isinstance(key, float):
        rounded = golang.format_float(key, 32)
        return {"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}.get(rounded, rounded)
    kind = "%!s(<nil>)" if key is None else "uint64"
    raise MalformedYAMLError(
        f"unsupported map key of type: {kind}, key: {_as_go_syntax(key)}, value: {_as_go_syntax(value)}"
    )


def _to_json(value: Any) -> Node:
    """Turn decoded YAML into JSON with sorted keys, as sigs.k8s.io/yaml does."""
    if isinstance(value, dict):
        members = {_key_text(key, item): item for (_, key), item in value.items()}
        return Object(
            tuple((key, _to_json(members[key])) for key in sorted(members, key=lambda text: text.encode("utf-8")))
        )
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return Number(value)
    try:
        return Number(golang.json_float(value))
    except ValueError as error:
        raise MalformedYAMLError(str(error)) from error
