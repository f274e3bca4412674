"""string.format(list): replaces printf-like clauses by values.

Source: github.com/google/cel-go/ext (formatting).

Also change: internal/trireme_kube/cel/library/operators.py,
internal/trireme_kube/componentbase/cli/flag_values.py (Go's strconv).
Also change: internal/trireme_kube/apimachinery/golang.py,
internal/trireme_kube/apimachinery/quantity.py (how Go writes numbers).

Tests: tests/conformance/test_selectors.py, tests/unit/plugins/dynamic_resources/test_expressions.py.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from trireme_kube.apimachinery import golang
from trireme_kube.cel import values
from trireme_kube.cel.library import operators, times
from trireme_kube.cel.values import Duration, EvaluationError, Map, Timestamp, TypeName, Uint

_CLAUSE = re.compile(r"%(%|(?:\.([0-9]*))?(.?))", re.DOTALL)
_PRECISION: Final = 6
_AS_NUMBER: Final = ("NaN", "Infinity", "-Infinity")
_MAX_PRECISION: Final = 10_000


def formatted(text: str, arguments: Sequence[Any]) -> str:
    """Replace the clauses of the text. Raises: EvaluationError."""
    out = []
    for part, at, letter, precision in _split_at_clauses(text, len(arguments)):
        out.append(part)
        if letter:
            try:
                out.append(_CLAUSES[letter](arguments[at], precision))
            except EvaluationError as error:
                raise EvaluationError(f"error during formatting: {error}") from None
    return "".join(out)


def check_clauses(text: str, count: int, check: Callable[[int, str], None]) -> None:
    """Call `check` with each clause's argument number and letter. Raises: EvaluationError if the text is malformed."""
    for _, at, letter, _ in _split_at_clauses(text, count):
        if letter:
            check(at, letter)


def _split_at_clauses(text: str, count: int) -> Iterator[tuple[str, int, str, int]]:
    """Yield text with the argument, letter and precision of the clause after it, if any."""
    position = at = 0
    for clause in _CLAUSE.finditer(text):
        before, position = text[position : clause.start()], clause.end()
        if clause.group(1) == "%":
            yield f"{before}%", 0, "", 0
            continue
        if at >= count:
            raise EvaluationError(f"index {at} out of range")
        yield before, at, _clause_letter(clause), _parse_precision(clause.group(2))
        at += 1
    yield text[position:], 0, "", 0


def _clause_letter(clause: re.Match[str]) -> str:
    """Return the letter of a clause. Raises: EvaluationError for an unknown letter or a bad precision."""
    _, digits, letter = clause.groups()
    if not letter:
        ended = "unexpected end of string"
        raise EvaluationError(ended if digits is None else f"{_PARSING}{_PARSING_PRECISION}{_NO_END}")
    # Errors of the precision are reported first.
    _parse_precision(digits)
    if letter not in _CLAUSES:
        raise EvaluationError(f'{_PARSING}unrecognized formatting clause "{letter}"')
    return str(letter)


def _parse_precision(digits: str | None) -> int:
    """Return the precision of a clause, the default for None, capped. Raises: EvaluationError."""
    if digits is None:
        return _PRECISION
    if not digits or len(digits) > 18:
        why = "invalid syntax" if not digits else "value out of range"
        problem = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": {why}'
        raise EvaluationError(f"{_PARSING}{_PARSING_PRECISION}{problem}")
    return min(int(digits), _MAX_PRECISION)


_PARSING: Final = "could not parse formatting clause: "
_PARSING_PRECISION: Final = "error while parsing precision: "
_NO_END: Final = "could not find end of precision specifier"


def _as_string(value: Any, _: int = 0) -> str:
    """Format a value for `%s`; maps are sorted by key, as text."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal_text, value)) + "]"
    if isinstance(value, Map):
        return (
            "{"
            + ", ".join(
                ":".join(pair) for pair in sorted((_map_key_text(key), _literal_text(v)) for key, v in value.items())
            )
            + "}"
        )
    if value is None:
        return "null"
    if isinstance(value, TypeName):
        return value.name
    if isinstance(value, (bool, int, float, str, bytes, Duration, Timestamp)):
        try:
            return operators.to_string(value)
        except EvaluationError as error:
            raise EvaluationError(f"could not convert argument {values.quoted(str(error))} to string") from None
    raise _wrong_argument_error("s", value)


def _map_key_text(value: Any) -> str:
    """Format a map's key. Raises: EvaluationError for a type without a format."""
    if isinstance(value, str):
        return values.quoted(value)
    if isinstance(value, int):
        return values.value_text(value)
    raise EvaluationError(f"no formatting function for map key of type {values.type_name(value)}")


