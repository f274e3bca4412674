"""What must hold after every write at the API server, and what must have happened some time after the last fault."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import NamedTuple

from simulated_load import allocatable, exclusions_of, requests_of

from trireme_kube.embedded.api.resources import NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, Event, Store


class _PlacedPod(NamedTuple):
    """What a pod takes of its node: CPUs in thousandths, MiB, and what no other pod there may have."""

    cpu: int
    memory: int
    exclusions: frozenset[str]


class Invariants:
    """Follows the writes. `violations` are in the order in which they happened."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.violations: list[str] = []
        self.bound = 0
        # By node, the pods on it by their UIDs.
        self._placed: dict[str, dict[str, _PlacedPod]] = collections.defaultdict(dict)
        self._node_of: dict[str, str] = {}
        # Epochs of leaders by which binding was requested, by pod, and the highest one that has bound a pod.
        self._epochs: dict[str, set[int]] = collections.defaultdict(set)
        self._epoch_in_force = 0

    def on_bind_request(self, uid: str, epoch: int) -> None:
        """A leader of that epoch has a pod bound."""
        self._epochs[uid].add(epoch)

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is PODS:
            try:
                self._on_pod(event)
            except Exception as error:  # to the API server it would be an error of its own, which its clients see
                self._violated(f"the check of {event.record.name} failed: {error!r}")

    def _on_pod(self, event: Event) -> None:
        pod, uid = event.record.object, event.record.uid
        before, after = self._node_of.get(uid, ""), pod["spec"].get("nodeName", "")
        if event.type == DELETED or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            self._placed[before].pop(uid, None)
            if event.type == DELETED:
                self._node_of.pop(uid, None)
                self._epochs.pop(uid, None)
            return
        if before and after != before:
            self._violated(f"pod {event.record.name} was bound to {before} and is bound to {after!r}")
        if after and not before:
            self.bound += 1
            self._node_of[uid] = after
            self._check_exclusions(after, pod)
            self._placed[after][uid] = _PlacedPod(*requests_of(pod), exclusions_of(pod))
            self._check_room(after, event.record.name)
            self._check_epoch(uid, event.record.name)

    def _check_room(self, name: str, pod: str) -> None:
        """No node is given more than it has."""
        node = self._store.get(NODES, "", name)
        if node is None:
            return  # it was removed after the decision, as it may be with any scheduler
        room = allocatable(node.object)
        used = self._used(name)
        if any(amount > limit for amount, limit in zip(used, room, strict=True)):
            self._violated(f"pod {pod} overcommits {name}: {used} of {room} (thousandths of CPUs, MiB, pods)")

    def _used(self, name: str) -> tuple[int, int, int]:
        placed = self._placed[name].values()
        return sum(each.cpu for each in placed), sum(each.memory for each in placed), len(placed)

    def _taken(self, name: str) -> set[str]:
        """What no further pod on the node may have."""
        return {exclusion for each in self._placed[name].values() for exclusion in each.exclusions}

    def _check_exclusions(self, name: str, pod: Object) -> None:
        """No two pods on a node have the same host port, or labels that keep them apart."""
        both = self._taken(name) & exclusions_of(pod)
        if both:
            self._violated(f"pod {pod['metadata']['name']} shares {sorted(both)} with another pod on {name}")

    def _check_epoch(self, uid: str, pod: str) -> None:
        """Once a leader has bound a pod, none before it does."""
        epochs = self._epochs.get(uid)
        if not epochs:
            self._violated(f"pod {pod} was bound without a leader's request")
            return
        if max(epochs) < self._epoch_in_force:
            self._violated(
                f"pod {pod} was bound for epoch {max(epochs)} after epoch {self._epoch_in_force} had bound one"
            )
        if len(epochs) == 1:
            self._epoch_in_force = max(self._epoch_in_force, *epochs)

    def _violated(self, text: str) -> None:
        self.violations.append(text)

    # Liveness

    def pods_that_fit(self) -> list[str]:
        """The pending pods that some node has room for; long after the last fault there are none."""
        pending = [
            record.object
            for record in self._store.scan(PODS)
            if not record.object["spec"].get("nodeName")
            and "deletionTimestamp" not in record.object["metadata"]
            and not record.object["spec"].get("schedulingGates")
        ]
        nodes = [record.object for record in self._store.scan(NODES)] if pending else []
        nominated = self._nominated(pending)
        return [pod["metadata"]["name"] for pod in pending if any(self._fits(pod, node, nominated) for node in nodes)]

    @staticmethod
    def _nominated(pending: list[Object]) -> set[str]:
        """Nodes whose room is meant for pods that made victims go there."""
        return {pod.get("status", {}).get("nominatedNodeName", "") for pod in pending}

    def _fits(self, pod: Object, node: Object, nominated: set[str]) -> bool:
        name, spec = node["metadata"]["name"], pod["spec"]
        selector: Mapping[str, str] = spec.get("nodeSelector") or {}
        labels = node["metadata"].get("labels") or {}
        if node["spec"].get("unschedulable") or any(labels.get(key) != value for key, value in selector.items()):
            return False
        if name in nominated and pod.get("status", {}).get("nominatedNodeName") != name:
            return False
        if self._taken(name) & exclusions_of(pod):
            return False
        cpu, memory = requests_of(pod)
        used = self._used(name)
        room = allocatable(node)
        return used[0] + cpu <= room[0] and used[1] + memory <= room[1] and used[2] < room[2]
