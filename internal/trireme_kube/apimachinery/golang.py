"""Parses and formats small values as Go does: durations, numbers, quoted strings, JSON.

Operators compare what Trireme prints with what kube-scheduler printed, and tools parse it, so values in messages, flags
and written configurations follow the conventions of Go's `time`, `strconv`, `fmt` and `encoding/json` packages.

Also change: internal/trireme_kube/cel/library/format_function.py,
internal/trireme_kube/apimachinery/quantity.py (how Go writes numbers).

Tests: tests/unit/apimachinery/test_golang.py, tests/unit/apimachinery/test_declaration.py,
tests/unit/componentbase/cli/test_flag_declarations.py.
"""

import decimal
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in whole nanoseconds; `str()` gives Go's text, e.g. `1m30s`."""

    nanoseconds: int = 0

    @staticmethod
    def of(seconds: float) -> "Duration":
        """Make a duration from seconds."""
        return Duration(round(seconds * SECOND))

    @property
    def seconds(self) -> float:
        """The duration in seconds, for asyncio's timers."""
        return self.nanoseconds / SECOND

    def __str__(self) -> str:
        return format_duration(self.nanoseconds)


def _parse_fraction(digits: str) -> tuple[int, float]:
    """Return the digits after a decimal point as an integer, and its scale; digits beyond 63 bits are dropped."""
    value, scale = 0, 1.0
    for digit in digits:
        grown = value * 10 + int(digit)
        if value > (_LIMIT - 1) // 10 or grown > _LIMIT:
            break
        value, scale = grown, scale * 10
    return value, scale


# A number and its unit: `1.5h`. Every part may be empty.
_TERM = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^.0-9]*)")


def parse_duration(text: str) -> Duration:
    """Parses `1h2m3.5s`.

    Raises:
        ValueError: with Go's message.
    """
    invalid = f"time: invalid duration {_quote_bytewise(text)}"
    rest = text
    negative = rest.startswith("-")
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return Duration()
    if not rest:
        raise ValueError(invalid)
    total = 0
    while rest:
        if rest[0] != "." and not ("0" <= rest[0] <= "9"):
            raise ValueError(invalid)
        match = _TERM.match(rest)
        assert match is not None
        value = _nanoseconds_of_term(match, text)
        rest = rest[match.end() :]
        total += value
        if value > _LIMIT or total > _LIMIT:
            raise ValueError(invalid)
    if negative:
        return Duration(-total)
    if total > _LIMIT - 1:
        raise ValueError(invalid)
    return Duration(total)


def _nanoseconds_of_term(match: re.Match[str], text: str) -> int:
    """The nanoseconds of one term of the duration `text`."""
    whole, _, decimals, unit_name = match.groups()
    # More than 19 digits are no 64 bits, and Python refuses to read thousands of them.
    digits = whole.lstrip("0") or "0"
    value = int(digits) if len(digits) <= 19 else _LIMIT + 1
    if value > _LIMIT or not (whole or decimals):
        raise ValueError(f"time: invalid duration {_quote_bytewise(text)}")
    if not unit_name:
        raise ValueError(f"time: missing unit in duration {_quote_bytewise(text)}")
    unit = _UNITS.get(unit_name)
    if unit is None:
        raise ValueError(f"time: unknown unit {_quote_bytewise(unit_name)} in duration {_quote_bytewise(text)}")
    fraction, scale = _parse_fraction(decimals or "")
    return value * unit + (int(fraction * (unit / scale)) if fraction else 0)


