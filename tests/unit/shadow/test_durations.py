"""Quantiles of durations."""

import random

import pytest

from trireme.shadow import durations


def test_quantiles_are_at_most_15_percent_too_high() -> None:
    """A wait would be shown wrong."""
    draw = random.Random(1)
    values = sorted(draw.lognormvariate(-2, 1.5) for _ in range(5000))
    counted = durations.Durations()
    for value in values:
        counted.add(value)
    for share in (0.5, 0.99):
        exact = values[round(share * len(values)) - 1]
        assert exact <= counted.quantile(share) * 1.001
        assert counted.quantile(share) <= exact * 1.16
    assert counted.mean == pytest.approx(sum(values) / len(values))


def test_without_durations_all_is_zero() -> None:
    """The first report comes before the first pod."""
    assert (durations.Durations().quantile(0.99), durations.Durations().mean) == (0.0, 0.0)


def test_durations_beyond_the_last_bucket_count() -> None:
    """A pod that waited for a week would be lost."""
    counted = durations.Durations()
    counted.add(700_000.0)
    assert counted.quantile(0.5) > 80_000
