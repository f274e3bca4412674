"""`trireme record`: verifies the recordings that insight makes (`--record-dir`), or joins some to one file.

It reads files, and reaches no scheduler. Recordings hold the names and labels of pods and nodes.
"""

# Also change: docs/recording.md.

import argparse
import asyncio
import pathlib
import sys
from typing import TypedDict

from rich import console

from trireme.cli import display
from trireme.cli.display import Report
from trireme.recording import decision_numbers, export, segment_folder, verification
from trireme.registry import in_tree_args
from trireme_kube.apimachinery import golang, timestamps
from trireme_kube.componentbase import clocks
from trireme_kube.componentbase.cli import arguments

_HOW_TO_RECORD = (
    "Insight records where it has --record-dir: `trireme up --record-dir DIR` on one machine, "
    "deploy/components/insight-recording in a cluster. Name the folder by --dir"
)


class TornReport(TypedDict):
    """A tail that is no whole frame."""

    file: str
    offset: int
    sizeBytes: int


class ProblemReport(TypedDict):
    """A damaged place."""

    file: str
    offset: int
    problem: str


class GapReport(TypedDict):
    """A span of time in which messages may be missing; `droppedMessages` 0: not known how many."""

    begin: str | None
    end: str | None
    file: str
    reason: str
    droppedMessages: int


