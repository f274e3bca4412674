"""The story of a simulation for people: when, which process, what happened.

The trace has every write and tells whether two runs are equal. The timeline leaves out what says little, such as
renewals of the Lease, and has the processes' warnings and the requests for bindings.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.simulation import simulated_process
from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import ADDED, DELETED, Event

_MAX_ENTRIES = 20_000
_NAME = re.compile(r"[\w.-]*\d[\w.-]*")


class Entry(NamedTuple):
    """`at` in seconds of the simulation. `general`: it may matter to any failure, as a fault does."""

    at: float
    process: str
    text: str
    general: bool

    def __str__(self) -> str:
        return f"{self.at:12.6f}  {self.process:11}  {self.text}"


class Timeline:
    """The last entries."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._entries: collections.deque[Entry] = collections.deque(maxlen=_MAX_ENTRIES)

    def add(self, text: str, process: str = "", *, general: bool = False) -> None:
        """Add an entry; without a name it is of the process that runs."""
        if not process:
            current = simulated_process.current()
            process = "simulation" if current is None else current.name
        self._entries.append(Entry(self._now(), process, text, general))

    def about(self, texts: Iterable[str], count: int) -> list[Entry]:
        """The last entries that are general, or about a pod or node that one of the texts names."""
        names = {name for text in texts for name in _NAME.findall(text)}
        found = [entry for entry in self._entries if entry.general or names.intersection(_NAME.findall(entry.text))]
        return found[-count:]


def changes(resource: Resource, event: Event) -> Iterator[str]:
    """What of a write a reader wants to know."""
    name = f"{resource.plural} {event.record.name}"
    if resource.plural == "events":
        return
    if event.type == ADDED:
        yield f"{name} created{_details(resource, event.record.object)}"
    elif event.type == DELETED:
        yield f"{name} deleted"
    elif event.before is not None:
        before, after = event.before.object, event.record.object
        yield from (f"{name}: {text}" for text in _differences(resource, before, after))


def _details(resource: Resource, created: Object) -> str:
    if resource is not PODS:
        return ""
    spec = created["spec"]
    requests = [container.get("resources", {}).get("requests", {}) for container in spec["containers"]]
    texts = [" ".join(f"{key} {value}" for key, value in each.items()) for each in requests]
    texts.extend(f"{key} {spec[key]}" for key in ("priorityClassName", "nodeSelector") if key in spec)
    return f" ({', '.join(texts)})"


# By resource: where a value is in the object, and what its change means.
_FIELDS: dict[Resource, tuple[tuple[tuple[str, str], str], ...]] = {
    PODS: (
        (("spec", "nodeName"), "bound to {}"),
        (("spec", "schedulingGates"), "gates {}"),
        (("status", "nominatedNodeName"), "nominated to {}"),
        (("status", "phase"), "is {}"),
        (("metadata", "deletionTimestamp"), "is to end"),
    ),
    NODES: ((("spec", "unschedulable"), "unschedulable {}"), (("spec", "taints"), "taints {}")),
    LEASES: ((("spec", "holderIdentity"), "held by {}"),),
}


def _differences(resource: Resource, before: Object, after: Object) -> Iterator[str]:
    for path, text in _FIELDS.get(resource, ()):
        value = _value(after, path)
        if value != _value(before, path):
            yield text.format(value or "nothing")


def _value(found: Object, path: tuple[str, str]) -> Any:
    return (found.get(path[0]) or {}).get(path[1])
