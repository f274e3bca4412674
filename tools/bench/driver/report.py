"""What a benchmark hands on: `build/bench.json` and tables made from it.

The file is the truth and every table is rendered from it, so what a document shows can be made again. Its rows are
medians over the rounds with their ranges beside them; the single runs are in it too.

Also change: docs/performance.md.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.bench.driver import figures

FIGURES = (
    "complete_pods_per_s",
    "events_behind",
    "events_missing",
    "event_lag_p99_ms",
    "event_lag_max_ms",
    "pods_per_s",
    "after_create_pods_per_s",
    "cpu_ms_per_pod",
    "pss_mb",
    "first_bind_s",
    "wait_p50_ms",
    "wait_p99_ms",
    "wait_max_ms",
    "elsewhere_percent",
    "idle_cpu_ms_per_s",
)
NODES = 5000
"""Of rows that name none."""
PLOTTED = "kinds"
"""The workload whose sizes are in the plot alone."""
BEGIN, END = "<!-- results: made by tools/bench/run.py --render -->", "<!-- /results -->"
OURS, LIMIT, REFERENCE, REFERENCE_WORKLOAD = "trireme", "limit", "kube-scheduler", "basic"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One round of one workload by one side."""

    side: str
    workload: str
    variant: str
    nodes: int
    round: int
    figures: figures.Figures | None
    """None where the run failed."""
    error: str | None
    took_s: float
    """How long it took, cluster and all."""


def rows(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """One row per side and workload: each figure's median over the rounds, and its range beside it."""
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.workload, run.variant, run.side), []).append(run)
    return [_row(group) for group in groups.values()]


def _row(group: Sequence[Run]) -> dict[str, Any]:
    done = [run.figures for run in group if run.figures is not None]
    row: dict[str, Any] = {
        "side": group[0].side,
        "workload": group[0].workload,
        "variant": group[0].variant,
        "nodes": group[0].nodes,
        "rounds": len(done),
        "errors": [run.error for run in group if run.error],
        "pods": done[0].pods if done else 0,
    }
    for name in FIGURES:
        spread = figures.spread([getattr(each, name) for each in done])
        row[name] = None if spread is None else round(spread.median, 3)
        row[name + "_range"] = None if spread is None else [round(spread.low, 3), round(spread.high, 3)]
    row["processes"] = {
        process: {
            figure: round(statistics.median(each.processes.get(process, {}).get(figure, 0.0) for each in done), 3)
            for figure in ("cpu_ms_per_pod", "pss_mb")
        }
        for process in (done[0].processes if done else ())
    }
    row["others_cpu_ms_per_pod"] = {
        other: round(statistics.median(each.others_cpu_ms_per_pod[other] for each in done), 3)
        for other in (done[0].others_cpu_ms_per_pod if done else ())
    }
    return row


