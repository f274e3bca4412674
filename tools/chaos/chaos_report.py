"""A run as JSON, and runs of both sides as one table."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import statistics
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tools.bench.driver import report
from tools.chaos import chaos_checks, chaos_run, chaos_sides

TARGET_MARGIN_SECONDS = 2.0
"""Beyond the Lease's duration, for the longest gap."""

_JUST_BEFORE = 0.5
"""The last binding before a fault may be so much older. Units: seconds."""


def result(options: chaos_run.Options, outcome: chaos_run.Outcome, about: Mapping[str, Any]) -> dict[str, Any]:
    """A run as a document."""
    checks = outcome.checks
    faults = _faults(outcome)
    calm = [each["gap_s"] for each in faults if not each["outage"]]
    after = [each["gap_after_outage_s"] for each in faults if each["outage"]]
    kinds: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for each in faults:
        kinds[each["kind"]].append(each)
    return {
        **about,
        "side": options.side,
        "seed": options.seed,
        "faults_injected": len(faults),
        "lease_seconds": options.lease_seconds,
        "pods_per_second": options.pods_per_second,
        "interval_seconds": options.interval_seconds,
        "seconds": round(outcome.seconds, 1),
        "pods_created": checks.created,
        "pods_bound": checks.bound,
        "violations": {
            what: sum(each.what == what for each in checks.violations)
            for what in (chaos_checks.LOST, chaos_checks.TWICE, chaos_checks.OVERCOMMITTED)
        },
        "gaps": distribution(calm),
        "gaps_over_target": sum(gap > options.lease_seconds + TARGET_MARGIN_SECONDS for gap in calm),
        "gaps_after_outages": distribution(after),
        "longest_wait_s": round(checks.longest_wait, 1),
        "not_recovered": sum(each["recovered_s"] is None for each in faults) if not options.interval_seconds else 0,
        "kinds": {
            kind: {
                "count": len(found),
                **distribution([each["gap_after_outage_s" if each["outage"] else "gap_s"] for each in found]),
                "longest_wait_s": max(each["longest_wait_s"] for each in found),
                "recovery_s": _median([each["recovered_s"] for each in found if each["recovered_s"] is not None]),
            }
            for kind, found in sorted(kinds.items())
        },
        "violation_list": [dataclasses.asdict(each) for each in checks.violations],
        "exits": [dataclasses.asdict(each) for each in outcome.exits if not each.killed],
        "processor_pressure_percent": outcome.pressure_percent,
        "late_s": round(max((late for _, late in outcome.lateness), default=0.0), 2),
        "faults": faults,
    }


def distribution(values: Sequence[float]) -> dict[str, float | None]:
    """The median, the 99th percentile and the greatest."""
    if not values:
        return {"p50": None, "p99": None, "max": None}
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 2),
        "max": round(ordered[-1], 2),
    }


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 1) if values else None


def _faults(outcome: chaos_run.Outcome) -> list[dict[str, Any]]:
    """Each fault with the longest gap, and the longest wait of a pod, that began after it and before the next one."""
    starts = [each.start for each in outcome.injections]
    gaps, waits = _by_fault(starts, outcome.checks.gaps), _by_fault(starts, outcome.checks.waits)
    return [
        {
            **_fault(outcome, each, gaps[position]),
            "longest_wait_s": round(max((wait.seconds for wait in waits[position]), default=0.0), 2),
        }
        for position, each in enumerate(outcome.injections)
    ]


Span = TypeVar("Span", chaos_checks.Gap, chaos_checks.Wait)


def _by_fault(starts: Sequence[float], spans: Iterable[Span]) -> Mapping[int, list[Span]]:
    """The spans by the position of the last fault that began before they did, or just after."""
    found: dict[int, list[Span]] = collections.defaultdict(list)
    for span in spans:
        begun = bisect.bisect_right(starts, span.start + _JUST_BEFORE)
        if begun:
            found[begun - 1].append(span)
    return found


