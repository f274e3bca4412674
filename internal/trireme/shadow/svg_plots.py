"""Line plots as inline SVG: no script, no file, colours from the page's style sheet.

A plot has one or two series over the same times. The classes `there` and `here` colour them.

Tests: tests/unit/shadow/test_report.py.
"""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT = 460, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 10, 26
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its class in the style sheet, its name, and its values at the plot's times."""

    style: str
    name: str
    values: Sequence[float]


def plot(title: str, times: Sequence[float], series: Sequence[Series], label: Callable[[float], str]) -> str:
    """One plot as a figure. `times` in seconds since the start; `label` writes a value at the axis."""
    if len(times) < 2:
        return f"<figure><figcaption>{html.escape(title)}</figcaption><p class=empty>no samples yet</p></figure>"
    values = [value for each in series for value in each.values]
    ticks = _ticks(min(values), max(values))
    scale = _Scale(times[0], times[-1], ticks[0], ticks[-1])
    parts = [_tick(scale.y(tick), label(tick)) for tick in ticks]
    for at, anchor in ((times[0], "start"), ((times[0] + times[-1]) / 2, "middle"), (times[-1], "end")):
        text = html.escape(_time_text(at))
        parts.append(f'<text class=tick text-anchor={anchor} x="{scale.x(at):.1f}" y="{_HEIGHT - 8}">{text}</text>')
    for each in series:
        points = " ".join(
            f"{scale.x(at):.1f},{scale.y(value):.1f}" for at, value in zip(times, each.values, strict=True)
        )
        parts.append(f'<polyline class="line {each.style}" points="{points}"/>')
    newest = ", ".join(f"{each.name} {label(each.values[-1])}" for each in series)
    described = html.escape(f"{title}: at the end {newest}")
    return (
        f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img '
        f'aria-label="{described}">{"".join(parts)}</svg></figure>'
    )


def _tick(y: float, label: str) -> str:
    """A line of the grid with its value."""
    return (
        f'<line class=grid x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class=tick text-anchor=end x="{_LEFT - 6}" y="{y + 4:.1f}">{html.escape(label)}</text>'
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to the plot's coordinates."""

    first: float
    last: float
    low: float
    high: float

    def x(self, at: float) -> float:
        """The place of a time."""
        return _LEFT + (at - self.first) / (self.last - self.first) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The place of a value."""
        return _HEIGHT - _BOTTOM - (value - self.low) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)


def _ticks(low: float, high: float) -> list[float]:
    """Round values that enclose both, two or more."""
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else (min(0.0, low), max(0.0, high))
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _time_text(at: float) -> str:
    """A time since the start."""
    minutes, seconds = divmod(round(at), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
