"""The screen of `trireme top`, for 80 columns and 24 lines on."""

import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich import text
from textual import app, binding, containers, widgets

from trireme.cli import display, frontend_connection, top_figures

PERIOD_SECONDS = 1.0

_QUEUE = {
    "active": "active",
    "backoff": "back-off",
    "unschedulable": "unschedulable",
    "gated": "gated",
    "inFlight": "in flight",
    "binding": "binding",
}


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
    """
    BINDINGS: ClassVar[list[binding.BindingType]] = [
        binding.Binding("q", "quit", "Quit"),
        binding.Binding("s", "sort", "Sort"),
        binding.Binding("p", "pause", "Pause"),
    ]

    def __init__(self, fetch: Callable[[], Awaitable[display.Report]]) -> None:
        """`fetch` returns the status, or raises ReportUnavailable."""
        super().__init__()
        self._fetch = fetch
        self._history = top_figures.ReportHistory()
        self._report: display.Report | None = None
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
        """Begin to fetch."""
        self._pending_table().add_columns("PODS", "WAITING", "ATTEMPTS", "WHY", "EXAMPLE")
        self._replicas().add_columns("PHASE", "STATE", "ADDRESS")
        self._pending_table().focus()
        self.set_interval(PERIOD_SECONDS, self.refresh_report)
        self.call_later(self.refresh_report)

    async def refresh_report(self) -> None:
        """Fetch the status and show it; a failure is shown beside what is known."""
        if self._paused:
            return
        problem = self.query_one("#problem", widgets.Static)
        try:
            report = await self._fetch()
        except frontend_connection.ReportUnavailable as error:
            problem.update(text.Text(str(error), no_wrap=True, overflow="ellipsis"))
            problem.display = True
            return
        problem.display = False
        self._report = report
        self._show_figures(report, self._history.take(report, time.monotonic()))
        self._show_tables(report)

    def action_sort(self) -> None:
        """Sort pending pods by the next column."""
        self._sorting = (self._sorting + 1) % len(top_figures.SORTINGS)
        if self._report is not None:
            self._show_tables(self._report)

    def action_pause(self) -> None:
        """Stop fetching, or go on."""
        self._paused = not self._paused
        if self._report is not None:
            self._show_tables(self._report)

    def _show_figures(self, report: display.Report, figures: top_figures.Figures) -> None:
        """Show the lines above the tables."""
        leadership, cluster = report["leadership"], report["cluster"]
        leads = f"leads, epoch {leadership['epoch']}" if leadership["leading"] else "stands by"
        leader = f"{leads} · {cluster['nodes']} nodes · {cluster['pods']} pods · {report['pendingPods']} in the queue"
        self._line("#leader", f"trireme {report['version']['trireme']} {leader}")
        self._line(
            "#rates",
            f"bound {figures.bound:.1f}/s · refused {figures.unschedulable:.1f}/s · errors {figures.errors:.1f}/s · "
            f"latency p50 {top_figures.duration_text(figures.p50)} p99 {top_figures.duration_text(figures.p99)}",
        )
        queue = report["queue"]
        self._line("#queue", " · ".join(f"{name} {queue.get(key, 0)}" for key, name in _QUEUE.items()))
        self.query_one("#throughput", widgets.Sparkline).data = list(figures.throughput) or [0.0]

    def _show_tables(self, report: display.Report) -> None:
        """Show pending pods and replicas; the cursor stays in its row."""
        paused = ", paused" if self._paused else ""
        self._line("#pending-title", f"Pending pods by {top_figures.SORTINGS[self._sorting]}{paused}")
        pending, at = self._pending_table(), self._pending_table().cursor_row
        pending.clear()
        for row in top_figures.pending_rows(report, top_figures.SORTINGS[self._sorting]):
            pending.add_row(*(text.Text(cell) for cell in row))
        if pending.row_count:
            pending.move_cursor(row=min(at, pending.row_count - 1))
        replicas = self._replicas()
        replicas.clear()
        for phase, state, address, well in top_figures.replica_rows(report):
            style = display.GOOD if well else display.BAD
            replicas.add_row(text.Text(phase), text.Text(state, style), text.Text(address))

    def _line(self, selector: str, content: str) -> None:
        """Show a line of text, cut off where the screen ends."""
        self.query_one(selector, widgets.Static).update(text.Text(content, no_wrap=True, overflow="ellipsis"))

    def _pending_table(self) -> "widgets.DataTable[text.Text]":
        """The table of pending pods."""
        return self.query_one("#pending", widgets.DataTable)

    def _replicas(self) -> "widgets.DataTable[text.Text]":
        """The table of replicas and plugins."""
        return self.query_one("#replicas", widgets.DataTable)
