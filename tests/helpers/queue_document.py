"""docs/queue-states.md, written from the states of the queue: `make docs` runs this, and a test compares."""

import inspect
import pathlib
import typing

from trireme.queueing import state_machine, states

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/queue-states.md"

_HEAD = """# The states of the queue

<!-- Written by `make docs` from internal/trireme/queueing/states.py and state_machine.py. -->

Each pod that the [queue](../internal/trireme/queueing/scheduling_queue.py)
knows is in one of these states, and only
[Transitions](../internal/trireme/queueing/transitions.py), and for groups and their members
[group_transitions](../internal/trireme/queueing/groups/group_transitions.py), changes it. The
tests check every transition of random histories by the machines below.

| state | known only in it | `place` in `trireme status -o json` | what it means |
| --- | --- | --- | --- |
"""

_COUNTS = """
The line `Queue` of `trireme status` counts `Gated` and `PreEnqueuePending` as gated. It
leaves out `WaitingForGroup` and `GroupInFlight`.
"""

_MACHINES = (
    ("A pod that is in no group", state_machine.PODS),
    ("A group, which is queued in place of its waiting members", state_machine.GROUPS),
)

_MEMBERS = """
## A member of a group

A member has the state of its group while the group waits. It is in
`GroupInFlight` if it came while the group was being tried, and in
`WaitingForGroup` while an object of the group is missing. In flight and done it
is by itself.
"""


def write() -> str:
    """The document's text."""
    rows = [_row(state) for state in typing.get_args(states.QueueState)]
    drawings = [f"\n## {title}\n\n```mermaid\n{_drawing(machine)}```\n" for title, machine in _MACHINES]
    return _HEAD + "".join(rows) + _COUNTS + "".join(drawings) + _MEMBERS


def _row(state: state_machine.State) -> str:
    fields = ", ".join(f"`{name}`" for name in inspect.signature(state).parameters)
    meaning = " ".join((inspect.getdoc(state) or "").replace("`", "").split())
    return f"| `{state.__name__}` | {fields} | {state.label} | {meaning} |\n"


def _drawing(machine: state_machine.Machine) -> str:
    lines = ["stateDiagram-v2\n"]
    for state, followers in machine.items():
        for follower, cause in followers.items():
            lines.append(f"    {_name(state)} --> {_name(follower)}: {cause}\n")
    return "".join(lines)


def _name(state: state_machine.State) -> str:
    return "[*]" if state is states.Gone else state.__name__


if __name__ == "__main__":
    DOCUMENT.write_text(write())
