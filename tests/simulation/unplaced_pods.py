"""Which pending pods fit on some node: once everything is at rest there are none."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Set
from typing import NamedTuple

from tests.simulation.placed_pods import PlacedPod, PlacedPods, excluded, placed_pod, used, volumes
from tests.simulation.pod_demands import (
    allocatable,
    device_claims_of,
    devices_of,
    extended_devices_of,
    group_of,
    is_done,
    is_terminating,
    made_claim_of,
    may_run_on,
)
from tests.simulation.simulated_workloads import (
    DEVICE_CLAIMS,
    DEVICES_OF_A_NODE,
    GROUPS,
    VOLUME_CLAIMS,
    VOLUMES_OF_A_NODE,
    ZONE,
)
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS, Object
from trireme_kube.embedded.storage.store import Store

_VOLUMES = BY_KEY["persistentvolumes"]
_ZONES = ("zone-1", "zone-2", "zone-3")


def pods_that_fit(store: Store, placed: PlacedPods, devices_taken: Mapping[str, int]) -> list[str]:
    """The names of pending pods that some node has room for; of a group only if so many fit as have to go together.

    A member that is gated holds back its whole group, however few of them have to go together, as with kube-scheduler
    (`runPreEnqueuePlugins` of backend/queue/scheduling_queue.go).

    `devices_taken`: how many devices of each node claims have.
    """
    pods = [record.object for record in store.scan(PODS)]
    pending = [
        pod
        for pod in pods
        if not pod["spec"].get("nodeName") and not is_terminating(pod) and not pod["spec"].get("schedulingGates")
    ]
    if not pending:
        return []
    room = _Room(store, placed, devices_taken, pending)
    alone = [pod["metadata"]["name"] for pod in pending if not group_of(pod) and room.where(pod)]
    return alone + _groups_that_fit(store, pods, pending, room)


def uids_that_keep_claims(store: Store) -> Set[str]:
    """The pods of groups with a topology constraint: no attempt releases a claim that one before made for them.

    So it is with kube-scheduler (`PodGroupPostFilter` of plugins/dynamicresources/dynamicresources.go).
    """
    groups = {record.name for record in store.scan(GROUPS) if "schedulingConstraints" in record.object["spec"]}
    return {record.object["metadata"]["uid"] for record in store.scan(PODS) if group_of(record.object) in groups}


def _groups_that_fit(store: Store, pods: list[Object], pending: list[Object], room: _Room) -> list[str]:
    """The pending pods of groups that fit; the pods of a group are alike, so it makes no difference which go first."""
    found = []
    waiting, scheduled = _by_group(pending), collections.Counter(map(group_of, filter(_is_scheduled, pods)))
    held_back = {group_of(pod) for pod in pods if pod["spec"].get("schedulingGates")}
    for record in store.scan(GROUPS) if waiting else ():
        if record.name in held_back:
            continue
        spec, members = record.object["spec"], waiting[record.name]
        zones = _ZONES if "schedulingConstraints" in spec else ("",)
        if zones is _ZONES and (scheduled[record.name] or any(_has_made_claim(store, pod) for pod in members)):
            continue  # it may only go where the others are, or the devices of `uids_that_keep_claims`
        needed = max(spec["schedulingPolicy"]["gang"]["minCount"] - scheduled[record.name], 1)
        if len(members) >= needed and any(room.has_room_for(members, needed, zone) for zone in zones):
            found += [pod["metadata"]["name"] for pod in members]
    return found


def _by_group(pods: list[Object]) -> Mapping[str, list[Object]]:
    """The pods that have a group, by its name."""
    found: dict[str, list[Object]] = collections.defaultdict(list)
    for pod in pods:
        if group := group_of(pod):
            found[group].append(pod)
    return found


def _has_made_claim(store: Store, pod: Object) -> bool:
    """Whether a claim that an attempt made for the pod has devices."""
    record = store.get(DEVICE_CLAIMS, "default", made_claim_of(pod))
    return record is not None and bool(devices_of(record.object))


def _is_scheduled(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not is_done(pod)


class _Contents(NamedTuple):
    """What is on a node. `free`: amounts of all resources, and number of pods."""

    free: tuple[int, ...]
    exclusions: Set[str]
    volumes: Set[str]


class _Room:
    """What is free on each node."""

    def __init__(
        self, store: Store, placed: PlacedPods, devices_taken: Mapping[str, int], pending: list[Object]
    ) -> None:
        self._store = store
        self._placed = placed
        self._devices_taken = devices_taken
        self._nodes = [record.object for record in store.scan(NODES)]
        # Nodes whose room is meant for pods that made victims go there.
        self._nominated = {pod.get("status", {}).get("nominatedNodeName", "") for pod in pending}
        # What pods would take that were found room for, by node.
        self._added: dict[str, list[PlacedPod]] = {}
        self._devices_added: dict[str, int] = {}
        self._contents: dict[str, _Contents] = {}

    def has_room_for(self, pods: list[Object], needed: int, zone: str = "") -> bool:
        """Whether so many of the pods fit beside each other; `zone`: in that zone."""
        fitting = 0
        for pod in pods:
            node = self.where(pod, zone)
            if node:
                fitting += 1
                self._added.setdefault(node, []).append(placed_pod(pod))
                self._devices_added[node] = self._devices_added.get(node, 0) + self._devices_to_give(pod)
                self._contents.pop(node)
        for node in self._added:
            self._contents.pop(node, None)
        self._added.clear()
        self._devices_added.clear()
        return fitting >= needed

    def where(self, pod: Object, zone: str = "") -> str:
        """A node, of the zone if one is given, that it fits on; empty: none."""
        wanted = placed_pod(pod)
        nodes = [node for node in self._nodes if zone in ("", node["metadata"]["labels"][ZONE])]
        return next((node["metadata"]["name"] for node in nodes if self._fits(pod, wanted, node)), "")

    def _fits(self, pod: Object, wanted: PlacedPod, node: Object) -> bool:
        name, labels = node["metadata"]["name"], node["metadata"]["labels"]
        there = self._contents_of(name, node)
        if any(amount > max(free, 0) for amount, free in zip(used([wanted]), there.free, strict=True)):
            return False
        if not may_run_on(pod, node):
            return False
        if name in self._nominated and pod.get("status", {}).get("nominatedNodeName") != name:
            return False
        if there.exclusions & wanted.exclusions or len(there.volumes | volumes([wanted])) > VOLUMES_OF_A_NODE:
            return False
        return self._has_devices(pod, name) and self._reaches_volumes(wanted, labels[ZONE])

    def _contents_of(self, name: str, node: Object) -> _Contents:
        """What is on a node, summed up once for all pods."""
        found = self._contents.get(name)
        if found is None:
            there = self._placed.on(name) + self._added.get(name, [])
            free = tuple(limit - amount for limit, amount in zip(allocatable(node), used(there), strict=True))
            found = self._contents[name] = _Contents(free, excluded(there), volumes(there))
        return found

    def _claims(self, pod: Object) -> list[Object]:
        found = (self._store.get(DEVICE_CLAIMS, "default", name) for name in device_claims_of(pod))
        return [record.object for record in found if record is not None]

    def _devices_to_give(self, pod: Object) -> int:
        """How many devices it is still to get, by its claims or by one that is made for it."""
        requests = [claim["spec"]["devices"]["requests"][0] for claim in self._claims(pod) if not devices_of(claim)]
        return extended_devices_of(pod) + sum(request["exactly"].get("count", 1) for request in requests)

    def _has_devices(self, pod: Object, node: str) -> bool:
        taken = self._devices_taken.get(node, 0) + self._devices_added.get(node, 0)
        given = {pool for claim in self._claims(pod) for _, pool, _ in devices_of(claim)}
        return given <= {node} and taken + self._devices_to_give(pod) <= DEVICES_OF_A_NODE

    def _reaches_volumes(self, wanted: PlacedPod, zone: str) -> bool:
        found = (self._store.get(VOLUME_CLAIMS, "default", name) for name in wanted.volumes)
        zones = {zone_of_volume(self._store, record.object) for record in found if record is not None}
        return zones <= {None, zone}


def zone_of_volume(store: Store, claim: Object) -> str | None:
    """The zone of a claim's volume; None: it has none yet, or one that is everywhere."""
    volume = store.get(_VOLUMES, "", claim["spec"].get("volumeName") or "")
    if volume is None:
        return None
    required = (volume.object["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            if expression["key"] == ZONE:
                return str(expression["values"][0])
    return None
