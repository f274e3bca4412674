"""What must hold of what users read about a pod: its condition adds up, in no future, and events say what happened."""

from __future__ import annotations

import collections
import datetime
import re
from collections.abc import Callable, Iterator, Sequence

from tests.simulation.placed_pods import PlacedPods
from tests.simulation.pod_demands import group_of
from trireme_kube.embedded.api.resources import EVENTS, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import ADDED, DELETED, Event, Store

# A leader may know the nodes as they were so long ago. Units: seconds.
LAG_SECONDS = 120.0
# How far two clocks of one process may be apart. Units: seconds.
_ACCURACY = 0.6
_NODES = re.compile(r"0/(\d+) nodes are available:(.*)", re.DOTALL)
_COUNTED = re.compile(r"(?:^| )(\d+) [A-Za-z]")
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")


class ReportChecks:
    """Follows the writes. `violations` are in the order in which they happened."""

    def __init__(
        self, store: Store, placed: PlacedPods, now: Callable[[], float], latest_wall: Callable[[], float]
    ) -> None:
        """`latest_wall`: the wall clock of the process whose clock is set furthest ahead. Units: Unix seconds."""
        self.violations: list[str] = []
        self._latest_wall = latest_wall
        # How far a wall clock has been ahead of the simulation's time.
        self._ahead = 0.0
        self._placed = placed
        self._now = now
        # How many nodes there were, from which moment on.
        self._counts: collections.deque[tuple[float, int]] = collections.deque([(0.0, 0)])
        store.listen_to_all(self._on_write)

    def _on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is NODES and event.before is None:
            self._count(1)
        elif resource is NODES and event.type == DELETED:
            self._count(-1)
        elif resource is PODS and event.before is not None and event.type != DELETED:
            self._check_times(event.record.name, event.record.object, event.before.object)
            text = _refusal(event.record.object)
            if text != _refusal(event.before.object):
                wrong = self._wrong(text, of_group=bool(group_of(event.record.object)))
                self.violations += [f"condition of pod {event.record.name}: {each}" for each in wrong]
        elif resource is EVENTS and event.type == ADDED:
            self.violations += self._wrong_event(event.record.object)

    def _check_times(self, name: str, pod: Object, before: Object) -> None:
        self._ahead = max(self._ahead, self._latest_wall() - self._now())
        known = _conditions(before)
        for each in _conditions(pod):
            time = each.get("lastTransitionTime")
            if each not in known and time:
                ahead = datetime.datetime.fromisoformat(time).timestamp() - self._now() - self._ahead
                if ahead > _ACCURACY:
                    self.violations.append(f"condition {each['type']} of pod {name} is of {ahead:.1f} s in the future")

    def _count(self, change: int) -> None:
        self._counts.append((self._now(), self._counts[-1][1] + change))
        while len(self._counts) > 2 and self._counts[1][0] < self._now() - LAG_SECONDS:
            self._counts.popleft()

    def _wrong(self, message: str, *, of_group: bool) -> Iterator[str]:
        """What is wrong with the text of a refusal: of so many nodes, each has a reason, and none more often.

        A group that has to be in one zone is refused by the nodes of a zone.
        """
        if (found := _NODES.match(message)) is None:
            return
        number, (reasons, _, preemption) = int(found[1]), found[2].partition(" preemption: ")
        known = {count for _, count in self._counts}
        if number > max(known) or (not of_group and number not in known):
            yield f"{message!r}, and there are {sorted(known)} nodes"
        tried = _NODES.match(preemption)
        if tried is not None and tried[1] != found[1]:
            yield f"{message!r}: preemption was tried on {tried[1]} nodes"
        for text in (reasons, "" if tried is None else tried[2]):
            counts = [int(each) for each in _COUNTED.findall(text)]
            if counts and (max(counts) > number or sum(counts) < number):
                yield f"{message!r}: not each of {number} nodes has a reason in{text}"

    def _wrong_event(self, written: Object) -> Iterator[str]:
        """A pod is where its event says."""
        uid = (written.get("involvedObject") or written.get("regarding") or {}).get("uid", "")
        text = written.get("message") or written.get("note") or ""
        if written.get("reason") == "Scheduled":
            found, node = _ASSIGNED.match(text), self._placed.node_of.get(uid)
            if node is not None and (found is None or found[1] != node):
                yield f"an event says {text!r}, and the pod is on {node}"
        elif written.get("reason") == "FailedScheduling":
            yield from (f"event: {each}" for each in self._wrong(text, of_group=True))  # it does not say


def _conditions(pod: Object) -> Sequence[Object]:
    return (pod.get("status") or {}).get("conditions") or ()


def _refusal(pod: Object) -> str:
    """The text of the pod's condition; empty: nothing has refused it."""
    return next((str(each.get("message", "")) for each in _conditions(pod) if each["type"] == "PodScheduled"), "")
