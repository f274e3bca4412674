"""Whether a quantity grows: a line fitted to its samples, with the confidence interval of its slope.

Samples that follow each other are not independent, so they are averaged over blocks of time first. Where a quantity
moves in steps that last, such as a pool of threads, blocks are not independent either: a line that follows a few steps
would look sure. So the residuals' own correlation says how many independent blocks there are.

A process that is replaced starts at a level of its own, as does one that becomes the leader: each such span has its own
level, and all of a quantity's spans share one slope.

Source: Santer et al., Statistical significance of trends and trend differences in layer-average atmospheric temperature
time series, Journal of Geophysical Research 105 (2000), for the number of independent blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

_Values = npt.NDArray[np.float64]

CONFIDENCE = 0.99
"""The confidence of an interval. Dozens of quantities are judged, so one in twenty would be wrong too often."""

TOLERATED_GROWTH_PER_DAY = 0.1
"""The share of the mean. What grows by less in a day is flat: allocators and tables settle for hours."""

MOST_CORRELATION = 0.95

LEAST_BLOCKS = 3
"""The number of blocks of a span; a shorter one has no meaningful slope."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a quantity.

    `span` names the time in which its level is the same, such as one process between two changes of the leader.
    """

    seconds: float
    value: float
    span: str


@dataclass(frozen=True, slots=True)
class Slope:
    """A fitted slope.

    `mean` is that of all samples, in the quantity's unit; `per_hour` and the ends of its confidence interval are in
    that unit an hour. `blocks` says to how many averages the line was fitted.
    """

    mean: float
    per_hour: float
    low: float
    high: float
    blocks: int
    independent: float

    @property
    def is_flat(self) -> bool:
        """Whether no growth is proven, or only one that is small even after a day."""
        return self.low <= 0 or self.low * 24 <= TOLERATED_GROWTH_PER_DAY * abs(self.mean)

    @property
    def verdict(self) -> str:
        """`flat`, `GROWS`, or `unsure`: growth is not proven, but half the mean an hour is not ruled out either."""
        if not self.is_flat:
            return "GROWS"
        return "unsure" if self.high > 0.5 * abs(self.mean) else "flat"


def fit(
    samples: Sequence[Sample], block_seconds: float, settling_seconds: float, confidence: float = CONFIDENCE
) -> Slope | None:
    """The common slope of all spans, or None if there are too few samples for one.

    The first `settling_seconds` of each span are left out, and so is what does not fill a block.
    """
    by_span: dict[str, list[Sample]] = {}
    for sample in samples:
        by_span.setdefault(sample.span, []).append(sample)
    hours: list[_Values] = []
    values: list[_Values] = []
    for of_span in by_span.values():
        blocks = _blocks(of_span, block_seconds, settling_seconds)
        if len(blocks) >= LEAST_BLOCKS:
            # Taking each span's own mean away is what a level of its own amounts to.
            at = np.array([moment for moment, _ in blocks]) / 3600
            average = np.array([value for _, value in blocks])
            hours.append(at - at.mean())
            values.append(average - average.mean())
    count = sum(map(len, hours))
    if count - len(hours) - 1 < 1:
        return None
    spread = sum(float(x @ x) for x in hours)
    per_hour = sum(float(x @ y) for x, y in zip(hours, values, strict=True)) / spread
    residuals = [y - per_hour * x for x, y in zip(hours, values, strict=True)]
    correlation = _correlation(residuals)
    independent = count * (1 - correlation) / (1 + correlation)
    degrees = max(independent - len(hours) - 1, 1.0)
    error = float(np.sqrt(sum(float(each @ each) for each in residuals) / degrees / spread))
    margin = float(stats.t.ppf((1 + confidence) / 2, degrees)) * error
    mean = float(np.mean([sample.value for sample in samples]))
    return Slope(mean, per_hour, per_hour - margin, per_hour + margin, count, independent)


def _correlation(residuals: Sequence[_Values]) -> float:
    """How much a residual predicts the next one, from 0 to `MOST_CORRELATION`."""
    squares = sum(float(each @ each) for each in residuals)
    if not squares:
        return 0.0
    found = sum(float(each[1:] @ each[:-1]) for each in residuals) / squares
    return min(max(found, 0.0), MOST_CORRELATION)


def _blocks(samples: Sequence[Sample], block_seconds: float, settling_seconds: float) -> list[tuple[float, float]]:
    """Mean time and mean value of each full block of one span."""
    begin = samples[0].seconds + settling_seconds
    full = int((samples[-1].seconds - begin) / block_seconds)
    blocks: list[list[Sample]] = [[] for _ in range(max(full, 0))]
    for sample in samples:
        number = int((sample.seconds - begin) // block_seconds)
        if 0 <= number < full:
            blocks[number].append(sample)
    return [
        (float(np.mean([s.seconds for s in block])), float(np.mean([s.value for s in block])))
        for block in blocks
        if block
    ]
