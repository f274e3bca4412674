"""From a pod's JSON to what the scheduler knows of it: the fields that some plugin sees, and nothing else.

This runs for every pod event, so it picks from the parsed JSON and makes no message. What all pods of a controller
share (everything but names and labels) becomes one byte string, the *base key*; whoever keeps classes makes a message
of it once. A pod whose own name matters to a plugin (claims and volumes made from templates are named after it) keeps
its name in the key, and so is a class of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trireme.kube import json_values

Json = Mapping[str, Any]
Labels = tuple[tuple[str, str], ...]

TERMINATING = 1
PREEMPTED = 2

_SPEC_FIELDS = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "resourceClaims",
    "resources",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "tolerations",
    "topologySpreadConstraints",
)
# Sources of a volume that restrict where a pod may run; the others are dropped, their names with them (the name of a
# service account's token volume is random).
_VOLUME_FIELDS = (
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "image",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "iscsi",
    "rbd",
    "azureDisk",
    "azureFile",
    "cinder",
    "vsphereVolume",
    "portworxVolume",
)
_CONTAINER_FIELDS = ("name", "image", "resources", "restartPolicy", "restartPolicyRules")


@dataclass(frozen=True, slots=True)
class ParsedPod:
    """One pod as an informer sees it. `start` in seconds since 1970, 0: not started."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    node_name: str
    nominated_node: str
    scheduler_name: str
    priority: int
    flags: int
    start: int
    labels: Labels
    base: bytes
    gates: tuple[str, ...]
    group: str
    generation: int
    # The PodScheduled condition: status, reason, message, lastTransitionTime; empty where it has none.
    condition: tuple[str, str, str, str] | tuple[()]

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def parse(raw: Json, extra: frozenset[tuple[str, str]] = frozenset()) -> ParsedPod:
    """What the scheduler knows of the pod; `extra` are fields, such as (spec, nodeName), that plugins read beside.

    Raises: KeyError, TypeError, AttributeError or ValueError for an odd one.
    """
    metadata = raw["metadata"]
    spec = raw.get("spec") or {}
    status = raw.get("status") or {}
    flags = 0
    if metadata.get("deletionTimestamp"):
        flags = TERMINATING | (PREEMPTED if _preempted(status) else 0)
    labels = tuple(sorted((metadata.get("labels") or {}).items()))
    hash(labels)  # a value that is no text, but a list, would end whoever looks the class up
    gates = spec.get("schedulingGates")
    return ParsedPod(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        int(metadata.get("resourceVersion") or 0),
        spec.get("nodeName") or "",
        status.get("nominatedNodeName") or "",
        spec.get("schedulerName") or "",
        spec.get("priority") or 0,
        flags,
        json_values.parse_time(status["startTime"])[0] if status.get("startTime") else 0,
        labels,
        orjson.dumps(project(metadata, spec, status, extra), option=orjson.OPT_SORT_KEYS),
        tuple(gate["name"] for gate in gates) if gates else (),
        (spec.get("schedulingGroup") or {}).get("podGroupName") or "",
        metadata.get("generation") or 0,
        () if spec.get("nodeName") else _scheduled_condition(status),
    )


def project(
    metadata: Json, spec: Json, status: Json, extra: frozenset[tuple[str, str]] = frozenset()
) -> dict[str, Any]:
    """The pod with only the fields that plugins see, but for its labels; in the API's own JSON."""
    out_spec = {name: spec[name] for name in _SPEC_FIELDS if spec.get(name)}
    out_spec["containers"] = [_container(container) for container in spec.get("containers") or ()]
    if spec.get("initContainers"):
        out_spec["initContainers"] = [_container(container) for container in spec["initContainers"]]
    if spec.get("hostUsers") is False:
        # What is not set says the same as true.
        out_spec["hostUsers"] = False
    ephemeral = [_container(container) for container in spec.get("ephemeralContainers") or ()]
    if any("volumeMounts" in container for container in ephemeral):
        out_spec["ephemeralContainers"] = ephemeral
    out_metadata: dict[str, Any] = {"namespace": metadata["namespace"]}
    owner = _controller(metadata.get("ownerReferences") or ())
    if owner is not None:
        out_metadata["ownerReferences"] = [owner]
    named = bool(spec.get("resourceClaims"))
    if spec.get("volumes"):
        volumes = [kept for kept in map(_volume, spec["volumes"]) if kept is not None]
        if volumes:
            out_spec["volumes"] = volumes
        named |= any("ephemeral" in volume for volume in volumes)
    out_status = _resources_in_force(status)
    for name in ("resourceClaimStatuses", "extendedResourceClaimStatus"):
        if status.get(name):
            out_status[name] = status[name]
            named = True
    if named:
        out_metadata["name"] = metadata["name"]
        out_metadata["uid"] = metadata.get("uid", "")
    for part, name in extra:
        source, target = {"metadata": (metadata, out_metadata), "spec": (spec, out_spec)}.get(
            part, (status, out_status)
        )
        if name not in target and source.get(name):
            target[name] = source[name]
    out = {"metadata": out_metadata, "spec": out_spec}
    if out_status:
        out["status"] = out_status
    return out


def _container(container: Json) -> dict[str, Any]:
    out = {name: container[name] for name in _CONTAINER_FIELDS if container.get(name)}
    if container.get("ports"):
        ports = [port for port in container["ports"] if port.get("hostPort")]
        if ports:
            out["ports"] = ports
    if container.get("volumeMounts"):
        mounts = [mount for mount in container["volumeMounts"] if mount.get("bindMountOptions")]
        if mounts:
            out["volumeMounts"] = mounts
    return out


def _volume(volume: Json) -> dict[str, Any] | None:
    for name in _VOLUME_FIELDS:
        if volume.get(name) is not None:
            return {"name": volume.get("name", ""), name: volume[name]}
    return None


def _controller(owners: Sequence[Json]) -> dict[str, Any] | None:
    for owner in owners:
        if owner.get("controller"):
            return {name: owner[name] for name in ("apiVersion", "kind", "name", "controller") if name in owner}
    return None


def _scheduled_condition(status: Json) -> tuple[str, str, str, str] | tuple[()]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled":
            fields = ("status", "reason", "message", "lastTransitionTime")
            state, reason, text, since = (condition.get(name) or "" for name in fields)
            return state, reason, text, since
    return ()


def _preempted(status: Json) -> bool:
    return any(
        condition.get("type") == "DisruptionTarget"
        and condition.get("status") == "True"
        and condition.get("reason") == "PreemptionByScheduler"
        for condition in status.get("conditions") or ()
    )


def _resources_in_force(status: Json) -> dict[str, Any]:
    """The parts of the status that resource arithmetic reads; empty where it has none of them."""
    out: dict[str, Any] = {}
    for name in ("containerStatuses", "initContainerStatuses"):
        entries = [
            {field: entry[field] for field in ("name", "allocatedResources", "resources") if entry.get(field)}
            for entry in status.get(name) or ()
            if entry.get("allocatedResources") or entry.get("resources")
        ]
        if entries:
            out[name] = entries
    for name in ("allocatedResources", "resources"):
        if status.get(name):
            out[name] = status[name]
    # A resize that cannot be had takes the spec out of the count, whether or not the kubelet reported resources.
    conditions = [
        {"type": condition["type"], "reason": condition.get("reason", "")}
        for condition in status.get("conditions") or ()
        if condition.get("type") == "PodResizePending"
    ]
    if conditions:
        out["conditions"] = conditions
    return out
