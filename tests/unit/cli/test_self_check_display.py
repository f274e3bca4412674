"""What `trireme status` shows of decisions that insight made again."""

import pytest

from trireme.cli import self_check_display
from trireme.v1.scheduler_status_pb2 import DecisionDifference, ReplicaStatus, SelfCheck
from trireme_kube.componentbase import clocks

NOW = 1_000_000.0
AT = round((NOW - 12) * 1000)
DIFFERENCE = DecisionDifference(
    at_ms=AT - 60_000, call="Place", pods="class 3 (namespace shop)", recording="/r/d.trireme"
)


@pytest.mark.parametrize(
    ("check", "shown"),
    [
        (SelfCheck(), "nothing to report yet"),
        (SelfCheck(checked_at_ms=AT), "nothing to report yet"),
        (SelfCheck(checked_at_ms=AT, checked=40), "none differ of 40 decisions made again, the last 12s ago"),
        (
            SelfCheck(checked_at_ms=AT, checked=40, different=2, last_difference=DIFFERENCE),
            "2 differ of 40 decisions made again, the last 12s ago; Place of class 3 (namespace shop), 72s ago: "
            "trireme replay /r/d.trireme",
        ),
        (
            SelfCheck(checked_at_ms=AT, checked=40, problem="a delta does not fit"),
            "none differ of 40 decisions made again, the last 12s ago; a delta does not fit",
        ),
    ],
)
def test_the_line_says_how_many_differ_and_how_to_see_it(
    check: SelfCheck, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a scheduler that decides wrongly looks well."""
    monkeypatch.setattr(clocks, "wall", lambda: NOW)
    found = self_check_display.check_text([ReplicaStatus(phase="insight", self_check=check), ReplicaStatus()])
    assert found is not None
    assert found.plain == shown


def test_where_nothing_is_recorded_there_is_no_line() -> None:
    assert self_check_display.check_text([ReplicaStatus(phase="insight")]) is None
