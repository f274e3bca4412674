"""The figures of `trireme top`: rates and latencies from what the status page counts since the start."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.cli import display, status_command
from trireme.insight.console import scheduler_history
from trireme.v1.scheduler_explanation_pb2 import AlikePods

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
        self._reports: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=_LATENCY_REPORTS + 1)
        self._throughput: deque[float] = deque(maxlen=HISTORY)
        self._rates = (0.0, 0.0, 0.0)

    def take(self, report: display.Report, now: float) -> Figures:
        """The figures with this report, which came at `now` in monotonic seconds.

        A frontend that was started again counts anew: then the history begins anew, too.
        """
        performance = report["performance"]
        if self._reports:
            before_at, before = self._reports[-1]
            if performance["bound"] < before["bound"]:
                self._reports.clear()
            else:
                seconds = max(now - before_at, 0.001)
                names = ("bound", "unschedulable", "errors")
                bound, unschedulable, errors = ((performance[name] - before[name]) / seconds for name in names)
                self._rates = (bound, unschedulable, errors)
                self._throughput.append(bound)
        self._reports.append((now, performance))
        oldest = self._reports[0][1]["podCounts"]
        within = [newest - old for newest, old in zip(performance["podCounts"], oldest, strict=True)]
        bounds = performance["boundsSeconds"]
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


def pending_rows(report: display.Report, sorting: str) -> list[tuple[str, str, str, str, str]]:
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
        for alike in sorted(status_command.alike_pods(report), key=keys[sorting])
    ]


def _why(alike: AlikePods) -> str:
    """The reason in a few words; of a refused pod without the events that may help, which `trireme explain` lists."""
    waits = alike.waits_for
    return f"was refused by {', '.join(waits.plugins)}" if waits.kind == "event" else alike.summary


def replica_rows(report: display.Report) -> list[tuple[str, str, str, bool]]:
    """Replicas of the phases and remote plugins: phase, state, address, and whether all is well."""
    rows = []
    for phase, replicas in report["replicas"].items():
        for replica in replicas:
            well = replica["inStep"] and not replica.get("standsIn")
            state = "in step" if replica["inStep"] else f"not in step: {replica['lastError'] or 'it does not answer'}"
            rows.append((phase, f"stands in, {state}" if replica.get("standsIn") else state, replica["address"], well))
    for plugin in report["plugins"]:
        state = f"{plugin['health']}, breaker {plugin['breaker']}"
        rows.append((plugin["name"], state, plugin["address"], plugin["health"] == "ok"))
    return rows
