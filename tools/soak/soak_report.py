"""What a soak says: a table of slopes, and a plot.

Also change: internal/trireme_kube/componentbase/event_loop.py (names of processes and their metrics).
Also change: internal/trireme/frontend/serving/metrics_collector.py (the metrics).
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from tools.soak import slopes

Series = Mapping[str, Sequence[slopes.Sample]]
"""Samples by the name of the quantity, which begins with that of its process."""

_MIB = 1 << 20

_PANELS = {
    "private memory, MiB": "private memory",
    "file descriptors": "file descriptors",
    "tasks of the event loop": "trireme_event_loop_tasks",
    "classes of pods": "classes",
    "objects in the leader's cache": "scheduler_cache_size",
    "p99 from creation to binding, ms": "p99",
}
"""Title of a plot → the part of a quantity's name that belongs to it."""


_FOLLOWERS = ("filter", "score")
"""The processes that begin anew with each leader, which sends them the whole cluster."""


def judge(
    series: Series,
    block_seconds: float,
    settling_seconds: float,
    *,
    of_all: bool = False,
    memory_settling_seconds: Mapping[str, float] | None = None,
) -> dict[str, slopes.Slope]:
    """The slope of each quantity that is not always the same.

    With `of_all`, all intervals together have the confidence of one: of hundreds, some would be beyond it by chance.
    `memory_settling_seconds`: for how long the memory of a new process of a kind grows, if that is longer. What another
    leader has it drop, it fills again without growing.
    """
    found = {}
    leaders = _leaders(series)
    changing = {name: samples for name, samples in series.items() if len({sample.value for sample in samples}) > 1}
    confidence = 1 - (1 - slopes.CONFIDENCE) / (max(len(changing), 1) if of_all else 1)
    for name, samples in changing.items():
        if name.startswith(_FOLLOWERS):
            samples = [dataclasses.replace(each, span=f"{each.span} {leaders.get(each.seconds)}") for each in samples]
        if name.endswith("private memory"):
            longer = (memory_settling_seconds or {}).get(name.partition("-")[0], settling_seconds)
            samples = _later(samples, longer - settling_seconds)
        slope = slopes.fit(samples, block_seconds, settling_seconds, confidence)
        if slope is not None:
            found[name] = slope
    return found


def _later(samples: Sequence[slopes.Sample], seconds: float) -> Sequence[slopes.Sample]:
    """Those that are so much later than the first one of the same process, by whose number a span begins."""
    first: dict[str, float] = {}
    return [each for each in samples if each.seconds >= first.setdefault(each.span.split()[0], each.seconds) + seconds]


def _leaders(series: Series) -> Mapping[float, str]:
    """Who leads at the time of each sample, as its name and span say, which end with that."""
    return {
        each.seconds: f"{name.partition(':')[0]} {each.span}"
        for name, samples in series.items()
        for each in samples
        if each.span.endswith(" leads")
    }


def table(judged: Mapping[str, slopes.Slope]) -> str:
    """A line for each quantity, those that grow first."""
    lines = ["| quantity | mean | slope an hour | 99 % interval | |", "| --- | --- | --- | --- | --- |"]
    for name, slope in sorted(judged.items(), key=lambda item: (item[1].is_flat, item[0])):
        unit = _MIB if "private memory" in name or name.endswith("_bytes") else 1
        figures = [f"{value / unit:.4g}" for value in (slope.mean, slope.per_hour, slope.low, slope.high)]
        what = f"{name}{', MiB' if unit == _MIB else ''}"
        lines.append(f"| {what} | {figures[0]} | {figures[1]} | {figures[2]} to {figures[3]} | {slope.verdict} |")
    return "\n".join(lines)


def plot(series: Series, file: pathlib.Path) -> None:
    """Write the quantities that a reader looks for first, over time, as SVG."""
    mpl.rcParams["svg.hashsalt"] = "soak"
    figure = Figure(figsize=(10, 9), layout="constrained")
    for axes, (title, part) in zip(figure.subplots(3, 2).flat, _PANELS.items(), strict=True):
        for name, samples in series.items():
            if part in name:
                unit = _MIB if part == "private memory" else 1
                hours = [sample.seconds / 3600 for sample in samples]
                label = name.removesuffix(part).strip(": ")
                axes.plot(hours, [sample.value / unit for sample in samples], linewidth=0.8, label=label)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("hours", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8)
        if len(axes.lines) > 1:
            axes.legend(fontsize=6)
    figure.savefig(file, metadata={"Date": None})
