"""Discovery: the versions, groups, resources and OpenAPI documents that the server serves.

Made from the catalog, in both forms that clients use: the plain documents per group, and the aggregated one that newer
clients request at once. Each is made for its first request, and again after the catalog has changed.

Also change: internal/trireme_kube/embedded/registry/subresources.py (subresources with rules of their own).

Tests: tests/unit/embedded/discovery/test_discovery.py, tests/unit/embedded/controllers/test_custom_resources.py.
"""

import functools
from collections.abc import Callable, Iterable

import orjson

from trireme_kube.componentbase.cli import versions
from trireme_kube.embedded.api.custom_resource_definitions import version_order
from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.discovery import openapi, openapi_protobuf
from trireme_kube.embedded.discovery.openapi import GroupVersion
from trireme_kube.embedded.registry.reviews import REVIEWS

VERSION = {
    "major": str(versions.DEFAULT.emulated[0]),
    "minor": str(versions.DEFAULT.emulated[1]),
    "emulationMajor": str(versions.DEFAULT.emulated[0]),
    "emulationMinor": str(versions.DEFAULT.emulated[1]),
    "minCompatibilityMajor": str(versions.DEFAULT.oldest_peer[0]),
    "minCompatibilityMinor": str(versions.DEFAULT.oldest_peer[1]),
    "gitVersion": f"{versions.KUBERNETES}+trireme",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale", ["get", "patch", "update"]),
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "finalize": ("", "v1", "Namespace", ["update"]),
    "log": ("", "v1", "Pod", ["get"]),
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_AGGREGATED = {"/api": "aggregated /api", "/apis": "aggregated /apis"}
_OPENAPI_PROTOBUF = "protobuf of /openapi/v2"


def _group_version_text(group_version: GroupVersion) -> str:
    """Group and version as `apiVersion` has them."""
    group, version = group_version
    return f"{group}/{version}" if group else version


def _kind_and_verbs_of_subresource(resource: Resource, name: str) -> tuple[str, str, str, list[str]]:
    """Group, version, kind and verbs of a subresource.

    They are the resource's own with get, patch and update, except for special ones.
    """
    own = (resource.group, resource.version, resource.kind, ["get", "patch", "update"])
    return _SUBRESOURCE_KINDS.get(name, own)


def resource_list(group_version: GroupVersion, resources: list[Resource]) -> Object:
    """The plain document of one group and version with these resources."""
    entries: list[Object] = []
    for one in resources:
        entry: Object = {
            "name": one.plural,
            "singularName": one.singular,
            "namespaced": one.namespaced,
            "kind": one.kind,
            "verbs": _VERBS,
        }
        if one.short:
            entry["shortNames"] = list(one.short)
        if one.categories:
            entry["categories"] = list(one.categories)
        entries.append(entry)
        for name in one.subresources:
            group, version, kind, verbs = _kind_and_verbs_of_subresource(one, name)
            sub: Object = {"name": f"{one.plural}/{name}", "singularName": "", "namespaced": one.namespaced}
            if (group, version) != group_version:
                sub |= {"group": group, "version": version}
            entries.append({**sub, "kind": kind, "verbs": verbs})
    for review in REVIEWS:
        if (review.group, review.version) == group_version:
            names = {"name": review.plural, "singularName": review.kind.lower()}
            entries.append({**names, "namespaced": review.namespaced, "kind": review.kind, "verbs": ["create"]})
    entries.sort(key=lambda entry: str(entry["name"]))
    document: Object = {
        "kind": "APIResourceList",
        "groupVersion": _group_version_text(group_version),
        "resources": entries,
    }
    return {"apiVersion": "v1", **document} if group_version[0] else document


def _group_version_kind(group: str, version: str, kind: str) -> Object:
    """Group, version and kind as discovery writes them."""
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(resource: Resource) -> Object:
    """Describe a resource with its subresources for aggregated discovery."""
    entry: Object = {
        "resource": resource.plural,
        "responseKind": _group_version_kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _VERBS,
    }
    if resource.short:
        entry["shortNames"] = list(resource.short)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = []
    for name in resource.subresources:
        group, version, kind, verbs = _kind_and_verbs_of_subresource(resource, name)
        subresources.append(
            {"subresource": name, "responseKind": _group_version_kind(group, version, kind), "verbs": verbs}
        )
    if subresources:
        entry["subresources"] = subresources
    return entry


def _aggregated_groups(core: bool, served: dict[GroupVersion, list[Resource]]) -> Object:
    """Make the document of aggregated discovery: the core group (/api), or all others (/apis)."""
    groups: dict[str, list[Object]] = {}
    for (group, version), rows in served.items():
        if core is bool(group):
            continue
        resources = [_aggregated_resource(one) for one in rows]
        resources.extend(
            {
                "resource": review.plural,
                "responseKind": _group_version_kind(group, version, review.kind),
                "scope": "Namespaced" if review.namespaced else "Cluster",
                "singularResource": review.kind.lower(),
                "verbs": ["create"],
            }
            for review in REVIEWS
            if (review.group, review.version) == (group, version)
        )
        groups.setdefault(group, []).append({"version": version, "freshness": "Current", "resources": resources})
    items = []
    for name, entries in groups.items():
        # Clients prefer the first.
        entries.sort(key=lambda one: version_order(one["version"]))
        items.append({"metadata": {"name": name} if name else {}, "versions": entries})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _api_group_document(name: str, served: Iterable[GroupVersion]) -> Object:
    names = sorted((version for group, version in served if group == name), key=version_order)
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in names]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _group_version_path(group_version: GroupVersion) -> str:
    """The path of a group and version, without a leading slash."""
    group, version = group_version
    return f"apis/{group}/{version}" if group else f"api/{version}"


