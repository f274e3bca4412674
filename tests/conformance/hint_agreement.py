"""Comparing what plugins register and what their queueing hints say to golden rows.

Which events an update is taken for is known by `trireme.framework.cluster_event`; what each plugin registers, and its
hints, are asked of `REGISTERED` and `HINTS` below. A plugin that is in neither counts as *not yet*.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decision_differences import Finding, Verdict
from golden_rows import Row

from trireme.framework import cluster_event
from trireme.kube import decode
from trireme.v1 import core_pb2

Json = dict[str, Any]

# By plugin: the events that it registers, in the form of the rows.
REGISTERED: Mapping[str, Callable[[], list[Json]]] = {}

# By plugin: its answer to a case, `Queue` or `QueueSkip`.
HINTS: Mapping[str, Callable[[Json], str]] = {}


def answer(row: Row) -> Json:
    """What we say, in the form of a row's `expect`; what nobody answers yet is left out."""
    case = row["case"]
    plugin = case["plugin"]
    if "event" not in case:
        return {"events": REGISTERED[plugin]()} if plugin in REGISTERED else {}
    out = {"hint": HINTS[plugin](case)} if plugin in HINTS else {}
    changes = _changes(case)
    return out if changes is None else {**out, "changes": changes}


def compare(row: Row, said: Json) -> list[Finding]:
    """All findings about a row."""
    return list(_findings(row, said))


def _findings(row: Row, said: Json) -> Iterator[Finding]:
    for field in ("events", "hint", "changes"):
        if field not in row["expect"]:
            continue
        expected, answered = _ordered(row["expect"][field]), _ordered(said.get(field))
        about = (row["name"], "hints", field, row["case"]["plugin"])
        if field not in said:
            yield Finding(*about, Verdict.NOT_YET)
        elif expected == answered:
            yield Finding(*about, Verdict.AGREES)
        else:
            yield Finding(*about, Verdict.DIFFERS, str(expected), str(answered))


def _ordered(value: Any) -> Any:
    """Registrations in one order, their actions too: neither is told by the order."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return value
    entries = [{**entry, "actions": sorted(entry["actions"])} for entry in value]
    return sorted(entries, key=lambda entry: (entry["resource"], entry["actions"]))


def _changes(case: Json) -> list[str] | None:
    """The events that an update is taken for; None for another kind of event or object."""
    if "old" not in case or "new" not in case:
        return None
    resource = case["event"]["resource"]
    if resource == "Node":
        nodes = (decode.decode(case[side], core_pb2.Node) for side in ("old", "new"))
        return [event.label for event in cluster_event.node_update_events(*nodes)]
    if resource.endswith("Pod"):
        pods = (decode.decode(case[side], core_pb2.Pod) for side in ("old", "new"))
        return [event.label for event in cluster_event.pod_update_events(*pods, target=resource == "TargetPod")]
    return None
