"""The figures of `trireme top`: rates and latencies from what the status page counts since the start.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).

Tests: tests/unit/cli/test_top.py.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trireme.cli import display
from trireme.insight.console import scheduler_history
from trireme.v1.scheduler_explanation_pb2 import AlikePods
from trireme.v1.scheduler_status_pb2 import SchedulerStatus

HISTORY = 120
# Latencies are those of the pods bound within so many reports.
_LATENCY_REPORTS = 30

SORTINGS = ("pods", "waiting", "attempts")


@dataclass(frozen=True, slots=True)
class Figures:
    """What the last reports say. Units: per second; seconds, None where no pod was bound."""

    bound: float
    unschedulable: float
    errors: float
    p50: float | None
    p99: float | None
    throughput: Sequence[float]


class ReportHistory:
    """The last reports of a frontend; `take` adds one."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, SchedulerStatus]] = deque(maxlen=_LATENCY_REPORTS + 1)
        self._throughput: deque[float] = deque(maxlen=HISTORY)
        self._rates = (0.0, 0.0, 0.0)

    def take(self, status: SchedulerStatus, now: float) -> Figures:
        """The figures with this report, which came at `now` in monotonic seconds.

        A frontend that was started again counts anew: then the history begins anew, too.
        """
        if self._reports:
            before_at, before = self._reports[-1]
            if status.bound_total < before.bound_total:
                self._reports.clear()
            else:
                seconds = max(now - before_at, 0.001)
                self._rates = (
                    (status.bound_total - before.bound_total) / seconds,
                    (status.unschedulable_total - before.unschedulable_total) / seconds,
                    (status.error_total - before.error_total) / seconds,
                )
                self._throughput.append(self._rates[0])
        self._reports.append((now, status))
        oldest = self._reports[0][1].pod_latency.counts
        within = [newest - old for newest, old in zip(status.pod_latency.counts, oldest, strict=True)]
        bounds = status.pod_latency.bounds_s
        return Figures(
            *self._rates,
            p50=scheduler_history.quantile(bounds, within, 0.5),
            p99=scheduler_history.quantile(bounds, within, 0.99),
            throughput=tuple(self._throughput),
        )


def duration_text(seconds: float | None) -> str:
    """A duration in a few characters."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"


def pending_rows(status: SchedulerStatus, sorting: str) -> list[tuple[str, str, str, str, str]]:
    """Pending pods that wait for the same, as cells: how many, since when, attempts, an example, why."""
    keys: Mapping[str, Callable[[AlikePods], int]] = {
        "pods": lambda alike: -alike.count,
        "waiting": lambda alike: alike.waiting_since_ms,
        "attempts": lambda alike: -alike.max_attempts,
    }
    return [
        (
            str(alike.count),
            display.age_text(alike.waiting_since_ms / 1000),
            str(alike.max_attempts),
            f"{alike.example.namespace}/{alike.example.name}",
            _why(alike),
        )
        for alike in sorted(status.pending_alike, key=keys[sorting])
    ]


def _why(alike: AlikePods) -> str:
    """The reason in a few words; of a refused pod without the events that may help, which `trireme explain` lists."""
    waits = alike.waits_for
    return f"was refused by {', '.join(waits.plugins)}" if waits.kind == "event" else alike.summary


def replica_rows(status: SchedulerStatus) -> list[tuple[str, str, str, bool]]:
    """Replicas of the phases and remote plugins: phase, state, address, and whether all is well."""
    rows = []
    for replica in status.replicas:
        well = replica.in_step and not replica.stands_in
        state = "in step" if replica.in_step else f"not in step: {replica.last_error or 'it does not answer'}"
        rows.append((replica.phase, f"stands in, {state}" if replica.stands_in else state, replica.address, well))
    rows += [
        (plugin.name, f"{plugin.health}, breaker {plugin.breaker}", plugin.address, plugin.health == "ok")
        for plugin in status.plugins
    ]
    return rows
