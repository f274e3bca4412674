"""Comparing what plugins register and what their queueing hints say to golden rows.

Both are asked of what the frontend makes its own table from: the registrations of the default profile, over a cluster
cache that has the case's objects. Which events an update is taken for is asked of `trireme.framework.cluster_event`.
"""

import functools
from collections.abc import Iterator
from typing import Any

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import DecisionCluster
from tests.conformance.decision_differences import Finding, Verdict
from tests.conformance.golden_rows import Row
from trireme.cache import object_kinds, pod_projection
from trireme.config import gates, scheduler_configuration
from trireme.framework import cluster_event
from trireme.queueing import pending_pod, pod_info, queued_pod
from trireme.queueing.hints import cluster_view, hint_evaluation, queueing_hint_map, registrations
from trireme.scheduling import queue_notifier
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

_MESSAGES: dict[str, Any] = {kind.message.DESCRIPTOR.name: kind.message for kind in object_kinds.KINDS}
_MESSAGES["Node"] = core_pb2.Node


def answer(row: Row) -> Json:
    """What we say, in the form of a row's `expect`."""
    case = row["case"]
    if "event" not in case:
        nothing = DecisionCluster({"nodes": [], "pod": {"metadata": {"namespace": "", "name": ""}}})
        return {"events": [_registered(entry) for entry in _registrations(case, nothing)]}
    changes = _changes(case)
    said = {"hint": _hint(case)}
    return said if changes is None else {**said, "changes": changes}


@functools.cache
def _profile(
    arguments: decision_profiles.Arguments, flipped: decision_profiles.Gates
) -> tuple[scheduler_configuration.CompletedProfile, gates.FeatureGates]:
    features = decision_profiles.feature_gates(flipped)
    return decision_profiles.completed_profile(arguments, features), features


def _registrations(case: Json, cluster: DecisionCluster) -> list[queueing_hint_map.EventRegistration]:
    """What the case's plugin registers, with the arguments that the case names."""
    profile, features = _profile(decision_profiles.arguments_of(case), decision_profiles.gates_of(case))
    registered = registrations.of_in_tree_plugins(profile, features, cluster_view.CacheView(cluster.cache))
    return [entry for entry in registered if entry.plugin == case["plugin"]]


def _registered(entry: queueing_hint_map.EventRegistration) -> Json:
    actions = cluster_event.action_names(entry.event.action)
    return {"resource": str(entry.event.resource), "actions": actions, "hint": entry.hint is not None}


def _hint(case: Json) -> str:
    """Queue or QueueSkip, as the queue takes it: of the one registration that the case names."""
    cluster = DecisionCluster({**case, "nodes": case.get("nodes") or []})
    cluster.fill()
    # What the three pods select each other by must be known before any is told as its class.
    for pod in (case["pod"], *_pods(case)):
        cluster.class_of(pod)
    wanted = cluster_event.parse(case["event"]["resource"], case["event"]["actions"])
    (registration,) = (entry for entry in _registrations(case, cluster) if entry.event == wanted)
    table = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap({"": [registration]}))
    old, new = (_in_event(case, side, cluster) for side in ("old", "new"))
    decisions, _ = table.evaluate("", _happened(case, wanted), old, new, [_waiting(case, cluster)])
    return "QueueSkip" if decisions[0] is hint_evaluation.Decision.SKIP else "Queue"


def _happened(case: Json, registered: cluster_event.ClusterEvent) -> cluster_event.ClusterEvent:
    """The event as it would come: one of those that are registered."""
    if not case.get("old"):
        action = cluster_event.ActionType.ADD
    elif not case.get("new"):
        action = cluster_event.ActionType.DELETE
    else:
        action = registered.action & cluster_event.ActionType.UPDATE
    return cluster_event.ClusterEvent(registered.resource, action)


def _waiting(case: Json, cluster: DecisionCluster) -> queued_pod.QueuedPodInfo:
    parsed = pod_projection.parse(case["pod"])
    class_id = cluster.class_of(case["pod"])
    pending = pending_pod.PendingPod(parsed, class_id, class_id)
    record = pod_info.make_pod_info(parsed.key, parsed.uid, class_id, "", parsed.priority, pod=pending)
    pod = queued_pod.QueuedPodInfo(record, 0.0)
    pod.rejectors = frozenset({case["plugin"]})
    return pod


def _pods(case: Json) -> list[Json]:
    sides = (case.get(side) for side in ("old", "new"))
    return [entry for entry in sides if entry and entry["kind"] == "Pod"]


def _in_event(case: Json, side: str, cluster: DecisionCluster) -> Any:
    """The object before or after, as hints get it."""
    entry = case.get(side)
    if not entry:
        return None
    if entry["kind"] != "Pod":
        return decode.decode(entry, _MESSAGES[entry["kind"]])
    parsed = pod_projection.parse(entry)
    pod = cluster.registry[cluster.class_of(entry)].pod
    return queue_notifier.PodInEvent(pod, parsed.key, parsed.uid, parsed.node_name, parsed.nominated_node)


def compare(row: Row, said: Json) -> list[Finding]:
    """All findings about a row."""
    return list(_findings(row, said))


def _findings(row: Row, said: Json) -> Iterator[Finding]:
    for field in ("events", "hint", "changes"):
        if field not in row["expect"]:
            continue
        expected, answered = _ordered(row["expect"][field]), _ordered(said.get(field))
        about = (row["name"], "hints", field, row["case"]["plugin"])
        if expected == answered:
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