def _fault(outcome: chaos_run.Outcome, injection: chaos_run.Injection, gaps: list[chaos_checks.Gap]) -> dict[str, Any]:
    longest = max(gaps, key=lambda each: each.seconds, default=chaos_checks.Gap(injection.start, injection.start))
    outage = next((end for start, end in outcome.outages if longest.start < end and start < longest.end), None)
    late = [late for at, late in outcome.lateness if longest.start <= at <= longest.end + 1.0]
    return {
        "number": injection.fault.number,
        "fault": str(injection.fault),
        "kind": injection.fault.kind.name,
        "target": injection.target,
        "at": round(injection.start, 2),
        "gap_at": round(longest.start, 2),
        "gap_s": round(longest.seconds, 2),
        "outage": outage is not None,
        "gap_after_outage_s": None if outage is None else round(max(longest.end - outage, 0.0), 2),
        "recovered_s": None if injection.recovered is None else round(injection.recovered - injection.end, 2),
        "late_s": round(max(late, default=0.0), 2),
    }


BEGIN, END = "<!-- begin: make chaos -->", "<!-- end: make chaos -->"


def document(text: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """A document with the table of these results between its markers. Raises: ValueError where it has none."""
    facts = [
        f"{side}: commit `{each['commit'][:12]}`, {each['date']}, seed {each['seed']}, "
        f"Lease {each['lease_seconds']} s; "
        f"{each['seconds']:.0f} s, in {each['processor_pressure_percent']:.0f} % of which the machine was short of "
        f"processors ({each['machine']['cpus']} × {each['machine']['cpu']})."
        for side, each in sorted(results.items(), reverse=True)
    ]
    return report.between(text, BEGIN, END, "\n\n".join(facts) + "\n\n" + table(results))


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The runs of several sides beside each other."""
    sides = [side for side in (chaos_sides.TRIREME, chaos_sides.KUBE_SCHEDULER) if side in results]
    rows: list[tuple[str, ...]] = [("", *sides)]

    def row(title: str, value: Any) -> None:
        rows.append((title, *(str(value(results[side])) for side in sides)))

    row("faults", lambda each: each["faults_injected"])
    row("pods bound", lambda each: each["pods_bound"])
    row("pods lost", lambda each: each["violations"][chaos_checks.LOST])
    row("pods bound twice", lambda each: each["violations"][chaos_checks.TWICE])
    row("nodes overcommitted", lambda each: each["violations"][chaos_checks.OVERCOMMITTED])
    row("longest gap of a fault, s: p50 / p99 / max", lambda each: _three(each["gaps"]))
    common = set.intersection(*({each["kind"] for each in results[side]["faults"]} for side in sides))
    row("the same, of the kinds of faults that both sides have", lambda each: _three(_gaps_of(each["faults"], common)))
    row("gaps over the target", lambda each: each["gaps_over_target"])
    row(
        "after an outage of the API server or etcd, s: p50 / p99 / max", lambda each: _three(each["gaps_after_outages"])
    )
    row("longest wait of a pod, s", lambda each: each["longest_wait_s"])
    row("faults after which not all had recovered", lambda each: each["not_recovered"])
    row("processes that ended by themselves", lambda each: len(each["exits"]))
    for kind in sorted({kind for side in sides for kind in results[side]["kinds"]}):
        row(f"gap (and longest wait) at: {kind}", lambda each, kind=kind: _kind(each["kinds"].get(kind)))
    return "\n".join(_markdown(rows))


def _three(found: Mapping[str, float | None]) -> str:
    return " / ".join("–" if found[key] is None else f"{found[key]:.1f}" for key in ("p50", "p99", "max"))


def _gaps_of(faults: Iterable[Mapping[str, Any]], kinds: Container[str]) -> Mapping[str, float | None]:
    """The distribution of the gaps at faults of these kinds, without those of the API server's absence."""
    return distribution([each["gap_s"] for each in faults if each["kind"] in kinds and not each["outage"]])


def _kind(found: Mapping[str, Any] | None) -> str:
    if not found:
        return "–"
    wait = f"; {found['longest_wait_s']:.1f}" if "longest_wait_s" in found else ""
    return f"{_three(found)}{wait} ({found['count']})"


def _markdown(rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]
