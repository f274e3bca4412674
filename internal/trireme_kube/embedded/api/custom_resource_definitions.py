"""CustomResourceDefinitions: their validation, and the resources that they define.

Custom resources are stored without a schema: only their metadata is validated, defaulted and pruned. They have
discovery, selectors, columns, the status and scale subresources, and versions that differ in name alone.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions.

Tests: tests/unit/embedded/controllers/test_custom_resources.py.
"""

import re
from typing import Any

from trireme_kube.embedded.api import api_errors, field_errors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import BY_KEY, SCALE, STATUS, Object, PrintedColumn, Resource, ScalePaths

DEFINITIONS = BY_KEY["customresourcedefinitions.apiextensions.k8s.io"]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_SCOPES = ("Cluster", "Namespaced")
_VERSION = re.compile(r"^v(\d+)(?:(alpha|beta)(\d+))?$")


def set_defaults(obj: Object) -> None:
    """Fill in a definition's defaults, in place."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    spec["conversion"] = spec.get("conversion") or {"strategy": "None"}


def validate_definition(obj: Object) -> list[Cause]:
    """The problems of a definition. Raises: ApiError 501 for conversion by webhook, which is not supported."""
    spec = obj["spec"]
    names, causes = spec["names"], []
    for part, value in (("group", spec.get("group")), ("scope", spec.get("scope"))):
        if not value:
            causes.append(field_errors.required(f"spec.{part}"))
    causes.extend(field_errors.required(f"spec.names.{part}") for part in ("plural", "kind") if not names.get(part))
    if spec.get("scope") and spec["scope"] not in _SCOPES:
        causes.append(field_errors.unsupported("spec.scope", spec["scope"], _SCOPES))
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != expected:
        detail = 'must be spec.names.plural+"."+spec.group'
        causes.append(field_errors.invalid("metadata.name", obj["metadata"].get("name", ""), detail))
    causes += _validate_versions(spec.get("versions") or [])
    if not causes and spec["conversion"].get("strategy") == "Webhook":
        text = "the embedded cluster does not call webhooks: conversion.strategy must be None"
        raise api_errors.not_implemented(text)
    return causes


def _validate_versions(versions: list[Any]) -> list[Cause]:
    """Return what is wrong with the versions of a definition."""
    if sum(bool(one.get("storage")) for one in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        return [field_errors.invalid("spec.versions", versions or None, detail)]
    causes: list[Cause] = []
    for index, one in enumerate(versions):
        if not one.get("name"):
            causes.append(field_errors.required(f"spec.versions[{index}].name"))
        if not (one.get("schema") or {}).get("openAPIV3Schema"):
            path = f"spec.versions[{index}].schema.openAPIV3Schema"
            causes.append(field_errors.required(path))
    return causes


def validate_definition_update(obj: Object, before: Object) -> list[Cause]:
    """The problems of a change of a definition."""
    causes: list[Cause] = [
        field_errors.invalid(f"spec.{path}", obj["spec"].get(path, ""), "field is immutable")
        for path in ("scope", "group")
        if obj["spec"].get(path) != before["spec"].get(path)
    ]
    for part in ("kind", "plural"):
        if obj["spec"]["names"].get(part) != before["spec"]["names"].get(part):
            value = obj["spec"]["names"].get(part, "")
            causes.append(field_errors.invalid(f"spec.names.{part}", value, "field is immutable"))
    return causes


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort versions by clients' preference: v2, v1, v1beta2, v1alpha1, then other names."""
    match = _VERSION.match(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)


def storage_resource(definition: Object) -> Resource:
    """The resource that stores the objects of all versions."""
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    return _served_resource(definition, version, None)


def served_resources(definition: Object, storage: Resource) -> tuple[Resource, ...]:
    """The served resources, the preferred version first; all are views of `storage`."""
    versions = [one for one in definition["spec"]["versions"] if one["served"]]
    versions.sort(key=lambda one: version_order(one["name"]))
    return tuple(_served_resource(definition, one, storage) for one in versions)


def _served_resource(definition: Object, version: Object, storage: Resource | None) -> Resource:
    """The row of the table for one version; `storage` is the one that stores it, None for that one itself."""
    spec = definition["spec"]
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    columns = version.get("additionalPrinterColumns") or ()
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in (STATUS, SCALE) if name in subresources),
        fields=tuple(one["jsonPath"].lstrip(".") for one in version.get("selectableFields") or ()),
        counts_generations=True,
        needs_version=True,
        custom=True,
        storage=storage,
        singular_name=names["singular"],
        list_name=names["listKind"],
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        printed=tuple(
            PrintedColumn(one["name"], one["type"], one["jsonPath"], one.get("description", ""), one.get("priority", 0))
            for one in columns
        ),
        scale_paths=ScalePaths(
            scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""
        )
        if scale
        else ScalePaths(),
    )
