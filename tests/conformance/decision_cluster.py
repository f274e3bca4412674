"""A golden case as the frontend would know it: its objects, as JSON, put into the frontend's own cluster cache.

What an informer does is done here by hand, with the same parts: nodes are decoded, pods projected and interned as
classes, other objects kept as they are, and the label keys that anything selects by make classes finer.

`grow` brings a case about by steps, for replicas that follow deltas: first something else in places (nodes with another
node's content, pods and objects that will be gone, others that are still missing), then all that is different, in
several deltas. The end is the case, whatever way led there.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from trireme.cache import class_registry, cluster_cache, object_kinds, placed_pod, pod_projection
from trireme.config import gates
from trireme.framework import amounts, resizes
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

_KINDS = {kind.message.DESCRIPTOR.name: kind for kind in object_kinds.KINDS}

# How many deltas bring about what is different, at most.
_STEPS = 4

# How the names of what will be gone begin.
_DETOUR = "detour-"


class DecisionCluster:
    """The cluster of one case in a cluster cache."""

    def __init__(self, case: Json) -> None:
        self._case = case
        self.pod: Json = case["pod"]
        # A pod that tries again may be nominated itself; it must not count for itself.
        self._nominated: list[Json] = [*(case.get("nominated") or ()), self.pod]
        features = gates.FeatureGates(values=case.get("featureGates") or {})
        self.registry = class_registry.ClassRegistry(
            rules=amounts.rules_of(features.all()), keep_deferred=features.enabled(resizes.GATE)
        )
        self.cache = cluster_cache.ClusterCache(self.registry)

    def fill(self) -> None:
        """All of the case's objects at once."""
        for change in self._changes():
            change()
        # A nomination names its pod's class for good, so nothing may make classes finer after it.
        for pod in self._nominated:
            self.class_of(pod)
        for pod in self._nominated:
            self.nominate(pod)
        self.class_of(self.pod)

    def grow(self, draw: random.Random) -> Iterator[None]:
        """Near the case by steps, after each of which the cache has changes to be taken as a delta.

        `fill` does the rest.
        """
        for change in self._detours(draw):
            change()
        yield
        changes = [change for change in self._changes() if draw.random() < 0.7]
        draw.shuffle(changes)
        for some in _split(changes, draw.randint(1, _STEPS)):
            for change in some:
                change()
            yield
        for number, pod in enumerate(self._nominated):
            # Nominated elsewhere, and under another name.
            node = draw.choice(self._case["nodes"])["metadata"]["name"]
            elsewhere = {**pod, "status": {**(pod.get("status") or {}), "nominatedNodeName": node}}
            self.nominate(elsewhere)
            metadata = {**pod["metadata"], "name": f"{_DETOUR}{number}", "uid": f"{_DETOUR}{number}"}
            self.nominate({**elsewhere, "metadata": metadata})
        yield
        for number in range(len(self._nominated)):
            self.cache.nominate(f"{_DETOUR}{number}", None)
        for name in self.cache.node_names():
            if name.startswith(_DETOUR):
                self.cache.remove_node(name)
        for pod in list(self.cache.pods()):
            if pod.uid.startswith(_DETOUR):
                self.cache.remove_pod(pod.uid)
        for kind in object_kinds.KINDS:
            for key in sorted(self.cache.object_keys(kind.field)):
                if draw.random() < 0.3:
                    self.cache.remove_object(kind.field, *key)
        yield

    def class_of(self, pod: Json) -> int:
        """The class of a pod that waits."""
        parsed = pod_projection.parse(pod)
        base = self.registry.intern_base(
            pod_projection.unique_base_of_deferred_resize(parsed) if parsed.node_name else parsed.base
        )
        class_id = self.registry.intern(base, parsed.labels)
        while self._intern_again():
            # Keys that the pod itself selects by make its own class finer.
            class_id = self.registry.intern(base, parsed.labels)
        return class_id

    def place(self, pod: Json) -> None:
        """The pod is on its node."""
        parsed = pod_projection.parse(pod)
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, parsed.labels), base)
        while self._intern_again():
            pass

    def set_object(self, entry: Json) -> None:
        """The object is this."""
        kind = _KINDS[entry["kind"]]
        message = decode.decode(entry, kind.message)
        self.registry.add_selector_keys(kind.selected_keys(message))
        changed = snapshot_pb2.ClusterObject()
        getattr(changed, kind.field).CopyFrom(message)
        self.cache.set_object(changed)
        while self._intern_again():
            pass

    def nominate(self, pod: Json) -> None:
        """The pod waits for the node that it is nominated to."""
        parsed = pod_projection.parse(pod)
        slot = self.cache.slot_of(parsed.nominated_node)
        if slot == placed_pod.NO_SLOT:
            self.cache.nominate(parsed.uid, None)
            return
        identity = cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid)
        nomination = snapshot_pb2.Nomination(pod=identity, pod_class=self.class_of(pod), slot=slot)
        self.cache.nominate(parsed.uid, nomination)

    def set_node(self, node: Json) -> None:
        """The node is this."""
        self.cache.set_node(decode.decode(node, core_pb2.Node))

    def _intern_again(self) -> bool:
        keys = self.registry.take_new_selector_keys()
        self.cache.reclassify(keys)
        return bool(keys)

    def _changes(self) -> list[Callable[[], None]]:
        case = self._case
        changes: list[Callable[[], None]] = []
        changes += [lambda node=node: self.set_node(node) for node in case["nodes"]]
        changes += [lambda entry=entry: self.set_object(entry) for entry in _objects(case)]
        changes += [lambda pod=pod: self.place(pod) for pod in case.get("pods") or ()]
        return changes

    def _detours(self, draw: random.Random) -> Iterator[Callable[[], None]]:
        nodes = self._case["nodes"]
        pods = self._case.get("pods") or []
        for node in nodes:
            if draw.random() < 0.6:
                other = draw.choice(nodes)
                metadata = {**other["metadata"], "name": node["metadata"]["name"]}
                yield lambda changed={**other, "metadata": metadata}: self.set_node(changed)
        for number in range(draw.randint(0, 3)):
            metadata = {**draw.choice(nodes)["metadata"], "name": f"{_DETOUR}{number}"}
            added = {**draw.choice(nodes), "metadata": metadata}
            yield lambda changed=added: self.set_node(changed)
        for number in range(draw.randint(0, 4) if pods else 0):
            original = draw.choice(pods)
            metadata = {**original["metadata"], "name": f"{_DETOUR}{number}", "uid": f"{_DETOUR}{number}"}
            spec = {**original["spec"], "nodeName": draw.choice(nodes)["metadata"]["name"]}
            yield lambda changed={**original, "metadata": metadata, "spec": spec}: self.place(changed)
        for pod in pods:
            if draw.random() < 0.4:
                yield lambda pod=pod: self.place(pod)


def _objects(case: Json) -> Iterator[Json]:
    for name, entries in case.items():
        if isinstance(entries, list) and name not in ("nodes", "pods", "nominated", "pluginConfig"):
            yield from entries


def _split(changes: list[Callable[[], None]], parts: int) -> Iterator[list[Callable[[], None]]]:
    size = max(1, -(-len(changes) // parts))
    for start in range(0, len(changes), size):
        yield changes[start : start + size]
