"""Missed wake-ups, as `trireme status` and `trireme explain` show them.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).

Tests: tests/unit/cli/test_wake_ups_display.py.
"""

import time
from collections.abc import Sequence

from rich import text

from trireme.cli import display, row_table
from trireme.framework import event_phrases
from trireme.v1.scheduler_status_pb2 import MissedWakeUp, QueueEvent, WakeUpCheck
from trireme_kube.componentbase import clocks

# Findings that are shown, and for how long. JSON has all that are remembered.
_SHOWN, _SHOWN_SECONDS = 5, 86_400.0
# Objects that are named of each kind of event.
_NAMES = 3


def check_text(check: WakeUpCheck) -> text.Text:
    """How many missed wake-ups were found, and how far the last check came."""
    missed = f"{check.missed_total} missed" if check.missed_total else "none missed"
    out = text.Text(missed, display.BAD if check.missed_total else display.GOOD)
    if not check.checked_at_ms:
        return text.Text(f"not checked: {check.problem}" if check.problem else "not checked yet")
    age = display.age_text(check.checked_at_ms / 1000)
    if check.problem:
        return out.append(f"; the check {age} ago failed: {check.problem}", display.BAD)
    waiting = f"{check.checked_groups} of {check.groups} classes of waiting pods"
    return out.append(f"; {waiting} checked {age} ago", "default")


def table_of_missed(found: Sequence[MissedWakeUp]) -> row_table.RowTable | None:
    """The last missed wake-ups, the newest first; None: there are none of the last day."""
    since = (clocks.wall() - _SHOWN_SECONDS) * 1000
    shown = [each for each in reversed(found) if each.at_ms >= since][:_SHOWN]
    if not shown:
        return None
    rows = [
        [
            f"{each.pod.namespace}/{each.pod.name}",
            str(each.pod_count),
            display.age_text(each.at_ms / 1000),
            what_happened(each),
        ]
        for each in shown
    ]
    return display.table_of_rows(["MISSED WAKE-UP", "PODS", "AGE", "STATUS"], rows, right=("PODS",))


def sentence_about_pod(missed: MissedWakeUp) -> str:
    """When the pod was found, and what happened, for its explanation."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(missed.at_ms / 1000))
    return f"Its wake-up was missed, which insight found at {at}: it {what_happened(missed)}"


def what_happened(missed: MissedWakeUp) -> str:
    """Where the pod fits, who had refused it, and the events that did not wake it."""
    waited = display.age_text(missed.refused_at_ms / 1000, missed.at_ms / 1000)
    refused = f"{', '.join(missed.plugins)} had refused it {waited} before"
    outcome = "it was woken" if missed.woken else "it waits on"
    return f"fitted on {missed.node_name}; {refused}, and {_events_text(missed)}; {outcome}"


def _events_text(missed: MissedWakeUp) -> str:
    """The events by kind, with the objects of some, the most likely ones first."""
    if not missed.events:
        return "no event came since"
    by_label: dict[str, list[QueueEvent]] = {}
    for each in missed.events:
        by_label.setdefault(each.label, []).append(each)
    texts = [
        f"“{event_phrases.event_phrase(label)}”{_names_text(by_label[label])}"
        for label in event_phrases.likely_first(by_label)
    ]
    more = missed.event_count - len(missed.events)
    if more > 0:
        texts.append(f"{more} events before these")
    return f"none of these events woke it: {', '.join(texts)}"


def _names_text(events: Sequence[QueueEvent]) -> str:
    """How often it was, and the last objects, in parentheses."""
    names = list(dict.fromkeys(each.object_name for each in reversed(events) if each.object_name))[:_NAMES]
    times = [f"{len(events)} times"] if len(events) > 1 else []
    inside = ", ".join([*times, *names, *(["…"] if len(names) == _NAMES < len(events) else [])])
    return f" ({inside})" if inside else ""
