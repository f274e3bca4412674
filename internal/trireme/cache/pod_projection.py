"""Projects a pod to the fields that some plugin reads.

This runs for every pod event, so a pod is parsed, from either encoding, as a message with only those fields
(`ProjectedPod`). What all pods of a controller share (everything but names and labels) becomes one byte string, the
*base key*, which is also the `Pod` message of their class. A pod whose name matters to a plugin (claims and volumes
made from templates are named after it) keeps its name in the key, and so is a class of its own.

The pod's individual fields are removed first. The remaining bytes are mostly equal to an earlier pod's, so the rules
that normalize what no plugin distinguishes are applied once per distinct byte string, and cached. Invariant: the key
does not depend on the encoding of the pod.

Also change: internal/trireme/snapshot/pods.py, internal/trireme/sdk/cluster_state.py (bits of a pod's flags).
Also change: protos/trireme/v1/projection.proto (the messages).

Tests: tests/unit/cache/test_pod_projection.py, tests/unit/cache/test_pod_fields_of_specs.py,
tests/unit/cache/test_malformed_pods.py, tests/unit/plugins/test_deferred_pod_scheduling.py.
"""

import contextlib
from collections.abc import Iterable, Mapping, Set
from functools import lru_cache
from typing import Any, NamedTuple

from trireme.framework import canaries, pod_conditions, resizes
from trireme.plugin_api import pod_fields
from trireme.v1 import core_pb2, meta_pb2, projection_pb2
from trireme_kube.apimachinery import decode, json_values, normalization, resource_versions
from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.client.informers import protobuf

Json = Mapping[str, Any]
Labels = tuple[tuple[str, str], ...]

TERMINATING = 1
PREEMPTED = 2

# Cached base keys, of some 500 bytes each.
_REMEMBERED = 8192

_NO_CANARIES = canaries.Shares()


# Projected, and then removed from what equal pods share: a plugin that reads one has it added as one that is missing.
_NOT_SHARED = frozenset({"metadata.creationTimestamp", "metadata.generation", "status.startTime"})


class ParsedPod(NamedTuple):
    """One pod of an informer. `start` and `created` in seconds since 1970; 0: not started, not known."""

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
    # It runs, and its resize is deferred for lack of resources on its node.
    deferred: bool = False
    created: int = 0

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


def parse(raw: Json, extra: Set[str] = frozenset(), shares: canaries.Shares = _NO_CANARIES) -> ParsedPod:
    """Project the pod; `extra` are the paths of further fields that plugins read, such as spec.nodeName.

    `shares` says which plugins' canaries answer for it: pods for which others do are of another class.

    Raises: FieldError.
    """
    read = decode.decode_unchecked(raw, projection_pb2.ProjectedPod)
    return _parse_projected(read, decode.decode_unchecked(raw, core_pb2.Pod) if extra else None, extra, shares)


def parse_protobuf(raw: bytes, extra: Set[str] = frozenset(), shares: canaries.Shares = _NO_CANARIES) -> ParsedPod:
    """Project the pod from its protobuf bytes, as `parse` does from JSON.

    Raises: FieldError.
    """
    read = protobuf.decode_unchecked(raw, projection_pb2.ProjectedPod)
    return _parse_projected(read, protobuf.decode_unchecked(raw, core_pb2.Pod) if extra else None, extra, shares)


def missing_fields(paths: Iterable[str]) -> frozenset[str]:
    """Those of the fields (paths of the API) that pods are projected without, as `extra` of `parse`."""
    missing = set()
    for path in paths:
        names = path.partition("[")[0].split(".")
        descriptor = projection_pb2.ProjectedPod.DESCRIPTOR
        for name in names:
            field = next((field for field in descriptor.fields if field.json_name == name), None)
            if field is None or path in _NOT_SHARED:
                missing.add(path)
            if field is None or field.message_type is None or field.message_type.GetOptions().map_entry:
                break
            descriptor = field.message_type
    return frozenset(missing)


def base_without_requests(namespace: str) -> bytes:
    """The base key of a pod that requests nothing, which stands in for a placed pod whose fields are invalid."""
    return core_pb2.Pod(metadata=meta_pb2.ObjectMeta(namespace=namespace)).SerializeToString()


def unique_base_of_deferred_resize(parsed: ParsedPod) -> bytes:
    """The base key of a pod whose resize is deferred, for preemption on its behalf.

    It has a node, and is equal to no other pod.
    """
    own = core_pb2.Pod(
        metadata=meta_pb2.ObjectMeta(name=parsed.name, uid=parsed.uid),
        spec=core_pb2.PodSpec(node_name=parsed.node_name),
    )
    return parsed.base + own.SerializeToString(deterministic=True)


