"""Plots of what a pod costs, beside kube-scheduler: by the number of kinds of pods, and by the number of nodes.

A table of a few sizes hides where a cost begins to grow.

Tests: tools/bench/test_bench_figures.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.bench.driver import report

_Rows = Sequence[Mapping[str, Any]]
Points = list[tuple[int, float, float]]
"""A size, and the CPU of a pod (ms) of Trireme and of kube-scheduler there."""


def points(rows: _Rows, workload: str, unit: str) -> Points:
    """Return the sizes of a workload that both sides ran, smallest first.

    `unit` is what the workload's variants are numbers of: `Kinds` for 100Kinds, `Nodes` for 500Nodes.
    """
    found = []
    for ours in rows:
        size = re.fullmatch(rf"(\d+){unit}", ours["variant"])
        if ours["side"] != report.OURS or ours["workload"] != workload or size is None:
            continue
        theirs = report.find(rows, side=report.REFERENCE, workload=workload, variant=ours["variant"])
        if theirs is not None and ours["cpu_ms_per_pod"] is not None and theirs["cpu_ms_per_pod"] is not None:
            found.append((int(size[1]), ours["cpu_ms_per_pod"], theirs["cpu_ms_per_pod"]))
    return sorted(found)


def write(rows: _Rows, file: Path) -> bool:
    """Write both plots as one SVG. Return False, and write nothing, where a plot would have fewer than two sizes."""
    by_kinds, by_nodes = points(rows, "kinds", "Kinds"), points(rows, "distinct", "Nodes")
    if min(len(by_kinds), len(by_nodes)) < 2:
        return False
    mpl.rcParams["svg.hashsalt"] = "bench"
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw(left, by_kinds, "kinds of pods, 5,000 nodes")
    _draw(right, by_nodes, "nodes, each pod of its own kind")
    left.set_ylabel("CPU of a pod, ms")
    left.legend()
    figure.savefig(file, metadata={"Date": None})
    return True


def _draw(axes: Axes, sizes: Points, label: str) -> None:
    """One plot, with the figure beside each point."""
    for side, column, above in ((report.OURS, 1, -12), (report.REFERENCE, 2, 6)):
        axes.plot([each[0] for each in sizes], [each[column] for each in sizes], marker="o", label=side)
        for each in sizes:
            beside = {"xytext": (0, above), "textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate(f"{each[column]:.2g}", (each[0], each[column]), **beside)
    axes.set_xscale("log")
    axes.set_xticks([each[0] for each in sizes], [f"{each[0]:,}" for each in sizes], fontsize=8)
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