def _decimal_text(value: int, unit: int) -> str:
    """Return the value in multiples of the unit, with a decimal fraction where it is no whole number."""
    whole, part = divmod(value, unit)
    digits = str(part).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def format_duration(nanoseconds: int) -> str:
    """Go's text of a duration: `1h0m0s`, `1.5s`, `100µs`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, value = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if value < SECOND:
        for suffix, unit in (("ns", NANOSECOND), ("µs", MICROSECOND), ("ms", MILLISECOND)):
            if value < unit * 1000:
                return f"{sign}{_decimal_text(value, unit) if unit > 1 else value}{suffix}"
    minutes, rest = divmod(value, MINUTE)
    text = f"{_decimal_text(rest, SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return sign + text


def _quote_bytewise(text: str) -> str:
    """The quoting of Go's `time` package, which spells every byte beyond ASCII."""
    out: list[str] = []
    for char in text:
        if char < " " or ord(char) >= 0x80:
            out.extend(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        else:
            out.append(f"\\{char}" if char in '"\\' else char)
    return '"' + "".join(out) + '"'


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quote(text: str) -> str:
    """A quoted string, as `%q` prints it."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
            out.append(f"\\x{code - 0xDC00:02x}")
        elif char == " " or char.isprintable():
            out.append(char)
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        elif code < 0x10000:
            out.append(f"\\u{code:04x}")
        else:
            out.append(f"\\U{code:08x}")
    out.append('"')
    return "".join(out)


def quote_rune(char: str) -> str:
    """A quoted character, as `%q` prints it."""
    inner = {"'": "\\'", '"': '"'}.get(char) or quote(char)[1:-1]
    return f"'{inner}'"


def printable(text: str) -> str:
    """The text as it is, or, where it would steer a terminal, with escapes as in `quote`."""
    return text if text.isprintable() else quote(text)[1:-1]


def quote_list(texts: Sequence[str]) -> str:
    """A slice of strings, as `%q` prints it."""
    return "[" + " ".join(quote(text) for text in texts) + "]"


def to_float32(value: float) -> float:
    """The nearest value of single precision.

    Raises:
        OverflowError: it is too large for one.
    """
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    return float(rounded)


def _round_to_float32(value: float) -> float:
    """As `to_float32`, with infinity for what is too large."""
    try:
        return to_float32(value)
    except OverflowError:
        return math.inf


def _shortest_digits(value: float, bits: int) -> tuple[str, int]:
    """The fewest digits that read back as the value, and the decimal exponent of the first."""
    text = repr(float(value))
    if bits == 32:
        tries = (f"{value:.{precision}e}" for precision in range(9))
        text = next((each for each in tries if _round_to_float32(float(each)) == value), f"{value:.8e}")
    number = decimal.Decimal(text)
    return "".join(map(str, number.normalize().as_tuple().digits)), number.adjusted()


def _fixed_text(digits: str, exponent: int) -> str:
    """Return the digits with a decimal point, without an exponent."""
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def _scientific_text(digits: str, exponent: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_float(value: float, bits: int = 64) -> str:
    """A float as `%v` prints it, and `strconv` in format `g`: with the fewest digits, 1e+06 upwards with exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return sign + "0"
    if abs(value) < 1e6 and value == int(value):
        return str(int(value))
    digits, exponent = _shortest_digits(abs(value), bits)
    if exponent < -4 or exponent >= 6:
        return sign + _scientific_text(digits, exponent)
    return sign + _fixed_text(digits, exponent)


def json_float(value: float, bits: int = 64) -> str:
    """A float as `encoding/json` writes it.

    Raises:
        ValueError: it is no number of JSON.
    """
    if math.isnan(value) or math.isinf(value):
        raise ValueError(f"json: unsupported value: {format_float(value)}")
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return sign + "0"
    digits, exponent = _shortest_digits(abs(value), bits)
    if abs(value) < 1e-6 or abs(value) >= 1e21:
        text = _scientific_text(digits, exponent)
        return sign + re.sub(r"e-0(\d)$", r"e-\1", text)
    return sign + _fixed_text(digits, exponent)


_JSON_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def json_string(text: str) -> str:
    """A string as `encoding/json` writes it: `<`, `>` and `&` escaped, what is not UTF-8 replaced."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in _JSON_ESCAPES:
            out.append(_JSON_ESCAPES[char])
        elif code < 0x20 or char in "<>&\u2028\u2029":
            out.append(f"\\u{code:04x}")
        elif 0xD800 <= code <= 0xDFFF:
            out.append("\\ufffd")
        else:
            out.append(char)
    out.append('"')
    return "".join(out)


def json_text(value: object) -> str:
    """JSON as `encoding/json` writes it of maps, lists, strings, numbers, durations, true, false and null.

    Keys keep their order: the order of a struct's fields is the caller's, a Go map's is sorted.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, Duration):
        return json_string(str(value))
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_string(str(key))}:{json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")