RecordingSummary = TypedDict(
    "RecordingSummary",
    {
        "from": str | None,
        "to": str | None,
        "files": int,
        "sizeBytes": int,
        "frames": int,
        "deltas": int,
        "queueDeltas": int,
        "streams": int,
        "decisions": int,
        "bindings": int,
        "missingDecisions": int,
        "uncountedGaps": int,
        "releases": list[str],
        "gaps": list[GapReport],
        "torn": list[TornReport],
        "problems": list[ProblemReport],
    },
)
"""What `trireme record check -o json` prints."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme record`, with check and export, to the commands."""
    parser = commands.add_parser(
        "record", help="verify and join recordings", description=arguments.description_of(__doc__)
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    check = actions.add_parser("check", help="verify a recording, and say what it holds; exits 1 if it is damaged")
    check.add_argument("path", type=pathlib.Path, metavar="FILE|DIR", help="a file, or a folder of recordings")
    check.add_argument("-o", "--output", choices=display.FORMATS, default="text", help="default %(default)s")
    check.set_defaults(run=run_check, watch=False)

    export_ = actions.add_parser("export", help="join the recordings of a folder to one file")
    export_.add_argument(
        "--since",
        type=_parse_duration,
        metavar="DURATION",
        help="from so long ago on, or a little before: from the beginning of a recording (default: all)",
    )
    export_.add_argument(
        "--dir", type=pathlib.Path, default=".", metavar="DIR", help="folder of recordings (default: this one)"
    )
    export_.add_argument(
        "--redact",
        action="store_true",
        help="replace names, labels and images, each by the same text everywhere; the result still replays",
    )
    export_.add_argument("file", metavar="FILE", help="the file to write; - for standard output")
    export_.set_defaults(run=run_export)


def run_check(options: argparse.Namespace) -> int:
    """Verify a recording. Returns the exit code."""
    try:
        summary = verification.verify(options.path)
    except OSError as error:
        return _print_error(error)
    except MemoryError:
        return display.print_memory_error(options.path)

    async def report() -> Report:
        return _report(summary)

    asyncio.run(display.show_report(options, report, render))
    for problem in summary.problems:
        print(f"Error: {problem}", file=sys.stderr)
    return 1 if summary.problems else 0


def run_export(options: argparse.Namespace) -> int:
    """Join recordings. Returns the exit code."""
    since_ns = 0 if options.since is None else clocks.wall_ns() - options.since
    redact, in_tree = options.redact, in_tree_args.plugin_args()
    to_output = options.file == "-"
    if to_output and sys.stdout.isatty():
        print("Error: FILE: a recording is no text for a terminal; name a file, or send - to one", file=sys.stderr)
        return 1
    try:
        if to_output:
            result = export.export_to(options.dir, sys.stdout.buffer, since_ns, redact=redact, in_tree=in_tree)
        else:
            target = pathlib.Path(options.file)
            result = export.export(options.dir, target, since_ns, redact=redact, in_tree=in_tree)
    except BrokenPipeError:
        raise
    except OSError as error:
        advice = "" if options.dir.exists() else f". {_HOW_TO_RECORD}"
        return _print_error(error, advice)
    except export.NothingToExportError as error:
        advice = segment_folder.describe_inner_folders(options.dir) or _advice_without(options.dir)
        print(f"Error: {options.dir}: {error}{advice}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"Error: {options.dir}: {error}", file=sys.stderr)
        return 1
    except MemoryError:
        return display.print_memory_error(options.dir)
    for problem in result.problems:
        print(f"{problem}; what follows in that file is left out", file=sys.stderr)
    totals = result.totals
    name = "standard output" if to_output else options.file
    print(
        f"{name}: {_time(totals.begin_ns)} to {_time(totals.end_ns)}, {totals.frames} frames, "
        f"{totals.size} bytes, {result.gaps} gaps, decisions: "
        + decision_numbers.missing_text(result.missing_decisions, result.uncounted_gaps),
        file=sys.stderr if to_output else sys.stdout,
    )
    return 0


def render(report: Report, wide: bool = False) -> console.Group:
    """Render what a recording holds as text."""
    fields = [
        ("From", str(report["from"] or "-")),
        ("To", str(report["to"] or "-")),
        ("Files", str(report["files"])),
        ("Size", f"{report['sizeBytes']} bytes"),
        ("Frames", str(report["frames"])),
        ("Deltas", f"{report['deltas']} of the cluster, {report['queueDeltas']} of the queue"),
        ("Streams", f"{report['streams']} opened"),
        (
            "Decisions",
            f"{report['decisions']}, and "
            + decision_numbers.missing_text(report["missingDecisions"], report["uncountedGaps"]),
        ),
        ("Bindings", f"{report['bindings']} reports"),
        ("Written by", ", ".join(report["releases"]) or "-"),
        ("Gaps", str(len(report["gaps"]))),
    ]
    parts: list[console.RenderableType] = [display.table_of_fields(fields)]
    if report["gaps"]:
        rows = [[gap["begin"], gap["end"], gap["reason"], _messages_text(gap), gap["file"]] for gap in report["gaps"]]
        parts += [
            "",
            display.table_of_rows(("GAP FROM", "UNTIL", "REASON", "MESSAGES", "FILE"), rows, right=("MESSAGES",)),
        ]
    if report["torn"]:
        rows = [[str(torn["offset"]), str(torn["sizeBytes"]), torn["file"]] for torn in report["torn"]]
        parts += ["", display.table_of_rows(("TORN AT", "BYTES", "FILE"), rows, right=("TORN AT", "BYTES"))]
    return console.Group(*parts)


def _report(summary: verification.Summary) -> RecordingSummary:
    """The summary as `-o json` shows it."""
    return {
        "from": _time(summary.totals.begin_ns),
        "to": _time(summary.totals.end_ns),
        "files": summary.files,
        "sizeBytes": summary.totals.size,
        "frames": summary.totals.frames,
        "deltas": summary.deltas,
        "queueDeltas": summary.queue_deltas,
        "streams": summary.streams,
        "decisions": summary.decisions,
        "bindings": summary.bindings,
        "missingDecisions": summary.missing_decisions,
        "uncountedGaps": summary.uncounted_gaps,
        "releases": summary.releases,
        "gaps": [
            {
                "file": gap.file,
                "begin": _time(gap.begin_ns),
                "end": _time(gap.end_ns),
                "reason": gap.reason.value,
                "droppedMessages": gap.dropped_messages,
            }
            for gap in summary.gaps
        ],
        "torn": [{"file": torn.file, "offset": torn.offset, "sizeBytes": torn.size} for torn in summary.torn],
        "problems": [
            {"file": problem.file, "offset": problem.offset, "problem": problem.problem} for problem in summary.problems
        ],
    }


def _messages_text(gap: Report) -> str:
    """How many messages are missing in a gap; a dash where none were to be recorded."""
    if gap["reason"] != "notRecorded":
        return "-"
    return str(gap["droppedMessages"] or "unknown")


def _time(nanoseconds: int) -> str | None:
    """The time as text; None: there is none."""
    return timestamps.rfc3339_micros(nanoseconds) if nanoseconds else None


def _advice_without(folder: pathlib.Path) -> str:
    """How to make a recording, if the folder has none at all."""
    return "" if segment_folder.list_segments(folder) else f". {_HOW_TO_RECORD}"


def _print_error(error: OSError, advice: str = "") -> int:
    """Print why a file cannot be read or written. Returns the exit code."""
    text = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
    print(f"Error: {text}{advice}", file=sys.stderr)
    return 1


def _parse_duration(text: str) -> int:
    """A duration in nanoseconds. Raises: ArgumentTypeError."""
    try:
        nanoseconds = golang.parse_duration(text).nanoseconds
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if nanoseconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return nanoseconds
