"""The messages that Kubernetes writes as a single JSON value: times, quantities, int-or-string, raw JSON.

The general conversion in `decode` follows descriptors; these five types are the ones whose JSON does not follow from
them. Each has a reader (JSON value into a message) and a writer (message to JSON value) here, and no other module knows
their form. Readers refuse what the API server would refuse, with ValueError or TypeError and no other;
`trireme_kube.apimachinery.normalization` checks a quantity's text later.

Source: MarshalJSON and UnmarshalJSON of apimachinery's metav1.Time, metav1.MicroTime, resource.Quantity,
intstr.IntOrString and runtime.RawExtension.

Tests: tests/unit/apimachinery/test_decode.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import orjson

from trireme_kube.apimachinery.quantity import WRONG_FORM

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_NOT_A_TIME = "times must be written as in RFC 3339, such as 2006-01-02T15:04:05Z"


@dataclass(frozen=True, slots=True)
class JsonValue:
    """How one message type reads and writes its JSON value."""

    read: Callable[[Any, Any], None]
    """Fills the (empty) message given first from the JSON value given second."""
    write: Callable[[Any], Any]
    """The JSON value of a message."""


@lru_cache(maxsize=8192)
def parse_time(text: str) -> tuple[int, int]:
    """Seconds since 1970 and nanoseconds of an RFC 3339 time.

    Raises: ValueError.
    """
    form = _RFC3339.fullmatch(text)
    if form is None:
        raise ValueError(_NOT_A_TIME)
    try:
        # The standard library alone would accept a good deal more than RFC 3339.
        moment = datetime.fromisoformat(form.group(1) + ("+00:00" if form.group(3) == "Z" else form.group(3)))
    except ValueError as error:
        raise ValueError(f"{_NOT_A_TIME}: {error}") from error
    since = moment - _EPOCH
    seconds = since.days * 86400 + since.seconds
    # An offset can lead out of the supported years.
    _utc_datetime(seconds, 0)
    return seconds, int((form.group(2) or "0")[:9].ljust(9, "0"))


def format_time(seconds: int) -> str:
    """A moment in RFC 3339, to the second."""
    return _utc_datetime(seconds, 0).isoformat()[:19] + "Z"


def format_micro_time(seconds: int, nanos: int) -> str:
    """A moment in RFC 3339, to the microsecond."""
    return _utc_datetime(seconds, nanos).isoformat(timespec="microseconds")[:26] + "Z"


def _utc_datetime(seconds: int, nanos: int) -> datetime:
    """Return the time as a datetime. Raises: ValueError beyond the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ValueError("a time must lie between the years 1 and 9999") from error


def _read_time(message: Any, value: Any) -> None:
    """Set a Time message from RFC 3339 text. Raises: TypeError, ValueError."""
    if not isinstance(value, str):
        raise _wrong_type_error("a time as a string", value)
    message.seconds, message.nanos = parse_time(value)


def _read_quantity(message: Any, value: Any) -> None:
    """Set a Quantity message from a string or a number; its form is not checked. Raises: TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong_type_error("a quantity as a string or a number", value)
    text = str(value).strip()
    if not text:
        raise ValueError(WRONG_FORM)
    message.string = text


def _read_int_or_string(message: Any, value: Any) -> None:
    """Set an IntOrString message. Raises: TypeError for anything else."""
    if isinstance(value, str):
        message.type, message.str_val = 1, value
    elif isinstance(value, int) and not isinstance(value, bool):
        message.type, message.int_val = 0, value
    else:
        raise _wrong_type_error("an integer or a string", value)


def _read_raw(message: Any, value: Any) -> None:
    """Set a RawExtension message: any JSON value, kept as JSON."""
    message.raw = orjson.dumps(value)


def _write_raw(message: Any) -> Any:
    """Return the JSON value of a RawExtension; None if it is empty."""
    return orjson.loads(message.raw) if message.raw else None


def _wrong_type_error(expected: str, value: object) -> TypeError:
    return TypeError(f"expected {expected}, not {type(value).__name__}")


JSON_VALUES: Mapping[str, JsonValue] = {
    "Time": JsonValue(_read_time, lambda message: format_time(message.seconds)),
    "MicroTime": JsonValue(_read_time, lambda message: format_micro_time(message.seconds, message.nanos)),
    "Quantity": JsonValue(_read_quantity, lambda message: message.string or "0"),
    "IntOrString": JsonValue(
        _read_int_or_string, lambda message: message.str_val if message.type == 1 else message.int_val
    ),
    "RawExtension": JsonValue(_read_raw, _write_raw),
}
"""By full name of the message."""
