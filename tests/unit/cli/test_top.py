"""`trireme top`: its figures, and its screen by Textual's own driver, at 80 columns and 24 lines."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from textual import widgets

from trireme.cli import frontend_connection, main, top_command, top_figures, top_screen
from trireme.v1.scheduler_explanation_pb2 import Leadership
from trireme.v1.scheduler_status_pb2 import SchedulerStatus
from trireme.wire import json_documents
from trireme_kube.componentbase import clocks


def report(*, bound: int = 0, counts: Sequence[int] = (0, 0, 0), **more: Any) -> dict[str, Any]:
    """A status page, as far as it is read."""
    now = clocks.wall()
    alike = [
        {
            "count": 3,
            "waitingSinceMs": str(round((now - 50) * 1000)),
            "minAttempts": 1,
            "maxAttempts": 2,
            "example": {"namespace": "default", "name": "giant"},
            "summary": "Insufficient cpu",
        },
        {
            "count": 1,
            "waitingSinceMs": str(round((now - 500) * 1000)),
            "minAttempts": 9,
            "maxAttempts": 9,
            "example": {"namespace": "default", "name": "old"},
            "summary": "gated",
        },
    ]
    replicas = [
        {"phase": "filter", "address": "unix:/run/filter.sock", "inStep": True},
        {"phase": "bind", "address": "10.0.0.9:7003", "inStep": False, "lastError": "unreachable"},
    ]
    plugin = {"name": "quota", "address": "quota:9000", "health": "failing", "breaker": "open"}
    return {
        "version": "0.1.0",
        "leadership": {"leading": True, "epoch": 7},
        "cluster": {"nodes": 100, "pods": 60},
        "queue": {"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4, "inFlight": 5, "binding": 6},
        "boundTotal": bound,
        "podLatency": {"boundsS": [0.1, 1.0], "counts": list(counts)},
        "pendingAlike": alike,
        "pendingPods": 4,
        "replicas": replicas,
        "plugins": [plugin],
        **more,
    }


def status(*, bound: int = 0, counts: Sequence[int] = (0, 0, 0)) -> SchedulerStatus:
    """The same as a message."""
    return json_documents.parse(report(bound=bound, counts=counts), SchedulerStatus())


def test_rates_and_latencies_are_of_the_time_between_reports() -> None:
    """The numbers would be those since the start, which hardly change."""
    history = top_figures.ReportHistory()
    first = history.take(status(bound=100, counts=(100, 0, 0)), 10.0)
    assert (first.bound, first.p50, first.throughput) == (0.0, None, ())
    second = history.take(status(bound=120, counts=(100, 20, 0)), 12.0)
    assert (second.bound, second.throughput) == (10.0, (10.0,))
    assert second.p50 == pytest.approx(0.55)


def test_a_frontend_that_was_started_again_counts_anew() -> None:
    """There would be negative rates."""
    history = top_figures.ReportHistory()
    history.take(status(bound=100, counts=(100, 0, 0)), 10.0)
    assert history.take(status(bound=3, counts=(3, 0, 0)), 11.0).p50 is None
    again = history.take(status(bound=5, counts=(5, 0, 0)), 12.0)
    assert (again.bound, again.p50) == (2.0, pytest.approx(0.05))


@pytest.mark.parametrize(
    ("sorting", "first"), [("pods", "default/giant"), ("waiting", "default/old"), ("attempts", "default/old")]
)
def test_pending_pods_are_sorted(sorting: str, first: str) -> None:
    """What is most, oldest or tried most often would be out of sight."""
    assert top_figures.pending_rows(status(), sorting)[0][3] == first


def test_what_is_not_well_is_marked() -> None:
    """A phase out of step or an open breaker would look like the others."""
    assert top_figures.replica_rows(status()) == [
        ("filter", "in step", "unix:/run/filter.sock", True),
        ("bind", "not in step: unreachable", "10.0.0.9:7003", False),
        ("quota", "failing, breaker open", "quota:9000", False),
    ]


class Frontend:
    """Answers with growing counts, or not at all."""

    def __init__(self) -> None:
        self.fetched = 0
        self.problem = ""

    async def fetch(self) -> dict[str, Any]:
        if self.problem:
            raise frontend_connection.ReportUnavailable(self.problem)
        self.fetched += 1
        return report(bound=10 * self.fetched, counts=(10 * self.fetched, 0, 0))


def _line(screen: top_screen.TopScreen, selector: str) -> str:
    return str(screen.query_one(selector, widgets.Static).render())


def _cells(screen: top_screen.TopScreen, selector: str) -> list[list[str]]:
    table = screen.query_one(selector, widgets.DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


async def test_the_screen_shows_figures_and_tables_at_80_columns() -> None:
    """At the size that terminals have at first, something would be cut off or out of sight."""
    frontend = Frontend()
    screen = top_screen.TopScreen(frontend.fetch)
    async with screen.run_test(size=(80, 24)) as pilot:
        await screen.refresh_report()
        await screen.refresh_report()
        await pilot.pause()
        assert "leads, epoch 7 · 100 nodes · 60 pods · 4 in the queue" in _line(screen, "#leader")
        assert "latency p50 50ms p99 99ms" in _line(screen, "#rates")
        assert "unschedulable 3 · gated 4" in _line(screen, "#queue")
        assert [row[3] for row in _cells(screen, "#pending")] == ["default/giant", "default/old"]
        assert [row[0] for row in _cells(screen, "#replicas")] == ["filter", "bind", "quota"]
        for widget in screen.query("#leader, #rates, #queue, #pending, #replicas, Footer"):
            assert widget.region.height > 0
            assert widget.region.right <= 80
            assert widget.region.bottom <= 24


async def test_keys_sort_pause_and_quit() -> None:
    """The footer would name keys that do nothing."""
    frontend = Frontend()
    screen = top_screen.TopScreen(frontend.fetch)
    async with screen.run_test(size=(80, 24)) as pilot:
        await screen.refresh_report()
        await pilot.press("s")
        assert _line(screen, "#pending-title") == "Pending pods by waiting: trireme explain EXAMPLE says more"
        assert [row[3] for row in _cells(screen, "#pending")] == ["default/old", "default/giant"]
        await pilot.press("p")
        assert _line(screen, "#pending-title") == "Pending pods by waiting, paused: trireme explain EXAMPLE says more"
        before = frontend.fetched
        await screen.refresh_report()
        assert frontend.fetched == before
        await pilot.press("p")
        await screen.refresh_report()
        assert frontend.fetched > before
        await pilot.press("q")
    assert screen.return_code == 0


async def test_a_frontend_that_does_not_answer_is_said_so_and_what_is_known_stays() -> None:
    """Old numbers would be taken for those of now, or the screen end in a traceback."""
    frontend = Frontend()
    screen = top_screen.TopScreen(frontend.fetch)
    async with screen.run_test(size=(80, 24)) as pilot:
        await screen.refresh_report()
        frontend.problem = "no frontend listens on /tmp/x.sock"
        await screen.refresh_report()
        await pilot.pause()
        problem = screen.query_one("#problem", widgets.Static)
        assert problem.display
        assert frontend.problem in _line(screen, "#problem")
        assert len(_cells(screen, "#pending")) == 2
        frontend.problem = ""
        await screen.refresh_report()
        assert not problem.display


LONG = "default/a-pod-with-a-rather-long-name-as-operators-generate-them-in-real-life-7f9c6d5b8-x2x4q"


@pytest.mark.parametrize("columns", [80, 120])
async def test_each_reason_has_an_example_and_what_is_cut_off_ends_with_an_ellipsis(columns: int) -> None:
    """There is nothing to give to `trireme explain`, and a reason ends within a word as if it were all."""
    alike = {"count": 1, "minAttempts": 1, "maxAttempts": 1}
    failed = "backs off after a failed attempt: " + "the API server said no " * 20
    pending = [
        {
            **alike,
            "example": {"namespace": "default", "name": LONG.removeprefix("default/")},
            "summary": "was refused by NodeAffinity; is tried again when a node is added",
            "waitsFor": {"kind": "event", "plugins": ["NodeAffinity"]},
        },
        {
            **alike,
            "example": {"namespace": "default", "name": "failed"},
            "summary": failed,
            "waitsFor": {"kind": "time"},
        },
    ]
    long_state = {
        "phase": "filter",
        "address": "dns:///" + "n" * 90,
        "inStep": False,
        "lastError": "it does not answer " * 20,
    }
    shown = report(pendingAlike=pending, replicas=[long_state])

    async def fetch() -> dict[str, Any]:
        return shown

    screen = top_screen.TopScreen(fetch, shown)
    async with screen.run_test(size=(columns, 24)) as pilot:
        await pilot.pause()
        rows = _cells(screen, "#pending")
        assert rows[0][3].replace("\n", "") == LONG
        assert rows[0][4].replace("\n", " ") == "was refused by NodeAffinity"
        assert rows[1][4].endswith("…")
        assert _cells(screen, "#replicas")[0][1].endswith("…")
        for selector in ("#pending", "#replicas"):
            table = screen.query_one(selector, widgets.DataTable)
            assert table.virtual_size.width <= columns


async def test_a_first_answer_that_takes_long_is_waited_for_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """The screen stays blank for as long as a stopped frontend does not answer."""
    answer = asyncio.Event()

    async def fetch() -> dict[str, Any]:
        await answer.wait()
        return report()

    waiting = asyncio.create_task(top_command.first_report(fetch, "/run/x.sock", silent_seconds=0.0))
    printed = ""
    while not printed:
        await asyncio.sleep(0)
        printed = capsys.readouterr().err
    assert printed == "Waiting up to 10 s for the first answer of the frontend at /run/x.sock …\n"
    answer.set()
    assert (await waiting)["pendingPods"] == 4


async def test_the_first_report_is_on_the_screen_at_once() -> None:
    """The screen is blank until the second answer, which a slow frontend gives ten seconds later."""
    never = asyncio.Event()

    async def fetch() -> dict[str, Any]:
        await never.wait()
        return {}

    screen = top_screen.TopScreen(fetch, report())
    async with screen.run_test(size=(80, 24)):
        assert "leads, epoch 7" in _line(screen, "#leader")
        assert [row[3] for row in _cells(screen, "#pending")] == ["default/giant", "default/old"]


async def test_a_screen_that_closes_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who quits while the next second begins gets a traceback of widgets that are gone."""
    monkeypatch.setattr(top_screen, "PERIOD_SECONDS", 0.0005)
    screen = top_screen.TopScreen(Frontend().fetch, report())
    async with screen.run_test(size=(80, 24)):
        pass
    assert not screen.is_running


