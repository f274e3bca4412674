"""Checks the fields of a manifest against the types of the Kubernetes API, as kubectl's strict validation does.

Names and amounts are checked by the API server's rules.
A field that is misspelt would be passed over, and the answer would be about another object than was meant.

Tests: tests/unit/simulation/test_scenarios.py, tests/unit/simulation/test_refused_values.py.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from trireme_kube.apimachinery import golang
from trireme_kube.embedded.api import api_errors, field_errors, resources
from trireme_kube.embedded.serializer import type_checking
from trireme_kube.embedded.validation import name_validation, pod_validation

# As `type_checking.conform_to_type` words it.
_UNKNOWN = 'unknown field "'


def problems(manifest: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What is wrong: the path of the field, empty for the manifest as a whole, and the text. Empty: nothing.

    The manifest loses what is null, which says as much as what is absent.
    """
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    resource = find_resource(kind, version)
    if resource is None:
        text = "must name a kind of the Kubernetes API" if kind is None else f"{kind} of {version or 'v1'} is not known"
        return [("kind", text)]
    return conform(resource, manifest)[1]


def conform(resource: resources.Resource, manifest: dict[str, Any]) -> tuple[dict[str, Any], Sequence[tuple[str, str]]]:
    """The manifest as decoded, amounts as texts, and what is wrong with it, as `problems` returns it."""
    try:
        return type_checking.conform_to_type(resource, manifest, strict=True), ()
    except api_errors.ApiError as error:
        unknown = [part.partition('"')[0] for part in error.message.split(_UNKNOWN)[1:]]
        found = [(path, f"unknown field of {resource.kind}") for path in sorted(unknown)]
        return manifest, found or [("", error.message)]


def value_problems(manifest: dict[str, Any]) -> Sequence[str]:
    """What of names and amounts the API server refuses: names that are none, and less than nothing.

    Fields are of the types of the API. Empty: nothing.
    """
    resource = find_resource(manifest.get("kind"), manifest.get("apiVersion"))
    metadata = manifest.get("metadata") or {}
    causes: list[field_errors.Cause] = []
    if resource is not None and metadata.get("name"):
        causes += name_validation.validate_object_name(resource, metadata["name"])
    if metadata.get("generateName"):
        # What is made of it ends with letters and digits.
        causes += name_validation.validate_subdomain("metadata.generateName", f"{metadata['generateName']}0")
    if metadata.get("namespace"):
        causes += name_validation.validate_label("metadata.namespace", metadata["namespace"])
    if manifest.get("kind") in ("Pod", "Node"):
        causes += name_validation.validate_labels("metadata.labels", metadata.get("labels"))
    for path, amounts in _amounts(manifest):
        for name, amount in amounts.items():
            causes += _negative(path, name, amount)
    causes += _negative_capacity(manifest)
    return [golang.printable(str(cause)) for cause in causes]


def _negative_capacity(manifest: dict[str, Any]) -> list[field_errors.Cause]:
    """What of a CSIStorageCapacity is less than nothing: its amounts are fields of the object itself."""
    if manifest.get("kind") != "CSIStorageCapacity":
        return []
    given = {field: manifest[field] for field in ("capacity", "maximumVolumeSize") if field in manifest}
    found = [(field, cause) for field, amount in given.items() for cause in _negative(field, "", amount)]
    return [dataclasses.replace(cause, field=field) for field, cause in found]


def _negative(path: str, name: str, amount: Any) -> list[field_errors.Cause]:
    """What is wrong with an amount that is less than nothing; what is no amount is found where it is read."""
    try:
        return pod_validation.validate_not_negative_amounts(path, {name: str(amount)})
    except (ValueError, ArithmeticError):
        return []


def _amounts(manifest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The paths of an object's amounts, and these by resource."""
    kind, spec, status = manifest.get("kind"), manifest.get("spec") or {}, manifest.get("status") or {}
    if kind == "Node":
        yield from ((f"status.{part}", status.get(part) or {}) for part in ("capacity", "allocatable"))
    elif kind == "PersistentVolume":
        yield "spec.capacity", spec.get("capacity") or {}
    elif kind == "PersistentVolumeClaim":
        yield "spec.resources.requests", (spec.get("resources") or {}).get("requests") or {}
        yield "status.capacity", status.get("capacity") or {}
    elif kind == "Pod":
        yield from _amounts_of_pod(spec)


def _amounts_of_pod(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The paths of a pod's amounts, and these by resource."""
    yield "spec.overhead", spec.get("overhead") or {}
    parts = [("spec.resources", spec.get("resources") or {})]
    for field in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(field) or ()):
            parts.append((f"spec.{field}[{number}].resources", container.get("resources") or {}))
    for path, of_part in parts:
        yield from ((f"{path}.{part}", of_part.get(part) or {}) for part in ("requests", "limits"))


def find_resource(kind: Any, version: Any) -> resources.Resource | None:
    """The resource of this kind and version, of any version without one; None: there is none."""
    for resource in resources.RESOURCES:
        if resource.kind == kind and version in (None, resource.api_version):
            return resource
    return None
