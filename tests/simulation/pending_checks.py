"""Whether the leader's status is right about each pending pod, once everything is at rest.

A pod without a group waits for a gate that it has, or for an event, because plugins refused it. Which these are is
compared with the nodes as the API server has them: each plugin is one that can refuse such a pod, and each node is one
that at least one of them refuses now. The pod's condition says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tests.simulation import simulated_plugin
from tests.simulation.placed_pods import PlacedPods, excluded, has_room, placed_pod
from tests.simulation.pod_demands import (
    device_claims_of,
    extended_devices_of,
    group_of,
    is_closed,
    is_reserved,
    is_terminating,
    volume_claims_of,
)
from trireme.v1.scheduler_explanation_pb2 import PendingPod
from trireme_kube.embedded.api.resources import NODES, PODS, Object
from trireme_kube.embedded.storage.store import Store

# What a member of a group waits for once it is at rest: its gate, its group, or the next attempt at that. A group that
# was refused is tried again and again, as kube-scheduler does it.
_FOR_A_MEMBER = ("event", "gate", "group", "time")
_VOLUME_PLUGINS = ("VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits")


def wrong_entries(store: Store, placed: PlacedPods, entries: Iterable[PendingPod]) -> list[str]:
    """What the entries of a leader's status say that is not so. Entries of pods that do not exist are left out."""
    nodes = {record.name: record.object for record in store.scan(NODES)}
    pods = {record.name: record.object for record in store.scan(PODS)}
    nominated = {(pod.get("status") or {}).get("nominatedNodeName") for pod in pods.values()}
    found = []
    for entry in entries:
        name = entry.pod.name
        if name in pods and not is_terminating(pods[name]):
            wrong = _wrong(entry, pods[name], nodes, placed, nominated)
            found.extend(f"status of pod {name}: {entry.summary}, but {text}" for text in wrong)
    return found


def _wrong(
    entry: PendingPod, pod: Object, nodes: Mapping[str, Object], placed: PlacedPods, nominated: set[Any]
) -> Iterator[str]:
    """What is wrong with an entry."""
    waits = entry.waits_for
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if group_of(pod):
        if waits.kind not in _FOR_A_MEMBER:
            yield "nothing happens to its group"
    elif gates:
        if waits.kind != "gate" or not all(name in entry.summary for name in gates):
            yield f"it has the gates {gates}"
    elif waits.kind != "event":
        yield "nothing but an event would help it"
    else:
        yield from _wrong_plugins(waits.plugins, pod, nodes, placed, nominated)
    reason = "SchedulingGated" if gates else "Unschedulable"
    if not group_of(pod) and _condition(pod) != ("False", reason):
        yield f"its condition is {_condition(pod)}, not {reason}"


def _wrong_plugins(
    plugins: Iterable[str], pod: Object, nodes: Mapping[str, Object], placed: PlacedPods, nominated: set[Any]
) -> Iterator[str]:
    """Whether these are the plugins that refuse the pod."""
    refuses = _refusals(pod, placed, nominated)
    for plugin in plugins:
        if plugin not in refuses:
            yield f"{plugin} has no reason to refuse it on any node"
    for name, node in nodes.items():
        if not any(refuses[plugin](name, node) for plugin in plugins if plugin in refuses):
            others = [plugin for plugin, refused in refuses.items() if refused(name, node)]
            yield f"none of these refuses it on {name}, where {others} do"
            return


def _refusals(pod: Object, placed: PlacedPods, nominated: set[Any]) -> Mapping[str, Callable[[str, Object], bool]]:
    """The plugins that may refuse the pod, and whether they do, by a node's name and object.

    What devices and volumes are left on a node is not looked at: their plugins may refuse each.
    """
    wanted, selector = placed_pod(pod), pod["spec"].get("nodeSelector") or {}
    found: dict[str, Callable[[str, Object], bool]] = {
        "NodeResourcesFit": lambda name, node: name in nominated or not has_room(node, placed.on(name), wanted),
        "NodeUnschedulable": lambda _, node: bool(node["spec"].get("unschedulable")),
        simulated_plugin.NAME: lambda name, _: is_closed(name),
        simulated_plugin.SECOND_NAME: lambda name, _: is_reserved(name),
    }
    if selector:
        found["NodeAffinity"] = lambda _, node: any(
            node["metadata"]["labels"].get(key) != value for key, value in selector.items()
        )
    for plugin, kind in (("NodePorts", "host port"), ("InterPodAffinity", "label")):
        own = {each for each in wanted.exclusions if each.startswith(kind)}
        if own:
            found[plugin] = lambda name, _, own=own: name in nominated or bool(own & excluded(placed.on(name)))
    if volume_claims_of(pod):
        found |= dict.fromkeys(_VOLUME_PLUGINS, lambda *_: True)
    if device_claims_of(pod) or extended_devices_of(pod):
        found["DynamicResources"] = lambda *_: True
    return found


def _condition(pod: Object) -> tuple[str, str]:
    """Status and reason of its condition PodScheduled."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    found: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return found.get("status", ""), found.get("reason", "")
