"""The types of flags: how the text after a flag becomes a value, and how a value is shown again.

Each `FlagType` is a pair of functions. `parse` gets the value so far and whether the flag was given before, because
lists and maps grow with every use of the flag and replace their default with the first.

Source: github.com/spf13/pflag, k8s.io/component-base/cli/flag.

Also change: internal/trireme_kube/cel/library/operators.py,
internal/trireme_kube/cel/library/format_function.py (Go's strconv).

Tests: tests/unit/config/test_command_flags.py, tests/unit/config/test_options.py.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.golang import Duration, quote
from trireme_kube.apimachinery.quantity import Quantity, parse_quantity
from trireme_kube.componentbase.cli import versions

Parse = Callable[[str, Any, bool], Any]


@dataclass(frozen=True, slots=True)
class FlagType:
    """How a flag's text is read and shown."""

    name: str
    parse: Parse
    show: Callable[[Any], str]
    #: The meaning of `--flag` without a value; empty if a value is required.
    bare: str = ""
    #: Texts of a default that help does not mention.
    silent: frozenset[str] = frozenset()


# Numbers.

_BASE_ZERO = re.compile(r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)")
_DECIMAL = re.compile(r"[0-9]+")


def _number_error(function: str, text: str, problem: str) -> ValueError:
    """Return the error of a number, in the words of Go's strconv."""
    return ValueError(f"strconv.{function}: parsing {quote(text)}: {problem}")


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_bool(text: str) -> bool:
    """A boolean flag. Raises: ValueError: with Go's message."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {golang.quote(text)}: invalid syntax")


def parse_int(text: str, bits: int) -> int:
    """An integer with an optional base prefix and underscores.

    Raises:
        ValueError: with Go's message.
    """
    if not _BASE_ZERO.fullmatch(text):
        raise _number_error("ParseInt", text, "invalid syntax")
    digits = text.lstrip("+-").replace("_", "")
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        value = int(digits, 8)
    else:
        value = int(digits, 0)
    value = -value if text.startswith("-") else value
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _number_error("ParseInt", text, "value out of range")
    return value


def parse_level(text: str) -> int:
    """A log level.

    Raises:
        ValueError: with Go's message.
    """
    if not _DECIMAL.fullmatch(text):
        raise _number_error("ParseUint", text, "invalid syntax")
    value = int(text)
    if value >= 1 << 31:
        raise _number_error("ParseUint", text, "value out of range")
    return value


_FLOAT = re.compile(r"[+-]?([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?")
_HEX_FLOAT = re.compile(r"[+-]?0[xX](_?[0-9a-fA-F])*(\.([0-9a-fA-F](_?[0-9a-fA-F])*)?)?[pP][+-]?[0-9]+")
_FLOAT_WORD = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)


def parse_float32(text: str) -> float:
    """A number of single precision.

    Raises:
        ValueError: with Go's message.
    """
    if _FLOAT_WORD.fullmatch(text):
        return float(text)
    if _FLOAT.fullmatch(text):
        value = float(text.replace("_", ""))
    elif _HEX_FLOAT.fullmatch(text):
        value = float.fromhex(text.replace("_", ""))
    else:
        raise _number_error("ParseFloat", text, "invalid syntax")
    try:
        if value in (float("inf"), float("-inf")):
            raise OverflowError
        return golang.to_float32(value)
    except OverflowError as error:
        raise _number_error("ParseFloat", text, "value out of range") from error


def _parse_int32_list(text: str, before: Any, given: bool) -> tuple[int, ...]:
    """Parse a comma-separated list; further uses of the flag append to it."""
    values = tuple(parse_int(part, 32) for part in text.split(","))
    return (*before, *values) if given else values


# Lists and maps.


def parse_csv(text: str) -> list[str]:
    """One record of comma-separated values.

    Raises:
        ValueError: with the message of Go's `encoding/csv`.
    """
    line = text
    while line.startswith(("\n", "\r\n")):
        line = line.partition("\n")[2]
    if not line:
        raise ValueError("EOF")
    fields: list[str] = []
    at = 0
    while True:
        if line[at : at + 1] == '"':
            field, at = _read_quoted_field(line, at)
        else:
            field, at = _read_bare_field(line, at)
        fields.append(field)
        if line[at : at + 1] != ",":
            return fields
        at += 1


def _read_bare_field(line: str, at: int) -> tuple[str, int]:
    """Read an unquoted field of a CSV record; return it and the position after it. Raises: ValueError."""
    end = at
    while end < len(line) and line[end] not in ",\n":
        if line[end] == '"':
            column = len(line[:end].encode()) + 1
            raise ValueError(f'parse error on line 1, column {column}: bare " in non-quoted-field')
        end += 1
    return line[at:end].removesuffix("\r"), end


def _read_quoted_field(line: str, at: int) -> tuple[str, int]:
    """Read a quoted field as Go's encoding/csv does, and return it with the position after it.

    Columns in errors are counted in bytes.
    """
    field: list[str] = []
    position = at + 1
    while True:
        end = line.find('"', position)
        if end < 0:
            column = len(line.encode()) + 1
            raise ValueError(f'parse error on line 1, column {column}: extraneous or missing " in quoted-field')
        field.append(line[position:end])
        following = line[end + 1 : end + 2]
        if following == '"':
            field.append('"')
            position = end + 2
        elif following in ("", ",", "\n"):
            return "".join(field), end + 1
        else:
            column = len(line[:end].encode()) + 1
            raise ValueError(f'parse error on line 1, column {column}: extraneous or missing " in quoted-field')


def show_csv(values: Sequence[str]) -> str:
    """A record, with fields quoted if necessary."""
    shown: list[str] = []
    for value in values:
        needed = value == "\\." or any(char in value for char in ',"\r\n') or value[:1].isspace()
        if needed:
            value = '"' + value.replace('"', '""') + '"'
        shown.append(value)
    return ",".join(shown)


def _parse_strings(text: str, before: Any, given: bool) -> tuple[str, ...]:
    """Parse a list of texts as CSV; further uses of the flag append to it."""
    values = tuple(parse_csv(text)) if text else ()
    return (*before, *values) if given else values


def _parse_string_map(text: str, before: Any, given: bool) -> dict[str, str]:
    """Parse `key=value` pairs; further uses of the flag add to them. Raises: ValueError with pflag's message."""
    count = text.count("=")
    if count == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    found: dict[str, str] = {}
    for pair in [text.strip('"')] if count == 1 else parse_csv(text):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        found[name] = value
    return {**before, **found} if given else found


