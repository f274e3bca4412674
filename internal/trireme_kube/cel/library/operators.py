"""The operators of the language and the conversions between its types.

If an operand never goes with the operator, the message names the operator; if only this combination does not, it does
not.

Source: github.com/google/cel-go/common (stdlib, types).

Also change: internal/trireme_kube/componentbase/cli/flag_values.py,
internal/trireme_kube/cel/library/format_function.py (Go's strconv).

Tests: tests/unit/plugins/dynamic_resources/test_expressions.py, tests/conformance/test_selectors.py.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final

from trireme_kube.cel import values
from trireme_kube.cel.library import times
from trireme_kube.cel.values import Duration, EvaluationError, Map, Timestamp, Uint

_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)")
_SPECIAL_FLOAT = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
_TWO_TO_64: Final = 18446744073709551616.0
_TWO_TO_63: Final = 9223372036854775808.0


def add(left: Any, right: Any) -> Any:
    """CEL's left + right."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind in (int, Uint):
            return _to_whole_number(kind, left + right)
        if kind in (float, str, bytes, list):
            return left + right
        if kind is Duration:
            return times.duration(left.nanos + right.nanos)
    if kind is Duration and other is Timestamp:
        return times.add_nanos(right, left.nanos)
    if kind is Timestamp and other is Duration:
        return times.add_nanos(left, right.nanos)
    raise wrong_operand("_+_", left, (int, Uint, float, str, bytes, list, Duration, Timestamp))


def subtract(left: Any, right: Any) -> Any:
    """CEL's left - right."""
    kind, other = type(left), type(right)
    if kind is other:
        if kind in (int, Uint):
            return _to_whole_number(kind, left - right)
        if kind is float:
            return left - right
        if kind is Duration:
            return times.duration(left.nanos - right.nanos)
        if kind is Timestamp:
            return times.duration(left.nanos - right.nanos)
    if kind is Timestamp and other is Duration:
        return times.add_nanos(left, -right.nanos)
    raise wrong_operand("_-_", left, (int, Uint, float, Duration, Timestamp))


def multiply(left: Any, right: Any) -> Any:
    """CEL's left * right."""
    kind = type(left)
    if kind is type(right) and kind in (int, Uint, float):
        return left * right if kind is float else _to_whole_number(kind, left * right)
    raise wrong_operand("_*_", left, (int, Uint, float))


def divide(left: Any, right: Any) -> Any:
    """CEL's left / right, cut off towards zero."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise wrong_operand("_/_", left, (int, Uint, float))
    if kind is float:
        if right:
            return left / right
        return math.nan if not left or left != left else math.copysign(math.inf, left) * math.copysign(1.0, right)
    if not right:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return _to_whole_number(kind, whole if (left < 0) == (right < 0) else -whole)


def modulo(left: Any, right: Any) -> Any:
    """CEL's left % right, with the sign of the left."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise wrong_operand("_%_", left, (int, Uint))
    if not right:
        raise EvaluationError("modulus by zero")
    if left == values.MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return kind(-rest if left < 0 else rest)


