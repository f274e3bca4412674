"""Manifests as people write them, completed as the API server completes them, and read as informers read objects.

What the API server fills in by itself is filled in here: default requests from limits, the scheduler's name,
tolerations of failing nodes. What it looks up elsewhere (priority classes, limit ranges, quotas) is not known here.

Also change: internal/trireme_kube/embedded/registry/pod_defaults.py (what the API server adds to pods).
Also change: internal/trireme/framework/tolerations.py,
internal/trireme_kube/embedded/controllers/node_lifecycle.py (taints of nodes).

Tests: tests/unit/simulation/test_fields_that_plugins_read.py, tests/unit/simulation/test_questions.py,
tests/unit/simulation/test_scenarios.py.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2

from trireme.cache import object_kinds, pod_projection
from trireme.config import defaults
from trireme.simulation import manifest_fields
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.apimachinery.field_error import FieldError

Json = dict[str, Any]

_FAILING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_FAILING_SECONDS = 300
_KINDS = {kind.message.DESCRIPTOR.name: kind for kind in object_kinds.KINDS}


class ManifestError(ValueError):
    """The manifest cannot be simulated; the text begins with the path of the field."""


def to_json(manifest: struct_pb2.Struct) -> Json:
    """The manifest as JSON, with whole numbers as integers."""
    return {name: _value(each) for name, each in manifest.fields.items()}


def read(manifest: struct_pb2.Struct) -> Json:
    """The manifest as JSON: of a known kind, without unknown fields, with names and amounts as the API server has them.

    Raises: ManifestError.
    """
    raw = to_json(manifest)
    kind_of(raw)
    # What is wrong with values is found where they are read. A message's fields are in no particular order.
    problems = manifest_fields.problems(raw)
    found = sorted(f"{path}: {text}" for path, text in problems if path)
    if not problems:
        # Types are right, as these checks need them.
        found = list(manifest_fields.value_problems(raw))
    if found:
        raise ManifestError("; ".join(found))
    return raw


def kind_of(manifest: Mapping[str, Any]) -> str:
    """The kind. Raises: ManifestError."""
    kind = manifest.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ManifestError("kind: must be given, as in every manifest")
    if kind not in ("Pod", "Node") and kind not in _KINDS:
        known = ", ".join(("Pod", "Node", *sorted(_KINDS)))
        raise ManifestError(f"kind: {kind} does not take part in scheduling; known are {known}")
    return kind


def takes_part(kind: str) -> bool:
    """Whether the kind, beside pods and nodes, is one that plugins read."""
    return kind in _KINDS


@dataclass(frozen=True, slots=True)
class PodOfManifest:
    """A pod, and whether its class contains its name, so that another copy is of another class."""

    parsed: pod_projection.ParsedPod
    base_has_name: bool


def pod_name(manifest: Mapping[str, Any]) -> str:
    """The pod's name, or the first part of generateName. Raises: ManifestError."""
    metadata = manifest.get("metadata")
    prefix = metadata.get("generateName") if isinstance(metadata, dict) and not metadata.get("name") else None
    return prefix.rstrip("-") or "pod" if isinstance(prefix, str) and prefix else name_of(manifest)


def read_pod(
    manifest: Mapping[str, Any], name: str, uid: str, paths: Set[str], made_claims: Mapping[str, str] | None = None
) -> PodOfManifest:
    """The pod of this name and UID by the manifest; `paths` are those of further fields that plugins read.

    `made_claims` are the ResourceClaims that were made of templates for it, by its own names of them.

    Raises: ManifestError.
    """
    check_kind(manifest, "Pod")
    raw = with_pod_defaults(manifest)
    if made_claims:
        statuses = [{"name": own, "resourceClaimName": claim} for own, claim in made_claims.items()]
        raw["status"] = {"resourceClaimStatuses": statuses}
    raw["metadata"].update(name=name, uid=uid)
    raw["metadata"].pop("resourceVersion", None)
    try:
        parsed = pod_projection.parse(raw, paths)
    except FieldError as error:
        raise ManifestError(str(error)) from error
    return PodOfManifest(parsed, bool(core_pb2.Pod.FromString(parsed.base).metadata.uid))


