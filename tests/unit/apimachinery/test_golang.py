"""Go's text forms of durations, numbers and strings, which files, flags and messages use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.apimachinery import golang
from trireme_kube.apimachinery.golang import Duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("15s", 15_000_000_000),
        ("1h2m3.5s", 3_723_500_000_000),
        ("-1.5h", -5_400_000_000_000),
        ("100ms", 100_000_000),
        ("2us", 2_000),
        ("2µs", 2_000),
        ("7ns", 7),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("+3m", 180_000_000_000),
    ],
)
def test_durations_are_read(text: str, nanoseconds: int) -> None:
    """Durations in Go's notation."""
    assert golang.parse_duration(text) == Duration(nanoseconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("s", 'time: invalid duration "s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
    ],
)
def test_invalid_durations_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        golang.parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100_000_000, "100ms"),
        (15_000_000_000, "15s"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-1_500_000_000, "-1.5s"),
    ],
)
def test_durations_are_written_as_go_writes_them(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_every_duration_comes_back(nanoseconds: int) -> None:
    assert golang.parse_duration(str(Duration(nanoseconds))) == Duration(nanoseconds)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50.0, "50"),
        (0.1, "0.1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (-2.5, "-2.5"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert golang.json_float(value) == text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("a\nb\t\x00", '"a\\nb\\t\\x00"'),
        ("é☃", '"é☃"'),
        ("\u2028\ufeff", '"\\u2028\\ufeff"'),
    ],
)
def test_strings_are_quoted_as_go_quotes_them(text: str, quoted: str) -> None:
    assert golang.quote(text) == quoted


def test_lists_are_quoted_with_blanks_between() -> None:
    assert golang.quote_list(["a", "b c"]) == '["a" "b c"]'


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_float32_round_trips_through_text(value: float) -> None:
    assert golang.to_float32(float(golang.json_float(value, 32))) == value
