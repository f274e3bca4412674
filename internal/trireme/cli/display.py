"""Prints reports: text for people, in colour on a terminal, or JSON and YAML for programs.

Text fits the terminal, or COLUMNS. Without either, as in a pipe, lines are as long as they are, so that `grep` finds
whole rows. Colours follow the terminal and NO_COLOR.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import yaml
from rich import console, live, padding, table, text

from trireme.cli import row_table
from trireme_kube.apimachinery import human_durations
from trireme_kube.componentbase import clocks

Report = Mapping[str, Any]
# Renders a report as text; `wide` adds columns.
# Implementers: trireme.cli.explain_command.render, trireme.cli.record_command.render,
# trireme.cli.status_command.render.
Render = Callable[[Report, bool], console.RenderableType]

FORMATS = ("text", "wide", "json", "yaml")
COLUMNS = 120
_UNLIMITED_COLUMNS = 100_000
WATCH_SECONDS = 2.0

GOOD, BAD, HEADER = "green", "red", "bold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags for the output."""
    parser.add_argument("-o", "--output", choices=FORMATS, default="text", help="default %(default)s")
    parser.add_argument(
        "-w", "--watch", action="store_true", help=f"show it again as it changes, every {WATCH_SECONDS:.0f} s"
    )


def terminal() -> console.Console:
    """Standard output, as a terminal if it is one."""
    return console.Console(highlight=False, markup=False, emoji=False)


def print_memory_error(what: Any) -> int:
    """Print that there is not enough memory for a file or folder. Returns the exit code."""
    print(f"Error: {what}: this needs more memory than there is", file=sys.stderr)
    return 1


class NoReportNowError(Exception):
    """The report cannot be fetched, and may be later; the text says why."""


async def show_report(options: argparse.Namespace, ask: Callable[[], Awaitable[Report]], render: Render) -> None:
    """Fetch the report and print it in the format that `options` name.

    With `--watch` again at each change, until Ctrl-C: a report that cannot be fetched now leaves the one before, and is
    asked for again. Raises: NoReportNowError: there is none from the beginning.
    """
    out, report = terminal(), await ask()
    if not options.watch:
        _print_report(out, options.output, report, render)
    elif options.output in ("json", "yaml") or not out.is_terminal:
        await _print_changes(out, options.output, report, ask, render)
    else:
        await _show_live(out, report, ask, lambda shown: render(shown, options.output == "wide"))


async def _print_changes(
    out: console.Console, output: str, report: Report, ask: Callable[[], Awaitable[Report]], render: Render
) -> None:
    """Print the report, and again whenever it has changed; on standard error, from when on there is none."""
    last, is_lost = None, False
    while True:
        compared = _without_passing_time(report)
        if compared != last:
            last = compared
            _print_report(out, output, report, render)
        await asyncio.sleep(WATCH_SECONDS)
        try:
            report = await ask()
        except NoReportNowError as error:
            if not is_lost:
                print(f"what is above is not renewed, and asked for again: {error}", file=sys.stderr, flush=True)
            is_lost = True
        else:
            is_lost = False


async def _show_live(
    out: console.Console,
    report: Report,
    ask: Callable[[], Awaitable[Report]],
    render: Callable[[Report], console.RenderableType],
) -> None:
    """Show the report in place, and below it for how long it has not been renewed, where it cannot be fetched."""
    with live.Live(console=out, auto_refresh=False, vertical_overflow="visible") as screen:
        shown, renewed_at = render(report), clocks.steady()
        screen.update(shown, refresh=True)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                shown = render(await ask())
            except NoReportNowError as error:
                age = clocks.steady() - renewed_at
                problem = text.Text(f"This is {age:.0f} s old, and asked for again: {error}", BAD)
                screen.update(console.Group(shown, "", problem), refresh=True)
            else:
                renewed_at = clocks.steady()
                screen.update(shown, refresh=True)


def as_text(what: console.RenderableType, columns: int = COLUMNS) -> str:
    """The text without a terminal: lines of so many columns, without colours and trailing blanks."""
    out = console.Console(
        width=columns, highlight=False, markup=False, emoji=False, no_color=True, force_terminal=False
    )
    with out.capture() as captured:
        out.print(what)
    # Cells are padded to their column's width.
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _without_passing_time(report: Report) -> Report:
    """The report without what changes all the time, to detect changes.

    That is its moment, how long the Lease is valid, when waiting pods were checked last, how many decisions insight
    made again, and what a replica of insight is sent: reports like this one.
    """
    leadership = report.get("leadership")
    if leadership is None:
        return report
    replicas = [{**each, "sentBytes": "0"} for each in report.get("replicas", ())]
    for each in replicas:
        if "selfCheck" in each:
            each["selfCheck"] = {**each["selfCheck"], "checked": "0", "checkedAtMs": "0"}
    fixed = {"atMs": 0, "leadership": {**leadership, "secondsLeft": 0}, "replicas": replicas}
    check = {**report.get("wakeUpCheck", {}), "checkedAtMs": "0"}
    return {**report, **fixed, "wakeUpCheck": check}


def _print_report(out: console.Console, output: str, report: Report, render: Render) -> None:
    """Print the report as JSON, YAML or text; text is in colour on a terminal."""
    if output == "json":
        print(json.dumps(report, indent=2, ensure_ascii=False), flush=True)
    elif output == "yaml":
        print("---", yaml.safe_dump(report, sort_keys=False, allow_unicode=True), sep="\n", end="", flush=True)
    elif out.is_terminal:
        out.print(render(report, output == "wide"))
    else:
        columns = os.environ.get("COLUMNS", "")
        limit = int(columns) if columns.isdecimal() and int(columns) else _UNLIMITED_COLUMNS
        print(as_text(render(report, output == "wide"), limit), flush=True)


def table_of_rows(
    headers: Sequence[str],
    entries: Sequence[Sequence[str | text.Text]],
    *,
    right: Sequence[str] = (),
    wrapped: Sequence[str] = (),
) -> row_table.RowTable:
    """A table as kubectl prints them: no lines, headers in capitals.

    `right` names the columns of numbers, `wrapped` those of texts (default: the last), which stay readable however long
    the names beside them are.
    """
    return row_table.RowTable(headers, entries, right=right, wrapped=wrapped or headers[-1:], header_style=HEADER)


def with_indent(what: console.RenderableType) -> padding.Padding:
    """The part, two columns to the right."""
    return padding.Padding(what, (0, 0, 0, 2))


def table_of_fields(entries: Sequence[tuple[str, str | text.Text]]) -> table.Table:
    """Names and values, one pair a line."""
    out = table.Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    out.add_column(style=HEADER, no_wrap=True)
    out.add_column(overflow="fold")
    for name, value in entries:
        out.add_row(name, value)
    return out


def age_text(since: float, now: float | None = None) -> str:
    """The time since a moment, as kubectl's AGE column has it. Units: seconds since 1970."""
    return human_durations.human_duration(max((clocks.wall() if now is None else now) - since, 0))
