"""Random situations, decided by Trireme and by Kubernetes' own framework: they must say the same.

    python -m tests.conformance.differential [--count N] [--seed S] [--from golden|scratch] [--like CATEGORY]
        [--replicas N] [--keep FILE]
    python -m tests.conformance.differential --kind config|flags|hints [--count N] [--seed S] [--keep FILE]

Situations are drawn by the seed alone: the same seed draws the same ones. A difference is decided again, with the
framework's maps in many orders, printed with both answers, and printed again when it is as small as it gets.
`--keep` adds that with the framework's answer to a file of golden rows. Ends with 0 where nothing differs, else with 1.
The other kinds are drawn and compared by `drawn_kinds`; they are printed as they are.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc

from tests.conformance import (
    decision_profiles,
    drawn_kinds,
    golden_rows,
    real_framework,
    shrinking,
    situation_blanks,
    situation_devices,
    situation_exclusive,
    situation_gates,
    situation_preemption,
    situation_rarities,
    situations,
)
from tests.conformance.decision_differences import Finding, Verdict, compare, refused_elsewhere
from tests.conformance.decision_phases import PhaseError, Phases
from tests.conformance.decisions import Decider
from tests.conformance.golden_rows import Row
from tests.conformance.real_framework import Oracle
from tests.conformance.situation_crossings import Crossings
from tests.conformance.situation_mutations import Mutations

DECISIONS = "decisions"

# How many situations are drawn and asked at a time.
CHUNK = 32

# How many are made of golden ones; the others are drawn from scratch.
OF_GOLDEN = {"golden": 1.0, "scratch": 0.0, "both": 0.4, "preemption": 0.0, "gates": 0.3}

# How many runs of situations have feature gates that are not at their default, and how many of these are about devices.
GATED = {"golden": 0.25, "scratch": 0.25, "both": 0.25, "preemption": 0.0, "gates": 1.0}
GATED_DEVICES = 0.7

# How many of these are several in one; the others are one with changes.
CROSSED = 0.5

# How many of these have something rare besides.
RARE = 0.15

# How many of all have selectors that are empty or absent.
BLANK = 0.1

# How many from scratch are about devices alone, about claims that only one pod may use, and about preemption alone.
DEVICES, EXCLUSIVE, PREEMPTION = 0.25, 0.05, 0.1

# How often the framework decides a situation, and one where something differs: an answer that it gives by chance should
# be among so many.
RUNS, RUNS_IF_DIFFERENT = 2, 150

# Where it said more different things than so many, there may be more that it did not say.
MANY = 4


class Differential:
    """Both sides, side by side."""

    def __init__(self, phases: Phases, setups: decision_profiles.Setups, oracle: Oracle, patient: Oracle) -> None:
        self._setups = setups
        self._decider = Decider(phases, setups)
        self._oracle = oracle
        self._patient = patient
        #: What was compared, and how many situations the framework itself fails at.
        self.compared = 0
        self.unanswered = 0
        self.met: Counter[str] = Counter()

    def differing(self, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Finding]]]:
        """The rows about which the sides differ, however often the framework is asked."""
        for row in self._oracle.ask(rows):
            if "error" in row:
                self.unanswered += 1
                continue
            self.compared += 1
            self.met[_outcome(row)] += 1
            if self._differences(row):
                again = self._patient.ask([row])[0]
                differences = self._differences(again) if "error" not in again else []
                if differences:
                    yield again, differences

    def shrunk(self, row: Row, about: Sequence[Finding]) -> tuple[Row, list[Finding]]:
        """A small row that differs in one of the same fields, and its differences."""
        fields = {(finding.field, finding.plugin) for finding in about}

        def interesting(cases: Sequence[golden_rows.Row]) -> int | None:
            rows = self._oracle.ask([{"name": row["name"], "case": case} for case in cases])
            for index, asked in enumerate(rows):
                if "error" not in asked and fields & {(one.field, one.plugin) for one in self._differences(asked)}:
                    return index
            return None

        case = shrinking.shrink(row["case"], interesting)
        small = self._patient.ask([{"name": row["name"], "case": case}])[0]
        differences = self._differences(small) if "error" not in small else []
        return (small, differences) if differences else (row, list(about))

    def _differences(self, row: Row) -> list[Finding]:
        try:
            answer = self._decider.decide(row, refused_elsewhere(row, self._setups.of(row)))
        except (grpc.RpcError, AssertionError, LookupError, TypeError, ValueError) as error:
            category = golden_rows.category_of(row)
            text = f"{type(error).__name__}: {error}"
            return [Finding(row["name"], category, "answer", "", Verdict.DIFFERS, "an answer", text)]
        varies = set(row.get("varies", ()))
        if "filter" in varies:
            # The message is made of it, and of errors there is one by chance.
            varies.add("message")
        found = [
            finding
            for finding in self._compared(row, answer)
            if varies.isdisjoint((finding.field, f"{finding.field}.{finding.plugin}"))
        ]
        return found + [finding for field in row.get("either", ()) for finding in self._besides(row, answer, field)]

    def _compared(self, row: Row, answer: Row) -> list[Finding]:
        return [finding for finding in compare(row, answer, self._setups.of(row)) if finding.verdict is Verdict.DIFFERS]

    def _besides(self, row: Row, answer: Row, field: str) -> list[Finding]:
        """What differs in a field that varies, where none of what the framework said in it is said."""
        out: list[Finding] = []
        if len(row["either"][field]) > MANY:
            return out
        for said in row["either"][field]:
            if said is None and field in answer:
                continue
            found = self._compared({**row, "expect": {**row["expect"], field: said}}, answer) if said else []
            out = [finding for finding in found if finding.field == field]
            if not out:
                break
        return out


def _outcome(row: Row) -> str:
    expect = row["expect"]
    if "preFilter" in expect:
        return "refused outright"
    refused = bool(expect.get("filter"))
    return ("some nodes fit" if refused else "all nodes fit") if expect.get("feasible") else "no node fits"


def _from_scratch(draw: random.Random, name: str, source: str) -> Row:
    if source == "preemption":
        return situation_preemption.situation(draw, name)
    chance = draw.random()
    if source == "devices" or chance < DEVICES:
        return situation_devices.situation(draw, name)
    if chance < DEVICES + EXCLUSIVE:
        return situation_exclusive.situation(draw, name)
    if chance < DEVICES + EXCLUSIVE + PREEMPTION:
        return situation_preemption.situation(draw, name)
    return situations.situation(draw, name)


def drawn(seed: int, count: int, like: Sequence[str] = (), source: str = "both") -> Iterator[Row]:
    """The situations of a seed.

    `like` are categories: all are made of golden ones of these. Those of one chunk have the same feature gates.
    """
    draw = random.Random(seed)
    rows = golden_rows.read(golden_rows.DECISIONS)
    golden = [row for row in rows if not like or golden_rows.category_of(row) in like]
    mutations, crossings = Mutations(golden), Crossings(golden)
    gated = Gated(draw, GATED[source])
    for number in range(count):
        if number % CHUNK == 0:
            gated.begin()
        name = f"{seed}-{number:05}"
        if not like and draw.random() >= OF_GOLDEN[source]:
            row = _from_scratch(draw, name, gated.source or source)
        else:
            row = _of_golden(draw, name, mutations, crossings)
        if draw.random() < BLANK:
            situation_blanks.add(draw, row["case"])
        yield gated.changed(row)


class Gated:
    """Gives runs of situations feature gates that are not at their default, and fields that belong to them."""

    def __init__(self, draw: random.Random, chance: float) -> None:
        self._draw = draw
        self._chance = chance
        self._gates: dict[str, bool] = {}
        #: What situations from scratch are about in this run; empty: whatever is asked for.
        self.source = ""

    def begin(self) -> None:
        """Another run."""
        self._gates, self.source = {}, ""
        if self._draw.random() < self._chance:
            about_devices = self._draw.random() < GATED_DEVICES
            self._gates = situation_gates.drawn_gates(self._draw, devices=about_devices)
            self.source = "devices" if about_devices else ""

    def changed(self, row: Row) -> Row:
        """The situation with the gates of this run."""
        if self._gates:
            row["case"]["featureGates"] = dict(self._gates)
            situation_gates.add(self._draw, row["case"], self._gates)
        return row


def _of_golden(draw: random.Random, name: str, mutations: Mutations, crossings: Crossings) -> Row:
    if draw.random() < CROSSED:
        row = crossings.draw(draw, name)
        for _ in range(draw.choice((0, 0, 1, 3))):
            mutations.change(draw, row["case"])
    else:
        row = mutations.draw(draw, name)
    if draw.random() < RARE:
        situation_rarities.add(draw, row["case"])
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(argv)
    if options.kind != DECISIONS:
        return _other(options)
    started = time.monotonic()
    rows = list(drawn(options.seed, options.count, options.like, options.source))
    setups = decision_profiles.Setups(rows)
    differing = 0
    try:
        with (
            Oracle(RUNS) as oracle,
            Oracle(RUNS_IF_DIFFERENT) as patient,
            Phases(setups.default.configuration, options.replicas) as phases,
        ):
            sides = Differential(phases, setups, oracle, patient)
            for start in range(0, len(rows), CHUNK):
                for row, differences in sides.differing(rows[start : start + CHUNK]):
                    differing += 1
                    _print_differences(row, differences)
                    if not options.no_shrinking:
                        row, differences = sides.shrunk(row, differences)
                        _print_situation(row, differences)
                    _keep(row, options)
                    if differing >= options.stop_after:
                        break
                if differing >= options.stop_after:
                    break
    except (real_framework.OracleError, PhaseError, golden_rows.GoldenFileError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    met = ", ".join(f"{count} {outcome}" for outcome, count in sorted(sides.met.items()))
    print(
        f"seed {options.seed}: {sides.compared} situations compared ({met}), {sides.unanswered} that the framework"
        f" itself fails at, {differing} differ; {time.monotonic() - started:.0f} s"
    )
    return int(differing > 0)


def _other(options: argparse.Namespace) -> int:
    """Another kind than decisions."""
    started, met, differing = time.monotonic(), Counter[str](), 0
    for compared in drawn_kinds.KINDS[options.kind](options.seed, options.count):
        met[compared.met] += 1
        if not compared.differences:
            continue
        differing += 1
        print(f"\n{compared.row['name']} differs:")
        for name, (theirs, ours) in compared.differences.items():
            print(f"  {name}\n    Kubernetes: {json.dumps(theirs)}\n    Trireme:    {json.dumps(ours)}")
        if not options.no_shrinking:
            for part in ("flags", "files", "case"):
                print(f"  {part}: {json.dumps(compared.row.get(part))}")
        _keep(compared.row, options)
        if differing >= options.stop_after:
            break
    ends = ", ".join(f"{count} {end}" for end, count in sorted(met.items()))
    print(
        f"seed {options.seed}: {met.total()} {options.kind} compared ({ends}), {differing} differ;"
        f" {time.monotonic() - started:.0f} s"
    )
    return int(differing > 0)


def _keep(row: Row, options: argparse.Namespace) -> None:
    if options.keep is not None and "varies" not in row:
        with options.keep.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="differential", allow_abbrev=False)
    parser.add_argument(
        "--kind",
        choices=(DECISIONS, *drawn_kinds.KINDS),
        default=DECISIONS,
        help=f"what is drawn (default {DECISIONS})",
    )
    parser.add_argument("--count", type=int, default=500, metavar="N", help="situations to draw (default 500)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what is drawn (default 1)")
    parser.add_argument(
        "--like", action="append", default=[], metavar="CATEGORY", help="make them of golden cases of it only"
    )
    parser.add_argument(
        "--from", dest="source", choices=OF_GOLDEN, default="both", help="made of golden cases, or from scratch"
    )
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="of filter and of score (default 1)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add what differs to this file of golden rows")
    parser.add_argument("--stop-after", type=int, default=5, metavar="N", help="differing situations (default 5)")
    parser.add_argument("--no-shrinking", action="store_true", help="print no situations, and make none small")
    return parser


def _print_differences(row: Row, differences: Sequence[Finding]) -> None:
    """At once: to make the situation small asks both sides some hundred times more."""
    print(f"\n{row['name']} differs:")
    for finding in differences:
        about = f" of {finding.plugin}" if finding.plugin else ""
        print(f"  {finding.field}{about}\n    framework: {finding.expected}\n    Trireme:   {finding.answered}")
    sys.stdout.flush()


def _print_situation(row: Row, differences: Sequence[Finding]) -> None:
    """The situation made small, with what differs in it."""
    _print_differences(row, differences)
    for name, value in row["case"].items():
        for entry in value if isinstance(value, list) else [value]:
            print(f"  {name}: {json.dumps(entry)}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
