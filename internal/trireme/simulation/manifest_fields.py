"""Checks the fields of a manifest against the types of the Kubernetes API, as kubectl's strict validation does.

A field that is misspelt would be passed over, and the answer would be about another object than was meant.
"""

from collections.abc import Sequence
from typing import Any

from trireme_kube.embedded.api import api_errors, resources
from trireme_kube.embedded.serializer import type_checking

_UNKNOWN = 'unknown field "'


def problems(manifest: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What is wrong: the path of the field, empty for the manifest as a whole, and the text. Empty: nothing.

    The manifest loses what is null, which says as much as what is absent.
    """
    kind, version = manifest.get("kind"), manifest.get("apiVersion")
    resource = _find(kind, version)
    if resource is None:
        text = "must name a kind of the Kubernetes API" if kind is None else f"{kind} of {version or 'v1'} is not known"
        return [("kind", text)]
    try:
        type_checking.conform_to_type(resource, manifest, strict=True)
    except api_errors.ApiError as error:
        unknown = [part.partition('"')[0] for part in error.message.split(_UNKNOWN)[1:]]
        return [(path, f"unknown field of {kind}") for path in sorted(unknown)] or [("", error.message)]
    return ()


def _find(kind: Any, version: Any) -> resources.Resource | None:
    """The resource of this kind and version, of any version without one; None: there is none."""
    for resource in resources.RESOURCES:
        if resource.kind == kind and version in (None, resource.api_version):
            return resource
    return None