def read_node(manifest: Mapping[str, Any]) -> core_pb2.Node:
    """The node by the manifest; without allocatable resources, all of its capacity is. Raises: ManifestError."""
    check_kind(manifest, "Node")
    name_of(manifest)
    raw = _copy(dict(manifest))
    status = raw.setdefault("status", {})
    if isinstance(status, dict) and not status.get("allocatable"):
        status["allocatable"] = status.get("capacity") or {}
    if not isinstance(status, dict) or not status.get("allocatable"):
        raise ManifestError(
            "status.allocatable: must be given, or status.capacity: a node without resources takes no pod"
        )
    raw["metadata"].pop("resourceVersion", None)
    return _decode(raw, core_pb2.Node)


def read_object(manifest: Mapping[str, Any]) -> tuple[object_kinds.ObjectKind, Any]:
    """An object of another kind, and the kind. Raises: ManifestError."""
    kind = _KINDS[kind_of(manifest)]
    name_of(manifest)
    raw = _copy(dict(manifest))
    raw["metadata"].pop("resourceVersion", None)
    raw["metadata"].setdefault("uid", f"simulated-{raw['metadata']['name']}")
    return kind, _decode(raw, kind.message)


def _copy(value: Any) -> Any:
    """A copy of JSON, which `copy.deepcopy` takes five times as long for."""
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value


def name_of(manifest: Mapping[str, Any]) -> str:
    """metadata.name. Raises: ManifestError."""
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise ManifestError("metadata.name: must be given")
    return name


def check_kind(manifest: Mapping[str, Any], kind: str) -> None:
    """Check that the manifest is of this kind. Raises: ManifestError."""
    if kind_of(manifest) != kind:
        raise ManifestError(f"kind: must be {kind}, not {manifest['kind']}")


def with_pod_defaults(manifest: Mapping[str, Any]) -> Json:
    """The pod as the API server would store it, as far as the scheduler sees it. Raises: ManifestError."""
    raw = _copy(dict(manifest))
    metadata, spec = raw.setdefault("metadata", {}), raw.setdefault("spec", {})
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ManifestError("metadata and spec: must be objects")
    metadata.setdefault("namespace", "default")
    spec.setdefault("schedulerName", defaults.DEFAULT_SCHEDULER_NAME)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    for containers in (spec.get("containers"), spec.get("initContainers")):
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict):
                _default_requests(container)
                _default_ports(container, host_network=bool(spec.get("hostNetwork")))
    _default_tolerations(spec)
    raw.pop("status", None)
    return raw


def _default_requests(container: Json) -> None:
    """Request what is limited and not requested."""
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        requests = resources.setdefault("requests", {})
        if isinstance(requests, dict):
            for name, amount in resources["limits"].items():
                requests.setdefault(name, amount)


def _default_ports(container: Json, *, host_network: bool) -> None:
    """Ports are TCP, and in the host's network those of the host."""
    ports = container.get("ports")
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
            if host_network and "containerPort" in port:
                port.setdefault("hostPort", port["containerPort"])


def _default_tolerations(spec: Json) -> None:
    """Tolerate failing nodes for five minutes, unless the pod says otherwise."""
    tolerations = spec.get("tolerations") or []
    if not isinstance(tolerations, list):
        return
    covered = {
        each.get("key", "")
        for each in tolerations
        if isinstance(each, dict) and each.get("effect", "") in ("", "NoExecute")
    }
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _FAILING_SECONDS}
        for key in _FAILING
        if key not in covered and "" not in covered
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _decode(raw: Json, message_class: type[Any]) -> Any:
    """Decode an object. Raises: ManifestError."""
    try:
        return decode.decode(raw, message_class)
    except FieldError as error:
        raise ManifestError(str(error)) from error


def _value(value: struct_pb2.Value) -> Any:
    """A value as JSON."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return to_json(value.struct_value)
    if kind == "list_value":
        return [_value(each) for each in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    return None if kind in (None, "null_value") else getattr(value, kind)