def grouped(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with those of a workload together, by size and side, so that a reader has them beside each other."""
    order = {workload: number for number, workload in enumerate(dict.fromkeys(row["workload"] for row in rows))}
    return sorted(rows, key=lambda row: (order[row["workload"]], row["nodes"], row["variant"], row["side"]))


def find(rows: Sequence[Mapping[str, Any]], **wanted: str | int) -> Mapping[str, Any] | None:
    """The first row with these values, if it was run."""
    return next((row for row in rows if all(row[key] == value for key, value in wanted.items())), None)


def ratio(row: Mapping[str, Any], reference: Mapping[str, Any] | None, figure: str) -> float | None:
    """A figure of one row over that of another."""
    if reference is None or row[figure] is None or not reference[figure]:
        return None
    return float(row[figure]) / float(reference[figure])


COLUMNS = (
    "workload",
    "nodes",
    "side",
    "complete pods/s",
    "range",
    "of limit",
    "events behind",
    "event p99 ms",
    "bound pods/s",
    "after creation",
    "CPU ms/pod",
    "of kube-scheduler, basic",
    "PSS MB",
    "first bind s",
    "wait p50 ms",
    "p99 ms",
    "max ms",
    "idle CPU ms/s",
    "elsewhere %",
)


def table(bench_rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table with ratios: complete pods/s to the limit, CPU to kube-scheduler's on `basic`."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS)]
    for row in bench_rows:
        limit = find(bench_rows, side=LIMIT, workload=row["workload"], variant=row["variant"])
        reference = find(bench_rows, side=REFERENCE, workload=REFERENCE_WORKLOAD, nodes=row["nodes"])
        span = row["complete_pods_per_s_range"]
        lines.append(
            (
                row["workload"],
                str(row["nodes"]),
                row["side"],
                _complete(row),
                "–".join(_number(each) for each in span) if span else "",
                _number(ratio(row, limit, "complete_pods_per_s"), 2),
                _number(row["events_behind"]),
                _number(row["event_lag_p99_ms"]),
                _number(row["pods_per_s"]),
                _number(row["after_create_pods_per_s"]),
                _number(row["cpu_ms_per_pod"], 2),
                _number(ratio(row, reference, "cpu_ms_per_pod"), 2),
                _number(row["pss_mb"]),
                _number(row["first_bind_s"], 2),
                _number(row["wait_p50_ms"], 1),
                _number(row["wait_p99_ms"], 1),
                _number(row["wait_max_ms"], 1),
                _number(row.get("idle_cpu_ms_per_s"), 1),
                _number(row["elsewhere_percent"], 1),
            )
        )
    return aligned(lines)


def _complete(row: Mapping[str, Any]) -> str:
    if not row["rounds"]:
        return "failed"
    if row["complete_pods_per_s"] is None:
        return f"{_number(row['events_missing'])} events missing"
    return _number(row["complete_pods_per_s"])


def processes_table(bench_rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the processor time of a pod goes: by process of the scheduler, and the others' beside it."""
    lines = [("workload", "nodes", "side", "process", "CPU ms/pod", "PSS MB"), ("---",) * 6]
    for row in bench_rows:
        for process, spent in row["processes"].items():
            lines.append(
                (
                    row["workload"],
                    str(row["nodes"]),
                    row["side"],
                    process,
                    _number(spent["cpu_ms_per_pod"], 2),
                    _number(spent["pss_mb"]),
                )
            )
        for other, spent in row["others_cpu_ms_per_pod"].items():
            lines.append((row["workload"], str(row["nodes"]), row["side"], f"({other})", _number(spent, 2), ""))
    return aligned(lines)


def comparison_table(bench_rows: Sequence[Mapping[str, Any]]) -> str:
    """Trireme beside kube-scheduler, a row for each workload that both ran: theirs after ours, with the ratio."""
    lines = [
        ("workload", "complete pods/s", "ratio", "CPU ms/pod", "ratio", "wait p50, p99 (s)", "PSS MB"),
        ("---",) * 7,
    ]
    for ours in bench_rows:
        theirs = find(bench_rows, side=REFERENCE, workload=ours["workload"], variant=ours["variant"])
        if ours["side"] != OURS or theirs is None or not ours["rounds"] or not theirs["rounds"]:
            continue
        if ours["workload"] == PLOTTED:
            continue
        kind = "" if ours["variant"] == f"{NODES}Nodes" else f" {ours['variant']}"
        lines.append(
            (
                f"`{ours['workload']}`{kind}, {ours['pods']:,} pods",
                f"{_with_range(ours, 'complete_pods_per_s', 0)}, {_with_range(theirs, 'complete_pods_per_s', 0)}",
                _number(ratio(ours, theirs, "complete_pods_per_s"), 2),
                f"{_with_range(ours, 'cpu_ms_per_pod', 2)}, {_with_range(theirs, 'cpu_ms_per_pod', 2)}",
                _number(ratio(ours, theirs, "cpu_ms_per_pod"), 2),
                "; ".join(_waits(row) for row in (ours, theirs)),
                f"{_number(ours['pss_mb'])}, {_number(theirs['pss_mb'])}",
            )
        )
    return aligned(lines)


def _with_range(row: Mapping[str, Any], figure: str, digits: int) -> str:
    """The median, with the range where there are several rounds."""
    middle, span = _number(row[figure], digits), row[figure + "_range"]
    if row["rounds"] < 2 or span is None:
        return middle
    return f"{middle} ({_number(span[0], digits)}–{_number(span[1], digits)})"


def _waits(row: Mapping[str, Any]) -> str:
    return ", ".join("" if row[name] is None else f"{row[name] / 1000:.2f}" for name in ("wait_p50_ms", "wait_p99_ms"))


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table that reads well unrendered too."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "| "
        + " | ".join(
            "-" * width if cell == "---" else cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        )
        + " |"
        for line in lines
    )


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def document(text: str, bench: Mapping[str, Any]) -> str:
    """A document with what stands between its result markers replaced. Raises ValueError where it has none."""
    machine, versions = bench["machine"], bench["versions"]
    rounds = max((row["rounds"] for row in bench["rows"]), default=bench["rounds"])
    facts = (
        f"Commit `{bench['commit'][:12]}`, {bench['date']}, {rounds} alternating rounds (one where there is no range), "
        f"{NODES:,} nodes; "
        f"{machine['cpus']} × {machine['cpu']}, {machine['memory_gb']} GB, Linux {machine['kernel']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ". Trireme's figure is first, kube-scheduler's second."
    )
    return between(text, BEGIN, END, f"{facts}\n\n{comparison_table(bench['rows'])}")


def between(text: str, begin: str, end: str, content: str) -> str:
    """A document with what stands between two markers replaced. Raises ValueError where it does not have them."""
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the document has no {begin!r} … {end!r}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"
