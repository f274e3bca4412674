"""From moments to figures: rates, percentiles, medians and ranges.

Pure. The rates are totals over totals (all pods over all the time), never the mean of samples, which would make a
scheduler that stops and starts look faster than it is.

Also change: docs/performance.md.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """What was seen while measuring. All moments are of one clock, in seconds."""

    started: float
    """Just before the first measured pod was created, or the scheduler started, whichever is what is waited for."""
    created: float
    """When the last measured pod had been created."""
    bound: Sequence[float]
    """When each measured pod was first seen with a node; ascending."""
    complete: float
    """When the last write about them was seen: bindings, events and conditions."""
    event_lags: Sequence[float]
    """Seconds from seeing a pod bound to seeing its event, of the pods that have it."""
    events_behind: int
    """Events of measured pods that were not there when the last pod was bound."""
    waits: Sequence[float]
    """Seconds from sending a pod to seeing it bound, of the pods created while measuring."""
    cpu_s: Mapping[str, float]
    """Processor seconds by process of the scheduler, read after its last write: what is put off counts."""
    pss_mb: Mapping[str, float]
    """By process of the scheduler, after its last write."""
    others_cpu_s: Mapping[str, float]
    """Processor seconds of the driver, the API server, etcd and everything else on the machine (`elsewhere`)."""
    capacity_s: float
    """Processor seconds that the machine had to give in the same time."""
    idle_cpu_ms_per_s: float | None = None
    """Processor time of the scheduler while nothing happened afterwards, where the workload looks at that."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What one run of one workload by one side came to; None where it does not apply."""

    pods: int
    complete_pods_per_s: float | None
    """Until all that is written about them is there; None where events are missing."""
    events_behind: int
    """Missing when the last pod was bound."""
    events_missing: int
    """Not there at the end either."""
    event_lag_p99_ms: float | None
    """From seeing a pod bound to seeing its event."""
    event_lag_max_ms: float | None
    pods_per_s: float
    """Until the last pod is bound."""
    after_create_pods_per_s: float | None
    """After the last pod was created; None where fewer than a twentieth were left by then."""
    cpu_ms_per_pod: float
    pss_mb: float
    first_bind_s: float
    """From the start of the window to the first binding."""
    wait_p50_ms: float | None
    wait_p99_ms: float | None
    wait_max_ms: float | None
    processes: Mapping[str, Mapping[str, float]]
    """cpu_ms_per_pod and pss_mb by process."""
    others_cpu_ms_per_pod: Mapping[str, float]
    elsewhere_percent: float
    """How much of the machine was busy with what does not take part: where it is not near zero, the rates are low."""
    idle_cpu_ms_per_s: float | None


def figures(window: Window) -> Figures:
    """The figures of one window. Raises ValueError where nothing was bound."""
    count = len(window.bound)
    if count == 0:
        raise ValueError("no pod was bound")
    last = window.bound[-1]
    # Where all were created before, the rate is that of binding alone: without what comes before the first.
    reference = window.created if window.created > window.started else window.bound[0]
    late = sum(1 for moment in window.bound if moment > reference)
    after = late / (last - reference) if late >= max(count / 20, 2) else None
    waits, lags = sorted(window.waits), sorted(window.event_lags)
    missing = count - len(lags)
    return Figures(
        pods=count,
        complete_pods_per_s=None if missing else count / (max(window.complete, last) - window.started),
        events_behind=window.events_behind,
        events_missing=missing,
        event_lag_p99_ms=1000 * percentile(lags, 0.99) if lags else None,
        event_lag_max_ms=1000 * lags[-1] if lags else None,
        pods_per_s=count / (last - window.started),
        after_create_pods_per_s=after,
        cpu_ms_per_pod=1000 * sum(window.cpu_s.values()) / count,
        pss_mb=sum(window.pss_mb.values()),
        first_bind_s=window.bound[0] - window.started,
        wait_p50_ms=1000 * percentile(waits, 0.50) if waits else None,
        wait_p99_ms=1000 * percentile(waits, 0.99) if waits else None,
        wait_max_ms=1000 * waits[-1] if waits else None,
        processes={
            name: {"cpu_ms_per_pod": 1000 * spent / count, "pss_mb": window.pss_mb.get(name, 0.0)}
            for name, spent in window.cpu_s.items()
        },
        others_cpu_ms_per_pod={name: 1000 * spent / count for name, spent in window.others_cpu_s.items()},
        elsewhere_percent=100 * window.others_cpu_s.get("elsewhere", 0.0) / window.capacity_s,
        idle_cpu_ms_per_s=window.idle_cpu_ms_per_s,
    )


def percentile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    return ascending[max(math.ceil(share * len(ascending)) - 1, 0)]


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Several rounds of one figure."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float | None]) -> Spread | None:
    """Median and range of the rounds that have the figure, or None where none has."""
    present = [each for each in values if each is not None]
    return Spread(statistics.median(present), min(present), max(present)) if present else None
