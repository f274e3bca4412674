"""Who leads, in words, and how far the answers of a frontend are to be believed that does not.

Tests: tests/unit/cli/test_display.py.
"""

from rich import console, text

from trireme.cli import display
from trireme.v1.scheduler_explanation_pb2 import Leadership, SchedulerExplanation


def state_line(leadership: Leadership) -> text.Text:
    """Who leads: this scheduler, another one, or nobody; and a failed request for the Lease."""
    style = "yellow"
    if leadership.leading:
        line = f"this scheduler, epoch {leadership.epoch}, lease valid for {leadership.seconds_left:.0f}s"
        style = display.GOOD
    else:
        line = f"standing by: {_holder_text(leadership)}"
    if leadership.last_error:
        line, style = f"{line}; the last request for it failed: {leadership.last_error}", display.BAD
    return text.Text(line, style)


def remarks_on_explanation(found: SchedulerExplanation) -> list[console.RenderableType]:
    """What a frontend that does not lead, or has no synced caches, does not know of the pod, and what to do."""
    out: list[console.RenderableType] = []
    leadership = found.leadership
    if not leadership.leading:
        what_to_do = "Ask again once a frontend leads"
        if leadership.holder:
            what_to_do = f"Run this command where {leadership.holder} runs, or give its address by --server"
        line = f"This frontend stands by: {_holder_text(leadership)}. {what_to_do}."
        out += ["", text.Text(line, display.BAD)]
    if not found.synced:
        line = "Its caches are not synced yet, so that it does not know all pods and nodes: ask again once they are."
        out += ["", text.Text(line, display.BAD)]
    return out


def _holder_text(leadership: Leadership) -> str:
    """Who holds the Lease, as far as a standby knows."""
    if leadership.holder:
        return f"{leadership.holder} holds the lease {leadership.lease}"
    if leadership.last_error:
        return f"nobody is known to hold the lease {leadership.lease}"
    return "nobody holds the lease yet"