class Discovery:
    """The documents of one cluster."""

    def __init__(self, catalog: ResourceCatalog) -> None:
        self._catalog = catalog
        self._revision = -1
        self._served: dict[GroupVersion, list[Resource]] = {}
        self._makers: dict[str, Callable[[], bytes]] = {}
        self._made: dict[str, bytes] = {}

    def _update_if_catalog_changed(self) -> None:
        """Drop the documents made so far if the served resources have changed."""
        if self._revision == self._catalog.revision:
            return
        self._revision = self._catalog.revision
        self._made.clear()
        self._served = {}
        for resource in self._catalog.resources():
            self._served.setdefault((resource.group, resource.version), []).append(resource)
        for review in REVIEWS:
            self._served.setdefault((review.group, review.version), [])
        self._makers = self._document_makers()

    def _document_makers(self) -> dict[str, Callable[[], bytes]]:
        """The function that makes the document of each path; it is called when a client first asks for that path."""
        served = self._served
        groups = list(dict.fromkeys(group for group, _ in served if group))
        root = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
        names = [_api_group_document(name, served) for name in groups]
        plain: dict[str, Object] = {
            "/version": VERSION,
            "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [root]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": names},
            "/openapi/v3": {
                "paths": {_group_version_path(one): {"serverRelativeURL": self._openapi_url(one)} for one in served}
            },
        }
        for name, group in zip(groups, names, strict=True):
            plain[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **group}
        for one, resources in served.items():
            plain["/" + _group_version_path(one)] = resource_list(one, resources)
        makers: dict[str, Callable[[], bytes]] = {
            path: functools.partial(orjson.dumps, document) for path, document in plain.items()
        }
        for one, resources in served.items():
            makers[f"/openapi/v3/{_group_version_path(one)}"] = functools.partial(
                openapi.version_3, resources, VERSION["gitVersion"]
            )
        makers["/openapi/v2"] = lambda: orjson.dumps(self._openapi_v2())
        makers[_OPENAPI_PROTOBUF] = lambda: openapi_protobuf.encode(self._openapi_v2())
        makers["/"] = lambda: orjson.dumps({"paths": sorted(path for path in makers if path != _OPENAPI_PROTOBUF)})
        makers[_AGGREGATED["/api"]] = lambda: orjson.dumps(_aggregated_groups(True, served))
        makers[_AGGREGATED["/apis"]] = lambda: orjson.dumps(_aggregated_groups(False, served))
        return makers

    def _openapi_url(self, group_version: GroupVersion) -> str:
        return f"/openapi/v3/{_group_version_path(group_version)}?hash={VERSION['gitVersion']}-{self._revision}"

    def _openapi_v2(self) -> Object:
        return openapi.version_2(self._catalog.resources(), VERSION["gitVersion"])

    def _cached_document(self, name: str) -> bytes | None:
        """Return the document of a path, made at its first request; None if there is none."""
        self._update_if_catalog_changed()
        if name not in self._made and (make := self._makers.get(name)) is not None:
            self._made[name] = make()
        return self._made.get(name)

    def document(self, path: str, accept: str) -> tuple[str, bytes] | None:
        """Media type and body of the document at a path, in a form that the client accepts; None if there is none."""
        if path in _AGGREGATED and "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" in accept:
            body, kind = self._cached_document(_AGGREGATED[path]), AGGREGATED
        elif path == "/openapi/v2" and openapi_protobuf.is_accepted(accept):
            body, kind = self._cached_document(_OPENAPI_PROTOBUF), openapi_protobuf.MEDIA_TYPE
        else:
            body, kind = self._cached_document(path.rstrip("/") or "/"), "application/json"
        return (kind, body) if body is not None else None

    def serves_version(self, path: str) -> bool:
        """Whether a path begins with a served group and version."""
        self._update_if_catalog_changed()
        return path.startswith("/api/v1/") or "/".join(path.split("/")[:4]) in self._makers