def _literal_text(value: Any) -> str:
    """Format a value within a list or map: as a literal."""
    if isinstance(value, str):
        return values.quoted(value)
    if isinstance(value, bytes):
        return f"b{values.quoted(operators.to_string(value))}"
    if isinstance(value, float):
        text = f"{value:.6f}"
        return text if math.isfinite(value) else values.quoted(golang.format_float(value))
    if isinstance(value, Timestamp):
        return f'timestamp("{times.timestamp_text(value)}")'
    if isinstance(value, Duration):
        return f'duration("{times.duration_text(value)}")'
    if value is None or isinstance(value, (bool, int, list, Map, TypeName)):
        return _as_string(value)
    raise EvaluationError(f"no formatting function for {values.type_name(value)}")


def _decimal_text(value: Any, _: int) -> str:
    """Format an integer for `%d`. Raises: EvaluationError for another type."""
    if type(value) in (int, Uint):
        return str(int(value))
    raise _wrong_argument_error("d", value)


def _as_double(value: Any, letter: str) -> float:
    """Return a float, or one of the texts that stand for a non-finite one, as a float. Raises: EvaluationError."""
    if isinstance(value, float):
        return value
    if value in _AS_NUMBER:
        return float(value)
    raise _wrong_argument_error(letter, value)


def _fixed_text(value: Any, precision: int) -> str:
    """Format a float for `%f`, with commas between thousands."""
    number = _as_double(value, "f")
    return f"{number:,.{precision}f}" if math.isfinite(number) else _non_finite_text(number)


def _scientific_text(value: Any, precision: int) -> str:
    """Format a float for `%e`, as mantissa × 10 to a power."""
    number = _as_double(value, "e")
    if not math.isfinite(number):
        return _non_finite_text(number)
    mantissa, _, exponent = f"{number:.{precision}e}".partition("e")
    power = exponent.translate(_SUPERSCRIPT).removeprefix("+")
    return f"{mantissa}\u202f×\u202f10{power}"


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _non_finite_text(number: float) -> str:
    return "NaN" if number != number else "∞" if number > 0 else "-∞"


def _binary_text(value: Any, _: int) -> str:
    """Format a boolean or an integer for `%b`. Raises: EvaluationError for another type."""
    if type(value) in (bool, int, Uint):
        return f"{int(value):b}"
    raise _wrong_argument_error("b", value)


def _hex_text(value: Any, _: int) -> str:
    """Format text, bytes or an integer for `%x`. Raises: EvaluationError for another type."""
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if type(value) in (int, Uint):
        return f"{int(value):x}"
    raise _wrong_argument_error("x", value)


def _octal_text(value: Any, _: int) -> str:
    """Format an integer for `%o`. Raises: EvaluationError for another type."""
    if type(value) in (int, Uint):
        return f"{int(value):o}"
    raise _wrong_argument_error("o", value)


_CLAUSES: Final[dict[str, Callable[[Any, int], str]]] = {
    "s": _as_string,
    "d": _decimal_text,
    "f": _fixed_text,
    "e": _scientific_text,
    "b": _binary_text,
    "x": _hex_text,
    "X": lambda value, precision: _hex_text(value, precision).upper(),
    "o": _octal_text,
}

_MISPLACED: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_INTEGERS: Final = ("int", "uint")
_FORMATTABLE: Final = ("list", "map", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null")
KINDS: Final = {
    "s": (*_INTEGERS, *_FORMATTABLE),
    "d": _INTEGERS,
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": (*_INTEGERS, "bool"),
    "x": (*_INTEGERS, "string", "bytes"),
    "X": (*_INTEGERS, "string", "bytes"),
    "o": _INTEGERS,
}
"""The types that each clause accepts."""


def wrong_argument_message(letter: str, kind: str) -> str:
    """The message for a clause with an argument of the wrong type."""
    return f"{_MISPLACED[letter.lower()]}, was given {kind}"


def _wrong_argument_error(letter: str, value: Any) -> EvaluationError:
    return EvaluationError(wrong_argument_message(letter, values.type_name(value)))
