"""Parses URL paths of the API.

`/api/v1/namespaces/default/pods/web/status` and its relatives, for every resource in the table; other paths (the
discovery documents, health, reviews) are matched as a whole elsewhere.

Tests: tests/unit/embedded/endpoints/test_reads.py.
"""

from dataclasses import dataclass

from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import NAMESPACES, Resource


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A resource, and namespace, name and subresource if the path has them."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str, catalog: ResourceCatalog) -> RequestInfo | None:
    """The target of a decoded path, or None if it is not the path of a served resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in NAMESPACES.subresources):
        namespace, rest = rest[1], rest[2:]
    resource = catalog.find(group, version, rest[0])
    if resource is None or (namespace and not resource.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    unknown = len(rest) > 3 or (subresource and subresource not in resource.subresources)
    if unknown and subresource not in resource.unserved:  # a proxy has more parts
        return None
    if name and resource.namespaced and not namespace:
        return None
    return RequestInfo(resource, namespace, name, subresource)