def negate(value: Any) -> Any:
    """CEL's -value."""
    if type(value) is int:
        return _to_whole_number(int, -value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return times.duration(-value.nanos)
    raise wrong_operand("-_", value, (bool,))


def logical_not(value: Any) -> bool:
    """CEL's !value."""
    if value is True or value is False:
        return not value
    raise values.no_such_overload()


def less(left: Any, right: Any) -> bool:
    """CEL's left < right."""
    return _ordering("_<_", left, right) < 0


def less_or_equal(left: Any, right: Any) -> bool:
    """CEL's left <= right."""
    return _ordering("_<=_", left, right) <= 0


def greater(left: Any, right: Any) -> bool:
    """CEL's left > right."""
    return _ordering("_>_", left, right) > 0


def greater_or_equal(left: Any, right: Any) -> bool:
    """CEL's left >= right."""
    return _ordering("_>=_", left, right) >= 0


def is_in(left: Any, right: Any) -> bool:
    """CEL's left in right."""
    if type(right) is list:
        return any(values.same(left, each) for each in right)
    if type(right) is Map:
        return left in right
    raise values.no_such_overload()


def size(value: Any) -> int:
    """CEL's size(value)."""
    if type(value) in (str, bytes, list, Map):
        return len(value)
    raise wrong_operand("size", value, ())


def _ordering(name: str, left: Any, right: Any) -> int:
    """Below zero, zero or above it: the order of the two operands of the operator `name`."""
    if not values.is_ordered(left):
        raise wrong_operand(name, left, ())
    return values.compare(left, right)


def _to_whole_number(kind: type, value: int) -> Any:
    """Return the number as an integer of the kind. Raises: EvaluationError if it does not fit."""
    if kind is Uint:
        if not 0 <= value <= values.MAX_UINT:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if not values.MIN_INT <= value <= values.MAX_INT:
        raise EvaluationError("integer overflow")
    return value


def wrong_operand(name: str, value: Any, supported: tuple[type, ...]) -> EvaluationError:
    """The error of an operand of the wrong type; `supported`: types that the operator takes in other combinations."""
    # Texts and times receive calls of any name, and reject those that they do not know.
    if type(value) in supported or type(value) in (str, Duration, Timestamp):
        return values.no_such_overload()
    return EvaluationError(f"no such overload: {name}")


# Conversions


def to_int(value: Any) -> int:
    """CEL's int(value)."""
    if type(value) is int:
        return value
    if type(value) is Uint:
        return int(_to_whole_number(int, int(value)))
    if type(value) is float:
        if value != value or not -_TWO_TO_63 < value < _TWO_TO_63:
            raise EvaluationError("integer overflow")
        return int(value)
    if type(value) is Duration:
        return value.nanos
    if type(value) is Timestamp:
        return value.nanos // times.SECOND
    return int(_parse_text(value, "int", _INT, lambda text: values.MIN_INT <= int(text) <= values.MAX_INT, int))


def to_uint(value: Any) -> Uint:
    """CEL's uint(value)."""
    if type(value) in (int, Uint):
        return Uint(_to_whole_number(Uint, int(value)))
    if type(value) is float:
        if value != value or not 0 <= value < _TWO_TO_64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    return Uint(_parse_text(value, "uint", _UINT, lambda text: int(text) <= values.MAX_UINT, int))


def to_double(value: Any) -> float:
    """CEL's double(value)."""
    if type(value) is not str:
        return float(value)
    if _SPECIAL_FLOAT.fullmatch(value):
        return float(value)
    return float(_parse_text(value, "double", _FLOAT, lambda text: not math.isinf(float(text)), float))


def to_bool(value: Any) -> bool:
    """CEL's bool(value)."""
    if type(value) is bool:
        return value
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise EvaluationError("type conversion error from 'string' to 'bool'")


def to_bytes(value: Any) -> bytes:
    """CEL's bytes(value)."""
    return value.encode() if isinstance(value, str) else bytes(value)


def to_string(value: Any) -> str:
    """CEL's string(value)."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bytes:
        try:
            return str(value.decode())
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind is Duration:
        return times.duration_text(value)
    if kind is Timestamp:
        return times.timestamp_text(value)
    return values.value_text(value)


def to_duration(value: Any) -> Duration:
    """CEL's duration(value)."""
    if isinstance(value, Duration):
        return value
    nanos = times.parse_duration(value)
    if nanos is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return Duration(nanos)


def to_timestamp(value: Any) -> Timestamp:
    """CEL's timestamp(value)."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return times.timestamp(value * times.SECOND)
    timestamp = times.parse_timestamp(value)
    if timestamp is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    return timestamp


def type_of(value: Any) -> values.TypeName:
    """CEL's type(value)."""
    return values.TypeName(values.type_name(value))


def _parse_text(
    value: Any, kind: str, form: re.Pattern[str], fits: Callable[[str], bool], make: Callable[[str], Any]
) -> Any:
    """Convert a text by `make` if it has the form and fits. Raises: EvaluationError otherwise."""
    # No number of that many digits fits, and reading it would take long.
    if len(value) > 400 or form.fullmatch(value) is None or not fits(value):
        raise EvaluationError(f"type conversion error from 'string' to '{kind}'")
    return make(value)
