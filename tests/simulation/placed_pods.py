"""The pods on each node, and what they take of it, as the API server has them."""

from __future__ import annotations

import collections
from typing import NamedTuple

from tests.simulation.pod_demands import Amounts, allocatable, exclusions_of, is_done, requests_of, volume_claims_of
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.storage.store import DELETED, Event

_NOTHING = Amounts(0, 0, 0, 0)


class PlacedPod(NamedTuple):
    """What a pod takes of its node: resources, what no other pod there may have, and volumes."""

    requests: Amounts
    exclusions: frozenset[str]
    volumes: tuple[str, ...]


def placed_pod(pod: Object) -> PlacedPod:
    """What a pod takes, or would take."""
    return PlacedPod(requests_of(pod), exclusions_of(pod), tuple(volume_claims_of(pod)))


class PlacedPods:
    """Follows the writes. `node_of` has the node of each pod that has one, by UID."""

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        self._placed: dict[str, dict[str, PlacedPod]] = collections.defaultdict(dict)

    def on_pod(self, event: Event) -> None:
        """A pod was written."""
        pod, uid = event.record.object, event.record.uid
        if event.type == DELETED or is_done(pod):
            node = self.node_of.get(uid, "")
            self._placed[node].pop(uid, None)
            if not self._placed[node]:
                del self._placed[node]
            if event.type == DELETED:
                self.node_of.pop(uid, None)
        elif uid not in self.node_of and (node := pod["spec"].get("nodeName")):
            self.node_of[uid] = node
            self._placed[node][uid] = placed_pod(pod)

    def on(self, node: str) -> list[PlacedPod]:
        """The pods on a node."""
        return list(self._placed.get(node, {}).values())


def used(pods: list[PlacedPod]) -> tuple[int, ...]:
    """What these pods take of each resource, and how many they are; as `pod_demands.allocatable`."""
    return *(sum(amounts) for amounts in zip(_NOTHING, *(each.requests for each in pods), strict=True)), len(pods)


def has_room(node: Object, there: list[PlacedPod], wanted: PlacedPod) -> bool:
    """Whether the node has enough left beside these pods of all that a pod requests; of other resources it may not."""
    taken, own = used([*there, wanted]), used([wanted])
    return all(not asked or amount <= limit for asked, amount, limit in zip(own, taken, allocatable(node), strict=True))


def excluded(pods: list[PlacedPod]) -> set[str]:
    """What no further pod may have beside these."""
    return {exclusion for each in pods for exclusion in each.exclusions}


def volumes(pods: list[PlacedPod]) -> set[str]:
    """The claims of these pods' volumes."""
    return {claim for each in pods for claim in each.volumes}