def _parse_projected(
    pod: projection_pb2.ProjectedPod, whole: core_pb2.Pod | None, extra: Set[str], shares: canaries.Shares
) -> ParsedPod:
    """Take a projected pod apart into a ParsedPod; `whole` is for the `extra` fields of its base key.

    What is the pod's own is read and removed, field by field. What is left is what equal pods share: its bytes are the
    base key. A pod with claims or ephemeral volumes has its name in the base key too, so it is a class by itself.
    Raises: FieldError.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    namespace, name, uid = metadata.namespace, metadata.name, metadata.uid
    if not namespace or not name:
        raise FieldError("metadata", "a pod has a name and a namespace")
    version = resource_versions.number_of(metadata.resource_version or "0")
    if version is None:
        raise FieldError("metadata.resourceVersion", "not a number")
    node_name = spec.node_name
    flags = 0
    if metadata.HasField("deletion_timestamp"):
        flags = TERMINATING | (PREEMPTED if _is_preempted(status) else 0)
        metadata.ClearField("deletion_timestamp")
    labels: Labels = ()
    if metadata.labels:
        labels = tuple(sorted(metadata.labels.items()))
        metadata.ClearField("labels")
    nominated, start, generation = "", 0, metadata.generation
    condition: tuple[str, str, str, str] | tuple[()] = ()
    deferred = False
    if pod.HasField("status"):
        nominated, start = status.nominated_node_name, status.start_time.seconds
        condition = () if node_name else _scheduled_condition(status)
        deferred = bool(node_name) and resizes.is_deferred(status)
        _drop_all_but_resource_status(status)
    metadata.ClearField("name")
    metadata.ClearField("uid")
    metadata.ClearField("resource_version")
    metadata.ClearField("generation")
    created = metadata.creation_timestamp.seconds
    metadata.ClearField("creation_timestamp")
    if node_name:
        spec.ClearField("node_name")
    if spec.volumes:
        # Drop a volume that restricts nothing, with its name: that of a service account's token is random, so no two
        # pods would be equal.
        _keep_elements(spec.volumes, [volume for volume in spec.volumes if volume.volume_source.ByteSize()])
    shared = _parse_shared_part(pod.SerializeToString())
    base = shared.base
    if shared.needs_name:
        # Serialised messages, one after the other, are the serialised message of both.
        base += core_pb2.Pod(metadata=meta_pb2.ObjectMeta(name=name, uid=uid)).SerializeToString()
    if whole is not None:
        base = _with_extra_fields(base, whole, extra)
    base = _add_canary_marks(base, shares.chosen(shared.scheduler_name, uid))
    return ParsedPod(
        namespace,
        name,
        uid,
        version,
        node_name,
        nominated,
        shared.scheduler_name,
        shared.priority,
        flags,
        start,
        labels,
        base,
        shared.gates,
        shared.group,
        generation,
        condition,
        deferred,
        created,
    )


def _drop_all_but_resource_status(status: projection_pb2.ProjectedPodStatus) -> None:
    """Remove from the status all but what resource arithmetic reads."""
    status.ClearField("nominated_node_name")
    status.ClearField("start_time")
    if status.conditions:
        # An infeasible resize excludes the spec from resource sums, whether or not the kubelet reported resources.
        reasons = [
            condition.reason for condition in status.conditions if condition.type == pod_conditions.RESIZE_PENDING
        ]
        status.ClearField("conditions")
        for reason in reasons:
            status.conditions.add(type=pod_conditions.RESIZE_PENDING, reason=reason)


class _SharedPart(NamedTuple):
    """The shared part of pods that differ in individual fields alone. `needs_name`: their key contains the name."""

    base: bytes
    needs_name: bool
    scheduler_name: str
    priority: int
    gates: tuple[str, ...]
    group: str


@lru_cache(maxsize=_REMEMBERED)
def _parse_shared_part(text: bytes) -> _SharedPart:
    """Parse what equal pods share, normalised so that pods which plugins treat alike have the same bytes.

    `text` are the bytes of a projected pod without its own fields.
    """
    pod = projection_pb2.ProjectedPod.FromString(text)
    _drop_irrelevant_fields(pod)
    spec, status = pod.spec, pod.status
    needs_name = (
        bool(spec.resource_claims or status.resource_claim_statuses)
        or status.HasField("extended_resource_claim_status")
        or any(volume.volume_source.HasField("ephemeral") for volume in spec.volumes)
    )
    return _SharedPart(
        pod.SerializeToString(deterministic=True),
        needs_name,
        spec.scheduler_name,
        spec.priority,
        tuple(gate.name for gate in spec.scheduling_gates),
        spec.scheduling_group.pod_group_name,
    )


def _drop_irrelevant_fields(pod: projection_pb2.ProjectedPod) -> None:
    """Remove what no plugin distinguishes, and write what means the same in one way."""
    owners = pod.metadata.owner_references
    _keep_elements(owners, [owner for owner in owners if owner.controller][:1])
    spec = pod.spec
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            _drop_irrelevant_container_fields(container)
    if spec.ephemeral_containers:
        for ephemeral in spec.ephemeral_containers:
            _drop_irrelevant_container_fields(ephemeral.ephemeral_container_common)
        if not any(each.ephemeral_container_common.volume_mounts for each in spec.ephemeral_containers):
            spec.ClearField("ephemeral_containers")
    # The only times that are left are those of templates of claims; quantities are checked with the class.
    if any(volume.volume_source.HasField("ephemeral") for volume in spec.volumes):
        _normalize_valid(pod)
    _drop_unset_fields(spec)
    if pod.HasField("status"):
        _drop_irrelevant_status(pod)


def _drop_unset_fields(spec: projection_pb2.ProjectedPodSpec) -> None:
    """Remove fields that mean the same as their absence."""
    if not spec.priority:
        spec.ClearField("priority")
    if not spec.preemption_policy:
        spec.ClearField("preemption_policy")
    if spec.host_users:
        # Unset means true.
        spec.ClearField("host_users")
    for name in ("affinity", "resources", "scheduling_group"):
        _drop_empty_message_field(spec, name)


def _drop_irrelevant_status(pod: projection_pb2.ProjectedPod) -> None:
    """Remove from the status what says nothing of resources."""
    status = pod.status
    for statuses in (status.container_statuses, status.init_container_statuses):
        for entry in statuses:
            _drop_empty_message_field(entry, "resources")
        _keep_elements(
            statuses, [entry for entry in statuses if entry.allocated_resources or entry.HasField("resources")]
        )
    for name in ("resources", "extended_resource_claim_status"):
        _drop_empty_message_field(status, name)
    _drop_empty_message_field(pod, "status")


def _normalize_valid(pod: projection_pb2.ProjectedPod | core_pb2.Pod) -> None:
    """Clear zero times; an invalid pod may stay as it is."""
    # Ignore invalid quantities: the class registry reports them.
    with contextlib.suppress(FieldError):
        normalization.normalize(pod)


def _drop_irrelevant_container_fields(container: projection_pb2.ProjectedContainer) -> None:
    """Remove what no plugin reads: ports without a host port, most volume mounts, defaults."""
    if container.ports:
        _keep_elements(container.ports, [port for port in container.ports if port.host_port])
    if container.volume_mounts:
        mounts = [mount for mount in container.volume_mounts if mount.bind_mount_options]
        _keep_elements(container.volume_mounts, mounts)
    _drop_empty_message_field(container, "resources")
    if not container.restart_policy:
        container.ClearField("restart_policy")


def _keep_elements(elements: Any, elements_to_keep: list[Any]) -> None:
    """Reduce a repeated field to these of its elements; does nothing if they are all."""
    if len(elements_to_keep) < len(elements):
        copies = [type(each).FromString(each.SerializeToString()) for each in elements_to_keep]
        del elements[:]
        elements.extend(copies)


def _drop_empty_message_field(message: Any, name: str) -> None:
    """Clear the field of this name if its message is set and has no contents: that means the same as unset."""
    if message.HasField(name) and not getattr(message, name).ListFields():
        message.ClearField(name)


def _with_extra_fields(base: bytes, whole: core_pb2.Pod, paths: Set[str]) -> bytes:
    """The base key with those fields at the paths that it lacks.

    Of fields of metadata, spec and status that it has as in-tree plugins read them, only the parts that a path names
    are completed: the names of a pod's own volumes, say, are random, so no two pods would be equal.
    """
    pod = core_pb2.Pod.FromString(base)
    present = {
        f"{part}.{field.json_name}"
        for part in ("metadata", "spec", "status")
        for field, _ in getattr(pod, part).ListFields()
    }
    _pod_fields_of_paths(frozenset(paths) - present).complete(whole, pod)
    _normalize_valid(pod)
    canaries.remove_marks(pod.metadata.annotations)
    return pod.SerializeToString(deterministic=True)


@lru_cache(maxsize=_REMEMBERED)
def _add_canary_marks(base: bytes, plugins: tuple[str, ...]) -> bytes:
    """Mark the base key of pods for which the canaries of these plugins answer."""
    if not plugins:
        return base
    pod = core_pb2.Pod.FromString(base)
    canaries.mark(pod.metadata.annotations, plugins)
    return pod.SerializeToString(deterministic=True)


@lru_cache(maxsize=64)
def _pod_fields_of_paths(paths: frozenset[str]) -> pod_fields.PodFields:
    """The fields at these paths, in the form that copies them."""
    return pod_fields.PodFields(sorted(paths)) if paths else _NO_FIELDS


_NO_FIELDS = pod_fields.PodFields(())


def _scheduled_condition(status: projection_pb2.ProjectedPodStatus) -> tuple[str, str, str, str] | tuple[()]:
    """Status, reason, message and time of the condition PodScheduled; empty: there is none."""
    for condition in status.conditions:
        if condition.type == pod_conditions.POD_SCHEDULED:
            seconds = condition.last_transition_time.seconds
            since = json_values.format_time(seconds) if seconds else ""
            return condition.status, condition.reason, condition.message, since
    return ()


def _is_preempted(status: projection_pb2.ProjectedPodStatus) -> bool:
    """Whether the condition DisruptionTarget says that a scheduler preempts the pod."""
    return any(
        condition.type == pod_conditions.DISRUPTION_TARGET
        and condition.status == "True"
        and condition.reason == pod_conditions.PREEMPTED
        for condition in status.conditions
    )