def _show_string_map(value: Mapping[str, str] | None) -> str:
    """Format a map as pflag shows it, sorted by key; None: the flag was not given."""
    value = value or {}
    return "[" + show_csv([f"{name}={value[name]}" for name in sorted(value)]).strip() + "]"


def _parse_component_values(text: str, before: Any, given: bool) -> dict[str, tuple[str, ...]]:
    """`component:value,value`: values by component, in order."""
    found: dict[str, tuple[str, ...]] = dict(before) if given else {}
    for pair in text.split(","):
        if not pair:
            continue
        component, colon, value = pair.partition(":")
        if not colon:
            component, value = "", component
        component, value = component.strip(), value.strip()
        found[component] = (*found.get(component, ()), value)
    return found


def _show_component_values(value: Mapping[str, Sequence[str]]) -> str:
    """Format values by component, as `_parse_component_values` reads them."""
    return ",".join(f"{component}:{entry}" for component in sorted(value) for entry in value[component])


# Values of their own kind.


@dataclass(frozen=True, slots=True)
class NamedCertKey:
    """A serving certificate for some host names."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


def _parse_named_cert_keys(text: str, before: Any, given: bool) -> tuple[NamedCertKey, ...]:
    """Parse `certificate,key:name,name`; further uses of the flag append. Raises: ValueError."""
    pair, colon, names_text = text.partition(":")
    names: tuple[str, ...] = ()
    if colon:
        if not names_text.strip():
            raise ValueError("empty names list is not allowed")
        names = tuple(name.strip() for name in names_text.strip().split(","))
    files = pair.strip().split(",")
    if len(files) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    value = NamedCertKey(files[0].strip(), files[1].strip(), names)
    return (*before, value) if given else (value,)


@dataclass(frozen=True, slots=True)
class VModule:
    """A log level for the files that match a pattern."""

    pattern: str
    level: int


def _parse_vmodule(text: str, before: Any, _given: bool) -> tuple[VModule, ...]:
    """Parse `pattern=N,…`; further uses of the flag append. Raises: ValueError with klog's message."""
    found: list[VModule] = list(before)
    for part in text.split(","):
        if not part:
            continue
        pieces = part.split("=")
        if len(pieces) != 2 or not pieces[0] or not pieces[1]:
            raise ValueError(f"{quote(part)} does not have the pattern=N format")
        try:
            found.append(VModule(pieces[0], parse_level(pieces[1])))
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quote(part)}: {error}") from error
    return tuple(found)


