"""Quantities against an obvious twin in exact fractions, and at their limits."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.apimachinery.quantity import INT64_MAX, WRONG_FORM, WRONG_SUFFIX, Format, Quantity, parse_quantity

FACTORS = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
DIGITS = st.text("0123456789", max_size=30)


def _away_from_zero(amount: Fraction) -> int:
    size = -(-abs(amount.numerator) // amount.denominator)
    return size if amount >= 0 else -size


def _clamped(amount: Fraction) -> int:
    return max(-INT64_MAX, min(INT64_MAX, _away_from_zero(amount)))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text and the exact amount it states."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole, fraction = draw(DIGITS.filter(bool)), draw(st.none() | DIGITS)
    if draw(st.booleans()):
        suffix = draw(st.sampled_from(sorted(FACTORS)))
        factor = FACTORS[suffix]
    else:
        exponent = draw(st.integers(-40, 40))
        suffix = f"{draw(st.sampled_from('eE'))}{draw(st.sampled_from(['', '+'])) if exponent >= 0 else ''}{exponent}"
        factor = Fraction(10) ** exponent
    amount = Fraction(int(whole)) * factor
    if fraction:
        amount += Fraction(int(fraction), 10 ** len(fraction)) * factor
    text = f"{sign}{whole}{'' if fraction is None else '.' + fraction}{suffix}"
    return text, -amount if sign == "-" else amount


@given(written())
def test_amounts_equal_those_of_fractions(case: tuple[str, Fraction]) -> None:
    """Requests would be summed and compared wrongly for some way of writing them."""
    text, amount = case
    quantity = parse_quantity(text)
    in_nanos = Fraction(_away_from_zero(amount * 10**9), 10**9)
    assert (quantity.value(), quantity.milli_value()) == (_clamped(in_nanos), _clamped(in_nanos * 1000))
    if abs(amount) < INT64_MAX:
        assert quantity.nanos == in_nanos * 10**9


@given(st.integers(-(10**40), 10**40), st.sampled_from(Format))
def test_text_states_the_same_amount(nanos: int, format_: Format) -> None:
    """An amount computed here (a share of a device, say) would arrive as another one at the API server."""
    quantity = Quantity(nanos, format_)
    read = parse_quantity(str(quantity))
    # Binary amounts stop at 64 bits, as the API server's do.
    limit = INT64_MAX * 10**9 if read.format is Format.BINARY_SI else 10**60
    assert read.nanos == max(-limit, min(limit, nanos))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1e4", "10e3"),
        ("-0", "0"),
        ("1500k", "1500k"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    """People would see amounts in an unfamiliar form."""
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", WRONG_FORM, id="empty"),
        pytest.param("one", WRONG_FORM, id="word"),
        pytest.param(" 1", WRONG_FORM, id="space"),
        pytest.param("1\n", WRONG_FORM, id="newline"),
        pytest.param("1.2.3", WRONG_FORM, id="two-points"),
        pytest.param("١", WRONG_FORM, id="digit-of-another-script"),
        pytest.param("1Kib", WRONG_FORM, id="letter-past-suffix"),
        pytest.param("1ki", WRONG_SUFFIX, id="wrong-case"),
        pytest.param("1e", WRONG_SUFFIX, id="exponent-without-digits"),
        pytest.param("1e1.5", WRONG_FORM, id="fraction-in-exponent"),
    ],
)
def test_refusals_use_the_words_of_the_api_server(text: str, problem: str) -> None:
    """A wrong quantity would pass as a number, or be refused in words that nobody can look up."""
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1e999999999999999999", INT64_MAX, id="exponent"),
        pytest.param("-1e999999999999999999", -INT64_MAX, id="negative-exponent"),
        pytest.param("1e-999999999999999999", 1, id="tiny"),
        pytest.param("9" * 100_000, INT64_MAX, id="digits"),
        pytest.param("0." + "0" * 100_000 + "1", 1, id="decimals"),
        pytest.param("1" + "0" * 20 + "." + "9" * 10_000 + "n", 10**11 + 1, id="cut-off-digits-round-up"),
        pytest.param("99999999Ei", INT64_MAX, id="binary"),
    ],
)
@pytest.mark.timeout(5)
def test_extreme_amounts_saturate(text: str, value: int) -> None:
    """One object with an absurd amount would fill the memory, stop the process, or count as nothing."""
    assert parse_quantity(text).value() == value


@pytest.mark.timeout(5)
def test_refusing_takes_time_linear_in_the_text() -> None:
    """One object with a long wrong amount would hold up the process."""
    with pytest.raises(ValueError, match="regular expression"):
        parse_quantity("1" * 1_000_000 + "?")
