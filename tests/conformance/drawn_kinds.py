"""What else is drawn at random and asked of Kubernetes too: configuration files, command lines, and queueing hints.

Each kind yields one `Compared` for whatever it draws. Files and command lines are given to the real program, a process
each, and to ours in this one; events to the plugins of Kubernetes' own framework, in the oracle.
"""

import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance import golden_rows, hint_agreement, situation_devices, situation_events, situations
from tests.conformance.config import agreement, drawn_cases, drawn_files, drawn_flags, real
from tests.conformance.decision_differences import Verdict
from tests.conformance.golden_rows import Row
from tests.conformance.real_framework import Oracle

#: How many events are asked at a time.
CHUNK = 32
#: How many clusters that events happen in are drawn from scratch, beside the golden ones.
FROM_SCRATCH = 300
#: How often the program is asked where the sides differ: what it makes of a map is in another order each time.
ATTEMPTS = 6


@dataclass(frozen=True)
class Compared:
    """Something drawn, as Kubernetes answers it, and where we answer otherwise: field → (theirs, ours)."""

    row: Row
    differences: Mapping[str, tuple[Any, Any]]
    #: How it ended, to tell whether all kinds of ends were met.
    met: str


def hints(seed: int, count: int) -> Iterator[Compared]:
    """Events, and whether they make a pod worth another try."""
    draw = random.Random(seed)
    around = [*golden_rows.read(golden_rows.DECISIONS)]
    around += [situations.situation(draw, "") for _ in range(FROM_SCRATCH)]
    around += [situation_devices.situation(draw, "") for _ in range(FROM_SCRATCH // 4)]
    events = situation_events.Events(list(golden_rows.read(golden_rows.HINTS)), around)
    with Oracle(1) as oracle:
        for start in range(0, count, CHUNK):
            numbers = range(start, min(start + CHUNK, count))
            for row in oracle.ask([events.draw(draw, f"{seed}-{number:05}") for number in numbers]):
                if "error" in row:
                    yield Compared(row, {"error": (row["error"], None)}, "error")
                    continue
                found = hint_agreement.compare(row, hint_agreement.answer(row))
                differences = {
                    finding.field: (finding.expected, finding.answered)
                    for finding in found
                    if finding.verdict is Verdict.DIFFERS
                }
                yield Compared(row, differences, row["expect"]["hint"])


def configurations(seed: int, count: int) -> Iterator[Compared]:
    """Configuration files."""
    draw = drawn_files.Draw(seed)
    for number in range(count):
        yield _compared(drawn_cases.case(draw, f"drawn/{seed}-{number:05}"))


def command_lines(seed: int, count: int) -> Iterator[Compared]:
    """Command lines."""
    draw = random.Random(seed)
    for number in range(count):
        yield _compared(drawn_flags.case(draw, f"case/drawn#{seed}-{number:05}"))


KINDS: Mapping[str, Callable[[int, int], Iterator[Compared]]] = {
    "hints": hints,
    "config": configurations,
    "flags": command_lines,
}


def _compared(case: agreement.Case) -> Compared:
    ours = agreement.answer(case if "stdout" in case else {**case, "plugins": None})
    for _ in range(ATTEMPTS):
        try:
            theirs = real.answer(case)
        except subprocess.TimeoutExpired:
            return Compared(case, {}, "runs on")
        differences = {
            name: (wanted, got)
            for name, (wanted, got) in agreement.differences(theirs, ours).items()
            if name != "errors" or _parts(wanted) != _parts(got)
        }
        if not differences:
            break
    return Compared(theirs, differences, f"{theirs['reported'] or 'accepted'}")


def _parts(errors: list[str] | None) -> list[str]:
    """The mistakes of a list of them, in one order: some are gathered from a map."""
    joined = "\n".join(errors or ())
    found = re.fullmatch(r"\[(.*)\]", joined, re.DOTALL)
    return sorted(found.group(1).split(", ")) if found else [joined]
