"""The self-check of insight, as `trireme status` shows it: decisions that came out differently when made again.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).

Tests: tests/unit/cli/test_self_check_display.py.
"""

from collections.abc import Iterable

from rich import text

from trireme.cli import display
from trireme.v1.scheduler_status_pb2 import ReplicaStatus, SelfCheck


def check_text(replicas: Iterable[ReplicaStatus]) -> text.Text | None:
    """How many decisions differ, a line for each replica of insight that makes them again; None: there is none."""
    checks = [each.self_check for each in replicas if each.HasField("self_check")]
    return text.Text("\n").join(map(_line, checks)) if checks else None


def _line(check: SelfCheck) -> text.Text:
    if not check.checked and not check.problem:
        return text.Text("nothing to report yet")
    differ = f"{check.different} differ" if check.different else "none differ"
    out = text.Text(differ, display.BAD if check.different else display.GOOD)
    out.append(f" of {check.checked} decisions made again, the last {display.age_text(check.checked_at_ms / 1000)} ago")
    if check.HasField("last_difference"):
        last = check.last_difference
        where = f": trireme replay {last.recording}" if last.recording else ""
        out.append(f"; {last.call} of {last.pods}, {display.age_text(last.at_ms / 1000)} ago{where}", display.BAD)
    if check.problem:
        out.append(f"; {check.problem}", display.BAD)
    return out
