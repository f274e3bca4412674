"""Quantities: the canonical form that the API server stores, and the values compared in validation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.embedded.api.quantities import canonical, nanos


@pytest.mark.parametrize(
    ("given_", "stored"),
    [
        ("100m", "100m"),
        ("0.5", "500m"),
        (0.5, "500m"),
        (1, "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("2000", "2k"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("512", "512"),
        ("0", "0"),
        ("0Gi", "0"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("100u", "1m"),
        ("1.5Gi", "1536Mi"),
        ("-1", "-1"),
        (".5", "500m"),
        ("5.", "5"),
    ],
)
def test_canonical_form(given_: object, stored: str) -> None:
    """A pod read back must look as the real server shows it, or clients see differences that are none."""
    assert canonical(given_) == stored


@pytest.mark.parametrize("text", ["", "abc", "1x", "1 Gi", "--1", "1Gib", True, None, [], "1.2.3"])
def test_nonsense_is_refused(text: object) -> None:
    """A mistyped request would otherwise count as zero and overcommit a node."""
    with pytest.raises(ValueError, match="quantit"):
        canonical(text)


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_canonical_form_keeps_the_value(number: int, suffix: str) -> None:
    """Whatever the notation, the amount stays the same (thousandths are the finest unit)."""
    text = f"{number}{suffix}"
    assert nanos(canonical(text)) == nanos(text)


@given(st.integers(1, 10**9))
def test_rounding_is_up(number: int) -> None:
    """A request below a thousandth must not vanish."""
    assert 0 <= nanos(canonical(f"{number}n")) - number < 10**6
