"""Writes down what a leader decides by, as a case that kube-scheduler's own framework can decide, too.

The case has what is in the leader's cache: its nodes, the pods that are on them or assumed there, those that are
nominated, and the objects that plugins read, with what is assumed of them. What the cache has as the API server wrote
it is taken from there by its resourceVersion, so that a field that the product loses makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from tests.simulation import configuration_checks, simulated_cluster
from tests.simulation.object_history import Key, ObjectHistory
from tests.simulation.pod_demands import device_claims_of, is_closed, is_reserved, volume_claims_of
from tests.simulation.simulated_configuration import DEFAULT_PROFILE
from trireme.cache import cluster_cache, object_kinds, placed_pod
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import encode
from trireme_kube.embedded.api.resources import Object

_KINDS = {kind.field: kind for kind in object_kinds.KINDS}
_GATES_FLAG = "--feature-gates="
_DEFAULT_STRATEGY = {
    "type": "LeastAllocated",
    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
}

ConfigurationOf = Callable[[cluster_cache.ClusterCache], snapshot_pb2.Configuration]
"""Returns the configuration by which the frontend with a cache decides."""


class DecisionCases:
    """Makes the cases of one simulation."""

    def __init__(self, history: ObjectHistory, configuration_of: ConfigurationOf) -> None:
        """`configuration_of` returns by what the frontend with a cache decides."""
        self._history = history
        self._configuration_of = configuration_of
        self._gates = dict(_gates(simulated_cluster._FLAGS))

    def case(
        self,
        cache: cluster_cache.ClusterCache,
        pod: Any,
        nominated_node: str,
        placed_before: Sequence[tuple[Any, str]] = (),
    ) -> Object:
        """What is decided about a pod of the queue that is nominated to this node, or to none.

        `placed_before` are the pods of the same batch for which a node was chosen before, with their nodes. Raises:
        LookupError, if the cache has versions of objects that are too old, or objects do not have all that matters.
        """
        self._check_claims(cache, self._pending(pod), bool(placed_before))
        closed = self.closed(cache, pod)
        before = [_on_node(self._pending(each), node) for each, node in placed_before]
        uids = {pod.uid, *(each.uid for each, _ in placed_before)}
        case: Object = {
            "featureGates": self._gates,
            "nodes": [self._node(cache, name, closed) for name in sorted(cache.node_names())],
            "pods": [*self._placed(cache), *before],
            "nominated": list(self._nominated(cache, uids)),
            "pod": _nominated_to(self._pending(pod), nominated_node),
        }
        if arguments := self._arguments(cache, pod):
            case["pluginConfig"] = arguments
        for name, entry in self._objects(cache):
            case.setdefault(name, []).append(entry)
        return case

    def _check_claims(self, cache: cluster_cache.ClusterCache, pod: Object, is_after_others: bool) -> None:
        """Leave out what is known of claims only within a scheduler.

        A claim that is being allocated for another pod refuses this one, until its allocation is written; and a pod of
        the same batch before this one has devices and volumes that are not chosen yet.
        """
        namespace, names = pod["metadata"]["namespace"], device_claims_of(pod)
        assumed = cache._assumed_objects._assumed
        if any(("resource_claim", namespace, name) in assumed for name in names):
            raise LookupError("a claim of the pod is being allocated")
        requests = [(each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"]]
        if any(set(each) - {"cpu", "memory"} for each in requests):
            raise LookupError("the scheduler itself makes the claim of the pod's extended resource")
        if is_after_others and (names or volume_claims_of(pod)):
            raise LookupError("the claims of the pods before this one are not allocated")

    def weights(self, cache: cluster_cache.ClusterCache, pod: Any) -> dict[str, int]:
        """The weights of the pod's profile by which the frontend decides."""
        return configuration_checks.weights_of(self._configuration_of(cache), pod.record.profile)

    def closed(self, cache: cluster_cache.ClusterCache, pod: Any) -> frozenset[str]:
        """The nodes off which remote plugins keep the pod. Raises: LookupError, if a plugin may be left out."""
        plugin = configuration_checks.second_plugin(self._configuration_of(cache), pod.record.profile)
        if plugin is not None and plugin.failure_policy == snapshot_pb2.FAILURE_POLICY_IGNORE:
            raise LookupError("pods are scheduled without the second plugin where it fails")
        names = cache.node_names()
        return frozenset(name for name in names if is_closed(name) or (plugin is not None and is_reserved(name)))

    def _arguments(self, cache: cluster_cache.ClusterCache, pod: Any) -> list[Object]:
        """The arguments of plugins of the pod's profile that are not those of the default profile."""
        profiles = self._configuration_of(cache).profiles
        profile = next((each for each in profiles if each.scheduler_name == pod.record.profile), None)
        if profile is None:
            raise LookupError("the profile is removed")
        stated = {each.name: orjson.loads(each.args_json) for each in profile.plugin_args if each.args_json}
        fit = stated.get("NodeResourcesFit")
        if fit is None or fit.get("scoringStrategy") == _DEFAULT_STRATEGY:
            return []
        return [{"name": "NodeResourcesFit", "args": {"scoringStrategy": fit["scoringStrategy"]}}]

    def _node(self, cache: cluster_cache.ClusterCache, name: str, closed: frozenset[str]) -> Object:
        """The node; one off which a remote plugin keeps all pods is cordoned, which keeps them off as well."""
        known = cache.node(name)
        assert known is not None
        node = self._history.get(("Node", "", name), known.metadata.resource_version)
        return {**node, "spec": {**node["spec"], "unschedulable": True}} if name in closed else node

    def _pending(self, pod: Any) -> Object:
        parsed = pod.record.pod.parsed
        return self._history.get(("Pod", parsed.namespace, parsed.name), str(parsed.resource_version))

    def _placed(self, cache: cluster_cache.ClusterCache) -> Iterator[Object]:
        for pod in sorted(cache.pods(), key=lambda pod: pod.key):
            if pod.slot == placed_pod.NO_SLOT:
                continue
            key = _pod_key(pod.key)
            if pod.version:
                yield self._history.get(key, str(pod.version))
            else:
                yield _on_node(self._history.latest(key), pod.node_name)

    def _nominated(self, cache: cluster_cache.ClusterCache, without: set[str]) -> Iterator[Object]:
        for uid, (node, nomination) in sorted(cache._pod_nominations.items()):
            if uid not in without and uid in cache._nominations:
                key = ("Pod", nomination.pod.namespace, nomination.pod.name)
                yield _nominated_to(self._history.latest(key), node)

    def _objects(self, cache: cluster_cache.ClusterCache) -> Iterator[tuple[str, Object]]:
        assumed = cache._assumed_objects._assumed
        for entry in cache._assumed_objects.all():
            kind = _KINDS[str(entry.WhichOneof("object"))]
            message = getattr(entry, kind.field)
            metadata = message.metadata
            if (kind.field, metadata.namespace, metadata.name) in assumed:
                yield kind.watched.name, {**_header(kind), **encode.encode(message)}
            else:
                key = (kind.watched.kind, metadata.namespace, metadata.name)
                yield kind.watched.name, self._history.get(key, metadata.resource_version)


def _gates(flags: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The feature gates that the frontends' flags state."""
    for flag in flags:
        for stated in flag.removeprefix(_GATES_FLAG).split(",") if flag.startswith(_GATES_FLAG) else ():
            name, _, value = stated.partition("=")
            yield name, value == "true"


def _header(kind: object_kinds.ObjectKind) -> Mapping[str, str]:
    version = kind.watched.path.rpartition("/")[0].removeprefix("/apis/").removeprefix("/api/")
    return {"apiVersion": version, "kind": kind.watched.kind}


def _pod_key(key: str) -> Key:
    namespace, _, name = key.partition("/")
    return "Pod", namespace, name


def _on_node(pod: Object, node: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def _nominated_to(pod: Object, node: str) -> Object:
    """The pod with that nomination; of the profile that the framework has, which knows no pods of others."""
    pod = {**pod, "spec": {**pod["spec"], "schedulerName": DEFAULT_PROFILE}}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    return {**pod, "status": {**status, "nominatedNodeName": node} if node else status}
