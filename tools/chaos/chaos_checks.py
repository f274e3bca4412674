"""What must hold after every write: no pod is lost, none is bound twice, no node has more than it has room for.

Fed with the writes in etcd's order. It also measures how long no pod was bound although some waited. Pure: moments are
arguments, and the amounts are read off the objects without the scheduler's code.

Also change: docs/reliability.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

PASSED_OVER = 1000
"""A pod is lost that waits while so many created after it are bound."""

SHORTEST_GAP = 0.2
"""Units: seconds."""

SHORTEST_WAIT = 1.0
"""Units: seconds."""

_UNITS = {"m": 1e-3, "": 1.0, "k": 1e3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}


class Amounts(NamedTuple):
    """What a pod requests or a node has: thousandths of CPUs, bytes, pods."""

    cpu: int
    memory: int
    pods: int

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(*(mine + yours for mine, yours in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        return Amounts(*(mine - yours for mine, yours in zip(self, other, strict=True)))

    def exceeds(self, room: Amounts) -> bool:
        return any(mine > there for mine, there in zip(self, room, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be. Units: seconds of the run's clock for `at`."""

    what: str
    at: float
    text: str


LOST, TWICE, OVERCOMMITTED = "lost", "bound twice", "overcommitted"


@dataclasses.dataclass(slots=True)
class _Pod:
    uid: str
    amounts: Amounts
    created_at: float
    bound_before: int
    """How many pods had been bound when it was created."""
    node: str = ""
    passed_over: bool = False


class Gap(NamedTuple):
    """No pod was bound in this time, and some pod waited throughout."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Wait(NamedTuple):
    """A pod from its creation until it was bound, whatever was bound meanwhile."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Checks:
    """Follows the pods of a cluster whose nodes stay as they are."""

    def __init__(self, room: Mapping[str, Amounts]) -> None:
        """`room` is what each node has."""
        self._room = room
        self._used = {node: Amounts(0, 0, 0) for node in room}
        self._pods: dict[str, _Pod] = {}
        self._waiting: dict[str, None] = {}
        self._to_be_deleted: set[str] = set()
        self._gap_start: float | None = None
        self.violations: list[Violation] = []
        self.gaps: list[Gap] = []
        self.waits: list[Wait] = []
        self.created = self.bound = 0
        self.longest_wait = 0.0

    @property
    def waiting(self) -> list[str]:
        """The pods that have no node, oldest first."""
        return list(self._waiting)

    @property
    def placed(self) -> dict[str, str]:
        """The node of each pod that has one."""
        return {name: pod.node for name, pod in self._pods.items() if pod.node}

    def __len__(self) -> int:
        return len(self._pods)

    def expect_deletion(self, name: str) -> None:
        """The load deletes this pod; one that goes without that is lost."""
        self._to_be_deleted.add(name)

    def write(self, pod: Mapping[str, Any], at: float) -> None:
        """A pod was created or changed."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        node = pod["spec"].get("nodeName", "")
        known = self._pods.get(name)
        if known is None:
            known = self._pods[name] = _Pod(uid, requests(pod), at, self.bound)
            self.created += 1
            if not self._waiting:
                self._gap_start = at
            self._waiting[name] = None
        if known.node and node != known.node:
            self._violated(TWICE, at, f"{name} was on {known.node} and is on {node or 'no node'}")
            self._take(known.node, known, -1)
            known.node = ""
        if node and node != known.node:
            self._bound(name, known, node, at)

    def delete(self, name: str, at: float) -> None:
        """A pod is gone."""
        pod = self._pods.pop(name)
        if name not in self._to_be_deleted:
            self._violated(LOST, at, f"{name} was deleted, by nobody who may")
        self._to_be_deleted.discard(name)
        self._waiting.pop(name, None)
        if pod.node:
            self._take(pod.node, pod, -1)
        if not self._waiting:
            self._gap_start = None

    def check_waiting(self, at: float) -> None:
        """Look for pods that the scheduler has forgotten."""
        for name in self._waiting:
            pod = self._pods[name]
            self.longest_wait = max(self.longest_wait, at - pod.created_at)
            if self.bound - pod.bound_before > PASSED_OVER and not pod.passed_over:
                pod.passed_over = True
                seconds = at - pod.created_at
                self._violated(LOST, at, f"{name} waits for {seconds:.0f} s, and {PASSED_OVER} later ones are bound")

    def end(self, at: float) -> None:
        """The run is over, long after the last fault: what waits now is lost."""
        self._close_gap(at)
        for name in self._waiting:
            if not self._pods[name].passed_over:
                seconds = at - self._pods[name].created_at
                self._violated(LOST, at, f"{name} is not bound after {seconds:.0f} s")

    def _bound(self, name: str, pod: _Pod, node: str, at: float) -> None:
        if name in self._waiting:
            self.bound += 1
            self.longest_wait = max(self.longest_wait, at - pod.created_at)
            if at - pod.created_at >= SHORTEST_WAIT:
                self.waits.append(Wait(pod.created_at, at))
            self._close_gap(at)
            del self._waiting[name]
            self._gap_start = at if self._waiting else None
        pod.node = node
        self._take(node, pod, 1)
        if self._used[node].exceeds(self._room[node]):
            used, room = tuple(self._used[node]), tuple(self._room[node])
            self._violated(OVERCOMMITTED, at, f"{name} overcommits {node}: {used} of {room}")

    def _close_gap(self, at: float) -> None:
        if self._gap_start is not None and at - self._gap_start >= SHORTEST_GAP:
            self.gaps.append(Gap(self._gap_start, at))

    def _take(self, node: str, pod: _Pod, sign: int) -> None:
        used = self._used[node]
        self._used[node] = used.plus(pod.amounts) if sign > 0 else used.minus(pod.amounts)

    def _violated(self, what: str, at: float, text: str) -> None:
        self.violations.append(Violation(what, at, text))


def requests(pod: Mapping[str, Any]) -> Amounts:
    """What a pod requests."""
    asked = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
    cpu = sum(_number(each.get("cpu", "0")) for each in asked)
    memory = sum(_number(each.get("memory", "0")) for each in asked)
    return Amounts(math.ceil(cpu * 1000 - 1e-6), int(memory), 1)


def room(node: Mapping[str, Any]) -> Amounts:
    """What a node has for pods."""
    amounts = node["status"]["allocatable"]
    return Amounts(round(_number(amounts["cpu"]) * 1000), int(_number(amounts["memory"])), int(amounts["pods"]))


def _number(quantity: str) -> float:
    digits = quantity.rstrip("mkKMGi")
    return float(digits) * _UNITS[quantity[len(digits) :]]