async def test_while_no_answer_comes_the_state_is_marked_as_old_and_keys_work() -> None:
    """For ten seconds an old state looks like the present one, and `q` does nothing."""
    now = 100.0
    asked, answer = asyncio.Event(), asyncio.Event()

    async def fetch() -> dict[str, Any]:
        asked.set()
        await answer.wait()
        return report()

    screen = top_screen.TopScreen(fetch, report(), lambda: now)
    async with screen.run_test(size=(80, 24)) as pilot:
        await asked.wait()
        problem = screen.query_one("#problem", widgets.Static)
        assert not problem.display
        now = 104.0
        screen.begin_fetching()
        assert problem.display
        assert re.fullmatch(r"This is of \d\d:\d\d:\d\d, 4s ago: no answer", _line(screen, "#problem"))
        assert screen.screen.has_class("old")
        await pilot.press("s")
        assert "by waiting" in _line(screen, "#pending-title")
        answer.set()
        while problem.display:
            await pilot.pause()
        assert not screen.screen.has_class("old")


async def test_what_fails_at_readyz_has_a_line_and_what_warns_if_nothing_fails() -> None:
    """If this fails, the screen of a frontend that schedules nothing looks as if there were nothing to do."""
    clock = {"check": "clock", "text": "the clock is 42 s behind"}
    sync = {"check": "sched-handler-sync", "text": "handlers are not fully synchronized: pods", "fails": True}
    shown = report(readinessProblems=[clock, sync])

    async def fetch() -> dict[str, Any]:
        return shown

    screen = top_screen.TopScreen(fetch)
    async with screen.run_test(size=(80, 24)):
        await screen.refresh_report()
        line = _line(screen, "#problem")
        assert line == f"Not ready (1 of 2 in trireme status): sched-handler-sync: {sync['text']}"
        shown = report(readinessProblems=[clock])
        await screen.refresh_report()
        assert _line(screen, "#problem") == "Warning: clock: the clock is 42 s behind"
        assert not screen.screen.has_class("old")


def test_a_standby_names_the_leader() -> None:
    """Somebody watches the wrong frontend for an hour."""
    assert top_screen.standby_text(Leadership(holder="host-1")) == "stands by, host-1 leads"
    assert top_screen.standby_text(Leadership()) == "stands by, nobody leads"


def test_without_a_terminal_it_says_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe would get the codes of a screen."""
    assert main.main(["top"]) == 1
    assert "needs a terminal; in a pipe use trireme status" in capsys.readouterr().err
