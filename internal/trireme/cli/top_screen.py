"""The screen of `trireme top`, for 80 columns and 24 lines on.

Tests: tests/unit/cli/test_top.py.
"""

import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich import text
from textual import app, binding, containers, widgets

from trireme.cli import display, frontend_connection, status_command, top_figures, top_tables
from trireme.v1.scheduler_explanation_pb2 import Leadership
from trireme.v1.scheduler_status_pb2 import SchedulerStatus
from trireme.wire import json_documents
from trireme_kube.componentbase import clocks

PERIOD_SECONDS = 1.0
# What is shown is marked as old where no answer came for so long: three answers are missing then.
OLD_SECONDS = 3.0

_PENDING = ("PODS", "WAITING", "ATTEMPTS", "EXAMPLE", "WHY")
_REPLICAS = ("PHASE", "STATE", "ADDRESS")


class TopScreen(app.App[None]):
    """Shows a frontend's status, fetched again each second."""

    TITLE = "trireme top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #leader, #rates, #queue, #problem { height: 1; padding: 0 1; }
    #problem { color: $error; display: none; }
    #throughput { height: 2; margin: 0 1; }
    .title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    #pending { height: 2fr; }
    #replicas { height: 1fr; min-height: 5; }
    DataTable { scrollbar-size: 1 1; }
    .old #leader, .old #rates, .old #queue, .old DataTable { text-opacity: 50%; }
    """
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("q", "quit", "Quit"),
        binding.Binding("s", "sort", "Sort"),
        binding.Binding("p", "pause", "Pause"),
    ]

    def __init__(
        self,
        fetch: Callable[[], Awaitable[display.Report]],
        first: display.Report | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetch` returns the status, or raises ReportUnavailable; `first` is shown before."""
        super().__init__()
        self._fetch = fetch
        self._clock = clock
        self._history = top_figures.ReportHistory()
        self._status = None if first is None else json_documents.parse(first, SchedulerStatus())
        # When the report came: by the clock, and as a time of day.
        self._answered = (clock(), _time_of_day())
        self._problem = ""
        self._fetching = False
        self._sorting = 0
        self._paused = False

    def compose(self) -> app.ComposeResult:
        """The widgets, from top to bottom."""
        yield widgets.Static(id="leader")
        yield widgets.Static(id="rates")
        yield widgets.Sparkline([], id="throughput")
        yield widgets.Static(id="queue")
        yield widgets.Static(id="problem")
        with containers.Vertical():
            yield widgets.Static("Pending pods", classes="title", id="pending-title")
            yield widgets.DataTable(id="pending", cursor_type="row", zebra_stripes=False)
            yield widgets.Static("Replicas and plugins", classes="title")
            yield widgets.DataTable(id="replicas", cursor_type="none")
        yield widgets.Footer()

    def on_mount(self) -> None:
        """Show the first report, and begin to fetch."""
        self._pending_table().focus()
        self._line("#leader", "no answer yet")
        if self._status is not None:
            self._show_status(self._status)
        self.set_interval(PERIOD_SECONDS, self.begin_fetching)
        self.begin_fetching()

    def begin_fetching(self) -> None:
        """Fetch the status beside the screen, which answers keys meanwhile; and say how old is what is shown."""
        if not self.is_running:
            return  # it closes, and its widgets go
        self._show_age()
        if not self._fetching and not self._paused:
            self._fetching = True
            self.run_worker(self.refresh_report())

    async def refresh_report(self) -> None:
        """Fetch the status and show it; a failure is shown beside what is known."""
        if self._paused:
            self._fetching = False
            return
        try:
            status = json_documents.parse(await self._fetch(), SchedulerStatus())
        except frontend_connection.ReportUnavailable as error:
            self._problem = str(error)
        else:
            self._problem, self._status = "", status
            self._answered = (self._clock(), _time_of_day())
        finally:
            self._fetching = False
        if self.is_running:
            if not self._problem:
                self._show_status(status)
            self._show_age()

    def _show_age(self) -> None:
        """Mark what is shown as old, if no answer came for a while, or the last request failed.

        What is not old has in this line what fails or warns at /readyz.
        """
        age, since = self._clock() - self._answered[0], self._answered[1]
        old = bool(self._problem) or (age >= OLD_SECONDS and not self._paused)
        self.screen.set_class(old, "old")
        line = "" if self._status is None else readiness_text(self._status)
        if old:
            line = f"This is of {since}, {display.age_text(0, age)} ago: {self._problem or 'no answer'}"
        self.query_one("#problem", widgets.Static).display = bool(line)
        self._line("#problem", line)

    def action_sort(self) -> None:
        """Sort pending pods by the next column."""
        self._sorting = (self._sorting + 1) % len(top_figures.SORTINGS)
        if self._status is not None:
            self._show_tables(self._status)

    def action_pause(self) -> None:
        """Stop fetching, or go on."""
        self._paused = not self._paused
        if self._status is not None:
            self._show_tables(self._status)
        self._show_age()

    def on_resize(self) -> None:
        """Show the tables in the new width."""
        if self._status is not None:
            self._show_tables(self._status)

    def _show_status(self, status: SchedulerStatus) -> None:
        self._show_figures(status, self._history.take(status, self._clock()))
        self._show_tables(status)

    def _show_figures(self, status: SchedulerStatus, figures: top_figures.Figures) -> None:
        """Show the lines above the tables."""
        leadership, cluster = status.leadership, status.cluster
        leads = f"leads, epoch {leadership.epoch}" if leadership.leading else standby_text(leadership)
        leader = f"{leads} · {cluster.nodes} nodes · {cluster.pods} pods · {status.pending_pods} in the queue"
        self._line("#leader", f"trireme {status.version} {leader}")
        self._line(
            "#rates",
            f"bound {figures.bound:.1f}/s · refused {figures.unschedulable:.1f}/s · errors {figures.errors:.1f}/s · "
            f"latency p50 {top_figures.duration_text(figures.p50)} p99 {top_figures.duration_text(figures.p99)}",
        )
        queue = status_command.queue_counts(status)
        self._line("#queue", " · ".join(f"{name} {count}" for name, count in queue.items()))
        self.query_one("#throughput", widgets.Sparkline).data = list(figures.throughput) or [0.0]

    def _show_tables(self, status: SchedulerStatus) -> None:
        """Show pending pods and replicas; the cursor stays in its row."""
        paused = ", paused" if self._paused else ""
        sorting = top_figures.SORTINGS[self._sorting]
        self._line("#pending-title", f"Pending pods by {sorting}{paused}: trireme explain EXAMPLE says more")
        columns = self.size.width
        pending = top_figures.pending_rows(status, sorting)
        top_tables.fill(self._pending_table(), _PENDING, pending, columns, right=_PENDING[:3], wrapped="WHY")
        replicas = top_figures.replica_rows(status)
        cells = [(phase, state, address) for phase, state, address, _ in replicas]
        styles = [display.GOOD if well else display.BAD for *_, well in replicas]
        top_tables.fill(self._replicas(), _REPLICAS, cells, columns, right=(), wrapped="STATE", styles=styles)

    def _line(self, selector: str, content: str) -> None:
        """Show a line of text, cut off where the screen ends."""
        self.query_one(selector, widgets.Static).update(text.Text(content, no_wrap=True, overflow="ellipsis"))

    def _pending_table(self) -> "widgets.DataTable[text.Text]":
        return self.query_one("#pending", widgets.DataTable)

    def _replicas(self) -> "widgets.DataTable[text.Text]":
        return self.query_one("#replicas", widgets.DataTable)


def readiness_text(status: SchedulerStatus) -> str:
    """The first check of /readyz that fails, or else warns, of how many; empty: none does."""
    failing, warning = status_command.readiness_lines(status)
    lines = [*failing, *warning]
    if not lines:
        return ""
    of_all = f" (1 of {len(lines)} in trireme status)" if len(lines) > 1 else ""
    return f"{'Not ready' if failing else 'Warning'}{of_all}: {lines[0]}"


def standby_text(leadership: Leadership) -> str:
    """That the frontend stands by, and for whom."""
    return f"stands by, {leadership.holder} leads" if leadership.holder else "stands by, nobody leads"


def _time_of_day() -> str:
    return time.strftime("%H:%M:%S", time.localtime(clocks.wall()))
