"""What in-tree plugins' queueing hints answer about one waiting pod, from objects as JSON.

The registrations are the frontend's own, over its own cache, and the pods take the way through projection and classes
that they take there; so what a hint needs of a pod must survive that.
"""

import json
from collections.abc import Iterable
from typing import Any

from tests.helpers.cluster_objects import KINDS, to_cluster_object
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.config import gates, loading, profiles, scheduler_configuration
from trireme.framework import amounts, cluster_event, resizes
from trireme.queueing import pending_pod, pod_info, queued_pod
from trireme.queueing.hints import cluster_view, hint_evaluation, queueing_hint_map, registrations
from trireme.registry.in_tree import IN_TREE
from trireme.scheduling import queue_notifier
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

QUEUE, SKIP, ERROR = (hint.value for hint in queueing_hint_map.HintAnswer)


def pod(
    name: str = "p", namespace: str = "ns", labels: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    """A pod; one that asks for nothing, if nothing is said."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [], **spec}, "status": status or {}}


def asking(name: str = "p", **requests: str) -> Json:
    """A pod that asks for these resources; `_` in a name stands for `.`, `__` for `/`."""
    named = {key.replace("__", "/").replace("_", "."): amount for key, amount in requests.items()}
    return pod(name, containers=[{"name": "c", "resources": {"requests": named}}])


def on(node: str, one: Json) -> Json:
    """The same pod, placed."""
    return {**one, "spec": {**one["spec"], "nodeName": node}}


def nominated(node: str, one: Json) -> Json:
    """The same pod, waiting for a node that it was promised."""
    return {**one, "status": {**one["status"], "nominatedNodeName": node}}


def node(name: str = "n", labels: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    """A node."""
    return {"kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status or {}}


def entry(kind: str, name: str, namespace: str = "", metadata: Json | None = None, **fields: Any) -> Json:
    """An object of another kind."""
    identity = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"kind": kind, "metadata": {**identity, **(metadata or {})}, **fields}


def configuration(
    features: Json | None = None, also: str = "", **plugin_args: Json
) -> tuple[scheduler_configuration.CompletedProfile, gates.FeatureGates]:
    """The default profile with these feature gates and arguments of plugins, and with a plugin that it may not have."""
    chosen = gates.FeatureGates(values=features)
    config = [{"name": name, "args": args} for name, args in plugin_args.items()]
    document = {
        "apiVersion": scheduler_configuration.API_VERSION,
        "kind": scheduler_configuration.KIND,
        "profiles": [
            {"pluginConfig": config, "plugins": {"multiPoint": {"enabled": [{"name": also}] if also else []}}}
        ],
    }
    loaded = loading.load(json.dumps(document).encode(), chosen, lambda line: None)
    return profiles.construct_profiles(loaded, IN_TREE, chosen, lambda line: None).profiles[0], chosen


class Hints:
    """The hints of one plugin, which the default profile need not have, in a cluster with these objects."""

    def __init__(
        self, plugin: str, objects: Iterable[Json] = (), features: Json | None = None, args: Json | None = None
    ) -> None:
        self._plugin = plugin
        chosen = gates.FeatureGates(values=features)
        self._registry = class_registry.ClassRegistry(
            rules=amounts.rules_of(chosen.all()), keep_deferred=chosen.enabled(resizes.GATE)
        )
        cache = cluster_cache.ClusterCache(self._registry)
        self._cache = cache
        for each in objects:
            self.add(each)
        profile, chosen = configuration(features, also=plugin, **({plugin: args} if args else {}))
        self.registrations = [
            registration
            for registration in registrations.of_in_tree_plugins(profile, chosen, cluster_view.CacheView(cache))
            if registration.plugin == plugin
        ]
        self._table = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap({"": self.registrations}))

    def add(self, raw: Json) -> None:
        """The object is there from now on."""
        self._cache.set_object(to_cluster_object(raw, self._registry))

    @property
    def events(self) -> set[str]:
        """The labels of all events that are registered."""
        return set(self._table.registrations.event_labels("", [self._plugin]))

    def about(self, waiting: Json, resource: str, action: str, old: Json | None = None, new: Json | None = None) -> str:
        """What the event means for the pod: Queue, QueueSkip or Error; empty: it is not registered."""
        # What pods select each other by must be known before they are told.
        for each in (waiting, old, new):
            if each is not None and each["kind"] == "Pod":
                self._class_of(each)
        self._table.results.clear()
        event = cluster_event.parse(resource, [action])
        queued = self._queued(waiting)
        decisions, _ = self._table.evaluate("", event, self._message(old), self._message(new), [queued])
        said = {hint for _, _, hint in self._table.results}
        if not said:
            return ""
        # The first matching registration that helps counts; an error helps.
        answer = ERROR if ERROR in said else QUEUE if QUEUE in said else SKIP
        assert (decisions[0] is hint_evaluation.Decision.SKIP) == (answer == SKIP)
        return answer

    def _queued(self, waiting: Json) -> queued_pod.QueuedPodInfo:
        parsed = pod_projection.parse(waiting)
        resized = self._registry.keep_deferred and parsed.deferred
        base = pod_projection.unique_base_of_deferred_resize(parsed) if resized else parsed.base
        class_id = self._registry.intern(self._registry.intern_base(base), parsed.labels)
        record = pod_info.make_pod_info(
            parsed.key,
            parsed.uid,
            class_id,
            "",
            parsed.priority,
            nominated_node=parsed.nominated_node,
            pod=pending_pod.PendingPod(parsed, class_id, class_id),
        )
        queued = queued_pod.QueuedPodInfo(record, 0.0)
        queued.rejectors = frozenset({self._plugin})
        return queued

    def _class_of(self, raw: Json) -> int:
        parsed = pod_projection.parse(raw)
        return self._registry.intern(self._registry.intern_base(parsed.base), parsed.labels)

    def _message(self, raw: Json | None) -> Any:
        if raw is None:
            return None
        if raw["kind"] == "Node":
            return decode.decode(raw, core_pb2.Node)
        if raw["kind"] != "Pod":
            return decode.decode(raw, KINDS[raw["kind"]].message)
        parsed = pod_projection.parse(raw)
        message = self._registry[self._class_of(raw)].pod
        return queue_notifier.PodInEvent(message, parsed.key, parsed.uid, parsed.node_name, parsed.nominated_node)
