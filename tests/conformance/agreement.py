"""How far Trireme's decisions agree with golden ones: a table by category, field and plugin, and the first differences.

    python -m tests.conformance.agreement [--cases PATH] [--category NAME] [--replicas N] [--print-answers]

Without a path it reads the golden data beside it. A file may hold rows of several kinds; each goes to who knows it.
Decisions are asked twice: of processes, over gRPC, and of an engine in this process.
Ends with 0 where nothing differs, with 1 where something does, and with 2 where the question cannot be asked.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import grpc

from tests.conformance import decision_profiles, golden_rows, hint_agreement
from tests.conformance.decision_differences import Finding, Verdict, compare, refused_elsewhere
from tests.conformance.decision_phases import PhaseError, Phases
from tests.conformance.decisions import AnyPhases, Decider
from tests.conformance.golden_rows import Row, RowKind
from tests.conformance.in_process_phases import InProcessPhases
from trireme.config import loading

# In the order in which they are shown: that of a cycle, and last what each plugin says alone.
FIELDS = (
    "answer",
    "preFilter",
    "preFilterNodes",
    "filter",
    "feasible",
    "scores",
    "total",
    "allocations",
    "claimStatuses",
    "preemption",
    "message",
    "byPlugin",
    "events",
    "hint",
    "changes",
)

# It is run where it finds its own parts by name.
CONFIGURATION_SUITE, CONFIGURATION_FOLDER = "tests.conformance.config.agreement", Path(__file__).parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(argv)
    everything = [golden_rows.DECISIONS, golden_rows.GATES, golden_rows.HINTS]
    paths = options.cases or (everything[:1] if options.category else everything)
    outcome = 0
    for path in paths:
        try:
            outcome = max(outcome, _agreement_of(path, options))
        except (golden_rows.GoldenFileError, loading.ConfigurationError, PhaseError) as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
    return outcome


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agreement", allow_abbrev=False)
    parser.add_argument(
        "--cases", type=Path, action="append", metavar="PATH", help="golden rows, gzipped or not (may be repeated)"
    )
    parser.add_argument("--category", action="append", help="only decisions of this category (may be repeated)")
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="of filter and of score (default 1)")
    parser.add_argument("--print-answers", action="store_true", help="print our own answers as golden rows, no table")
    parser.add_argument("--differences", type=int, default=10, metavar="N", help="print so many (default 10)")
    return parser


def _agreement_of(path: Path, options: argparse.Namespace) -> int:
    by_kind: dict[RowKind, list[Row]] = {}
    for row in golden_rows.read(path):
        by_kind.setdefault(golden_rows.kind_of(row), []).append(row)
    if not by_kind:
        raise golden_rows.GoldenFileError(f"{path}: has no rows")
    decisions = by_kind.get(RowKind.DECISION, [])
    if options.category:
        decisions = [row for row in decisions if golden_rows.category_of(row) in options.category]
        if not decisions:
            raise golden_rows.GoldenFileError(f"{path}: has no decisions of {', '.join(options.category)}")
    findings: list[Finding] = []
    if decisions:
        setups = decision_profiles.Setups(decisions)
        configuration = setups.default.configuration
        findings += _asked("services", Phases(configuration, options.replicas), setups, decisions, options)
        if not options.print_answers:
            findings += _asked("in process", InProcessPhases(configuration), setups, decisions, options)
    if RowKind.HINT in by_kind and not options.category:
        findings += _reported("hints", _hinted(by_kind[RowKind.HINT], options), options)
    outcome = int(any(finding.verdict is Verdict.DIFFERS for finding in findings))
    if RowKind.CONFIGURATION in by_kind:
        arguments = ["--answers"] if options.print_answers else ["--differences", str(options.differences)]
        command = [sys.executable, "-m", CONFIGURATION_SUITE, str(path.resolve()), *arguments]
        outcome = max(outcome, subprocess.run(command, check=False, cwd=CONFIGURATION_FOLDER).returncode)
    return outcome


def _asked(
    who: str, phases: AnyPhases, setups: decision_profiles.Setups, rows: list[Row], options: argparse.Namespace
) -> list[Finding]:
    started = time.monotonic()
    findings = _decided(phases, setups, rows, options)
    return _reported(f"decisions, {who}: {time.monotonic() - started:.0f} s", findings, options)


def _reported(title: str, findings: list[Finding], options: argparse.Namespace) -> list[Finding]:
    if findings and not options.print_answers:
        print(title)
        _report(findings, options.differences)
    elif findings:
        print(*(f"{finding.case}: {finding.answered}" for finding in findings), sep="\n", file=sys.stderr)
    return findings


def _decided(
    asked: AnyPhases, setups: decision_profiles.Setups, rows: list[Row], options: argparse.Namespace
) -> list[Finding]:
    findings: list[Finding] = []
    with asked as phases:
        decider = Decider(phases, setups)
        for row in rows:
            try:
                setup = setups.of(row)
                elsewhere = frozenset() if options.print_answers else refused_elsewhere(row, setup)
                answer = decider.decide(row, elsewhere)
            except (
                grpc.RpcError,
                AssertionError,
                LookupError,
                TypeError,
                ValueError,
                loading.ConfigurationError,
                PhaseError,
            ) as error:
                # One case that cannot be answered is a difference, and no reason to leave the others out.
                findings.append(_unanswered(row, error))
                continue
            if options.print_answers:
                _print_answer(row, answer)
            else:
                findings += compare(row, answer, setup)
    return findings


def _unanswered(row: Row, error: Exception) -> Finding:
    category = golden_rows.category_of(row)
    return Finding(
        row["name"], category, "answer", "", Verdict.DIFFERS, "an answer", f"{type(error).__name__}: {error}"
    )


def _hinted(rows: list[Row], options: argparse.Namespace) -> list[Finding]:
    if options.print_answers:
        for row in rows:
            _print_answer(row, hint_agreement.answer(row))
        return []
    findings: list[Finding] = []
    for row in rows:
        try:
            findings += hint_agreement.compare(row, hint_agreement.answer(row))
        except (LookupError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            plugin = row["case"]["plugin"]
            findings.append(Finding(row["name"], "hints", "answer", plugin, Verdict.DIFFERS, "an answer", said))
    return findings


def _print_answer(row: Row, answer: object) -> None:
    print(json.dumps({"name": row["name"], "case": row["case"], "expect": answer}, separators=(",", ":")))


def _report(findings: Sequence[Finding], differences: int) -> None:
    categories = list(dict.fromkeys(finding.category for finding in findings))
    print(f"{'category':<32} {'field':<15} {'plugin':<32} {'agrees':>7} {'of':>5}  {'':>7} {'not yet':>8}")
    counts: dict[tuple[str, str, str], Counter[Verdict]] = {}
    for finding in findings:
        counts.setdefault((finding.category, finding.field, finding.plugin), Counter())[finding.verdict] += 1
    order = sorted(counts, key=lambda key: (categories.index(key[0]), FIELDS.index(key[1]), key[2]))
    for category, field, plugin in order:
        count = counts[category, field, plugin]
        print(_line(category, field, plugin, count))
    print(_line("all", "", "", Counter(finding.verdict for finding in findings)))
    differing = [finding for finding in findings if finding.verdict is Verdict.DIFFERS]
    for finding in differing[:differences]:
        about = f" of {finding.plugin}" if finding.plugin else ""
        print(f"\n{finding.case}: {finding.field}{about}")
        print(f"  expected: {finding.expected}\n  answered: {finding.answered}")
    if len(differing) > differences:
        print(f"\n… and {len(differing) - differences} more differences (--differences N shows more)")


def _line(category: str, field: str, plugin: str, count: Counter[Verdict]) -> str:
    compared = count[Verdict.AGREES] + count[Verdict.DIFFERS]
    share = f"{100 * count[Verdict.AGREES] / compared:.1f} %" if compared else "-"
    open_ones = str(count[Verdict.NOT_YET] or "")
    return (
        f"{category:<32} {field:<15} {plugin:<32} {count[Verdict.AGREES]:>7} {compared:>5}  {share:>7} {open_ones:>8}"
    )


if __name__ == "__main__":
    sys.exit(main())