def _parse_ip(text: str, before: Any, _given: bool) -> str:
    """Parse an IP address; an empty text leaves the value as it was. Raises: ValueError with pflag's message."""
    if not text:
        return str(before)
    stripped = text.strip()
    try:
        address = ipaddress.ip_address(stripped)
    except ValueError as error:
        raise ValueError(f"failed to parse IP: {quote(text)}") from error
    if "%" in stripped:
        raise ValueError(f"failed to parse IP: {quote(text)}")
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _parse_reported_version(text: str, _before: Any, _given: bool) -> str:
    """`raw`, a boolean, or a version to report instead of the build's."""
    if text == "raw":
        return text
    if text.startswith("v"):
        check_reported_version(text)
        return text
    return "true" if parse_bool(text) else "false"


def check_reported_version(text: str) -> None:
    """Check a version to be reported: another build of the same release.

    Raises: ValueError: it is malformed or of another release.
    """
    default = versions.parse_semantic(versions.KUBERNETES)
    wanted = versions.parse_semantic(text)
    if wanted.components != default.components:
        raise ValueError(
            f"version {quote(text)} must match major/minor/patch of default version {quote(versions.KUBERNETES)}"
        )


def _parse_quantity(text: str, _before: Any, _given: bool) -> Quantity:
    return parse_quantity(text)


# The types.

_NOTHING = frozenset({""})
STRING = FlagType("string", lambda text, _before, _given: text, str, silent=_NOTHING)
BOOL = FlagType(
    "bool",
    lambda text, _before, _given: parse_bool(text),
    lambda value: str(value).lower(),
    bare="true",
    silent=frozenset({"false", ""}),
)
INT = FlagType("int", lambda text, _before, _given: parse_int(text, 64), str, silent=frozenset({"0"}))
INT32 = FlagType("int32", lambda text, _before, _given: parse_int(text, 32), str, silent=frozenset({"0"}))
FLOAT32 = FlagType(
    "float32",
    lambda text, _before, _given: parse_float32(text),
    lambda value: golang.format_float(value, 32),
    silent=frozenset({"0"}),
)
DURATION = FlagType(
    "duration",
    lambda text, _before, _given: golang.parse_duration(text),
    lambda value: str(value if isinstance(value, Duration) else Duration(value)),
    silent=frozenset({"0", "0s"}),
)
STRINGS = FlagType("strings", _parse_strings, lambda value: f"[{show_csv(value)}]", silent=frozenset({"[]"}))
INT32_LIST = FlagType("int32Slice", _parse_int32_list, lambda value: f"[{','.join(map(str, value))}]")
IP = FlagType("ip", _parse_ip, str, silent=frozenset({"<nil>"}))
STRING_MAP = FlagType("stringToString", _parse_string_map, _show_string_map)
NAMED_CERT_KEYS = FlagType(
    "namedCertKey", _parse_named_cert_keys, lambda value: f"[{';'.join(str(entry) for entry in value)}]"
)
COMPONENT_VALUES = FlagType(
    "colonSeparatedMultimapStringString", _parse_component_values, _show_component_values, silent=_NOTHING
)
LEVEL = FlagType("Level", lambda text, _before, _given: parse_level(text), str, silent=frozenset({"0"}))
VMODULE = FlagType(
    "pattern=N,...",
    _parse_vmodule,
    lambda value: ",".join(f"{entry.pattern}={entry.level}" for entry in value),
    silent=_NOTHING,
)
QUANTITY = FlagType("quantity", _parse_quantity, str, silent=frozenset({"0"}))
VERSION = FlagType("version", _parse_reported_version, str, bare="true", silent=frozenset({"false"}))
