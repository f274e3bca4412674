"""Numbers as Go prints them in metrics: `0.001`, `1e-05`, `2.592e+06`, `3`.

Bucket bounds are text in every query that names one, so a dashboard made for kube-scheduler finds its buckets only if
they are spelt the same.

Tests: tests/unit/componentbase/metrics/test_instruments.py.
"""

import math
from decimal import Decimal

# From this decimal exponent on numbers are written with one; below the other as well.
_LARGE = 6
_SMALL = -4


def number_text(value: float) -> str:
    """The shortest text that reads back as the value. Source: Go's strconv.FormatFloat(value, 'g', -1, 64)."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 10**_LARGE:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    power = len(text) + exponent - 1
    minus = "-" if sign else ""
    if power < _SMALL or power >= _LARGE:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{power:+03d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    whole, rest = text[: power + 1].ljust(power + 1, "0"), text[power + 1 :]
    return f"{minus}{whole}.{rest}" if rest else f"{minus}{whole}"
