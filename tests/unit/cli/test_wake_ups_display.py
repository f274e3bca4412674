"""What `trireme status` shows of missed wake-ups, on screens of 80 and 120 columns."""

from typing import Any

import pytest

from trireme.cli import display, wake_ups_display
from trireme.v1.scheduler_status_pb2 import MissedWakeUp, WakeUpCheck
from trireme_kube.componentbase import clocks

NOW = 1_000_000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "wall", lambda: NOW)


def _missed(**changes: Any) -> MissedWakeUp:
    """A pod that Fit refused a minute before it was found, ten seconds ago."""
    found = MissedWakeUp(
        number=1,
        at_ms=round((NOW - 10) * 1000),
        pod_count=1,
        plugins=["NodeResourcesFit"],
        refused_at_ms=round((NOW - 70) * 1000),
        node_name="node-7",
        woken=True,
        event_count=3,
    )
    found.pod.namespace, found.pod.name = "default", "second-6c5bd8f7d4-abcde"
    for label, name in (("NodeAdd", "node-6"), ("NodeAdd", "node-7"), ("AssignedPodDelete", "default/gone")):
        found.events.add(at_ms=1, label=label, object_name=name)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("check", "shown"),
    [
        (WakeUpCheck(problem="requires insight: set insight.endpoints"),
         "not checked: requires insight: set insight.endpoints"),
        (WakeUpCheck(), "not checked yet"),
        (WakeUpCheck(checked_at_ms=round((NOW - 12) * 1000), groups=4, checked_groups=3),
         "none missed; 3 of 4 classes of waiting pods checked 12s ago"),
        (WakeUpCheck(checked_at_ms=round((NOW - 12) * 1000), missed_total=2, problem="refused"),
         "2 missed; the check 12s ago failed: refused"),
    ],
)  # fmt: skip
def test_how_far_the_last_check_came_is_one_line(check: WakeUpCheck, shown: str) -> None:
    """If this fails, nobody sees that nothing is checked, or why."""
    assert wake_ups_display.check_text(check).plain == shown


@pytest.mark.parametrize("columns", [80, 120])
def test_a_finding_names_pod_plugin_time_and_events(columns: int) -> None:
    """If this fails, the author of the plugin has to guess what it missed."""
    found = wake_ups_display.table_of_missed([_missed()])
    assert found is not None
    shown = display.as_text(found, columns)
    assert max(map(len, shown.splitlines())) <= columns
    words = " ".join(shown.split())
    assert "default/second-6c5bd8f7d4-abcde" in words
    joined = "".join(shown.split())
    for part in (
        "NodeResourcesFit had refused it 60s before",
        "“a pod on a node is deleted” (default/gone), “a node is added” (2 times, node-7, node-6)",
        "it was woken",
    ):
        assert "".join(part.split()) in joined


def test_what_is_not_known_or_not_done_is_said() -> None:
    more = _missed(event_count=203, woken=False)
    assert "200 events before these" in wake_ups_display.what_happened(more)
    assert wake_ups_display.what_happened(more).endswith("; it waits on")
    nothing = _missed()
    del nothing.events[:]
    assert "no event came since" in wake_ups_display.what_happened(nothing)


def test_findings_of_another_day_are_not_shown() -> None:
    assert wake_ups_display.table_of_missed([_missed(at_ms=1000)]) is None
