"""A growth that is there is found, and noise is not taken for one."""

import random

import pytest

from tools.soak import slopes

HOUR = 3600.0


def _samples(per_hour: float, noise: float, *, mean: float = 100.0, seed: int = 1) -> list[slopes.Sample]:
    """Two hours of samples every ten seconds, with noise that partly stays for a while."""
    chance = random.Random(seed)
    drift = 0.0
    made = []
    for number in range(720):
        drift = 0.9 * drift + chance.gauss(0, noise)
        seconds = number * 10.0
        made.append(slopes.Sample(seconds, mean + per_hour * seconds / HOUR + drift, "one"))
    return made


def test_growth_is_found() -> None:
    """What gains two per cent an hour has a slope that is surely above zero."""
    slope = slopes.fit(_samples(per_hour=2.0, noise=0.2), 300, 600)
    assert slope is not None
    assert slope.low < 2.0 < slope.high
    assert not slope.is_flat


def test_noise_is_no_growth() -> None:
    """At most a few of a hundred steady quantities are suspected, although their noise lasts."""
    suspected = [
        seed
        for seed in range(100)
        if not (slope := slopes.fit(_samples(per_hour=0.0, noise=2.0, seed=seed), 300, 600)) or not slope.is_flat
    ]
    assert len(suspected) <= 3


def test_what_moves_in_steps_is_no_growth() -> None:
    """A pool of threads that gets one more, and keeps it for an hour, would fail a run in four."""
    suspected = 0
    for seed in range(200):
        chance = random.Random(seed)
        level, made = 13.0, []
        for number in range(720):
            if chance.random() < 1 / 240:
                level = chance.choice((12.0, 13.0, 14.0, 15.0))
            made.append(slopes.Sample(number * 10.0, level, "one"))
        slope = slopes.fit(made, 300, 600)
        assert slope is not None
        suspected += not slope.is_flat
    assert suspected <= 12


def test_a_leak_of_steps_is_found() -> None:
    """What takes a step each ten minutes, and never one back, grows."""
    made = [slopes.Sample(n * 10.0, 13.0 + n // 60, "one") for n in range(720)]
    slope = slopes.fit(made, 300, 600)
    assert slope is not None
    assert not slope.is_flat


def test_too_wide_an_interval_is_not_called_flat() -> None:
    """A curve that settles, or few samples, must not look like evidence."""
    sure = slopes.Slope(mean=10.0, per_hour=0.0, low=-1.0, high=1.0, blocks=20, independent=20.0)
    wide = slopes.Slope(mean=10.0, per_hour=0.0, low=-9.0, high=9.0, blocks=20, independent=3.0)
    grows = slopes.Slope(mean=10.0, per_hour=5.0, low=4.0, high=6.0, blocks=20, independent=20.0)
    assert [each.verdict for each in (sure, wide, grows)] == ["flat", "unsure", "GROWS"]


def test_a_growth_without_weight_is_flat() -> None:
    """A few bytes an hour, however sure, are nothing to worry about."""
    slope = slopes.fit(_samples(per_hour=0.1, noise=0.0), 300, 600)
    assert slope is not None
    assert slope.low > 0
    assert slope.is_flat


def test_levels_of_spans_are_no_growth() -> None:
    """A process started anew, or that leads now, has another level, which says nothing of its slope."""
    made = [slopes.Sample(n * 10.0, 100.0 if n < 360 else 150.0, "one" if n < 360 else "two") for n in range(720)]
    slope = slopes.fit(made, 300, 600)
    assert slope is not None
    assert slope.per_hour == pytest.approx(0.0)


def test_the_beginning_of_a_span_is_left_out() -> None:
    """Caches fill at first."""
    made = [slopes.Sample(n * 10.0, min(n, 50) * 2.0, "one") for n in range(720)]
    slope = slopes.fit(made, 300, 600)
    assert slope is not None
    assert slope.is_flat


def test_few_samples_say_nothing() -> None:
    """Without enough blocks there is no slope, rather than one of any size."""
    assert slopes.fit(_samples(per_hour=0.0, noise=1.0)[:100], 300, 600) is None
    assert slopes.fit([], 300, 600) is None
