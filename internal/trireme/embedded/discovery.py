"""What clients read to learn what the server serves: versions, groups, resources, and OpenAPI documents.

Made from the resource table, in both forms that clients know: the plain documents per group, and the aggregated one
that newer clients ask for in a single request. The OpenAPI documents say just enough for `kubectl`: which kinds exist,
and that fields are validated by the server, so that `kubectl` leaves that to it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import orjson

from trireme.embedded.resources import RESOURCES, Resource
from trireme.embedded.reviews import REVIEWS
from trireme.embedded.store import Object

VERSION = {
    "major": "1",
    "minor": "37",
    "emulationMajor": "1",
    "emulationMinor": "37",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "36",
    "gitVersion": "v1.37.0+trireme",
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

GroupVersion = tuple[str, str]


def _group_versions(optional: bool) -> list[GroupVersion]:
    served = {(one.group, one.version): None for one in RESOURCES if optional or not one.optional}
    served.update({(one.group, one.version): None for one in REVIEWS})
    return list(served)


def _of(group_version: GroupVersion) -> list[Resource]:
    return [one for one in RESOURCES if (one.group, one.version) == group_version]


def _text(group_version: GroupVersion) -> str:
    group, version = group_version
    return f"{group}/{version}" if group else version


def _subresource(resource: Resource, name: str) -> tuple[str, str, str, list[str]]:
    own = (resource.group, resource.version, resource.kind, ["get", "patch", "update"])
    return _SUBRESOURCE_KINDS.get(name, own)


def resource_list(group_version: GroupVersion) -> Object:
    """The plain document of one group and version."""
    entries: list[Object] = []
    for one in _of(group_version):
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
            group, version, kind, verbs = _subresource(one, name)
            sub: Object = {"name": f"{one.plural}/{name}", "singularName": "", "namespaced": one.namespaced}
            if (group, version) != group_version:
                sub |= {"group": group, "version": version}
            entries.append({**sub, "kind": kind, "verbs": verbs})
    for review in REVIEWS:
        if (review.group, review.version) == group_version:
            names = {"name": review.plural, "singularName": review.kind.lower()}
            entries.append({**names, "namespaced": review.namespaced, "kind": review.kind, "verbs": ["create"]})
    entries.sort(key=lambda entry: str(entry["name"]))
    document: Object = {"kind": "APIResourceList", "groupVersion": _text(group_version), "resources": entries}
    return {"apiVersion": "v1", **document} if group_version[0] else document


def _kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}


def _discovered(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
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
        group, version, kind, verbs = _subresource(resource, name)
        subresources.append({"subresource": name, "responseKind": _kind(group, version, kind), "verbs": verbs})
    if subresources:
        entry["subresources"] = subresources
    return entry


def _aggregate(core: bool, optional: bool) -> Object:
    groups: dict[str, list[Object]] = {}
    for group, version in _group_versions(optional):
        if core is bool(group):
            continue
        resources = [_discovered(one) for one in _of((group, version))]
        for review in REVIEWS:
            if (review.group, review.version) == (group, version):
                resources.append(
                    {
                        "resource": review.plural,
                        "responseKind": _kind(group, version, review.kind),
                        "scope": "Namespaced" if review.namespaced else "Cluster",
                        "singularResource": review.kind.lower(),
                        "verbs": ["create"],
                    }
                )
        groups.setdefault(group, []).append({"version": version, "freshness": "Current", "resources": resources})
    items = []
    for name, versions in groups.items():
        # The stable version is the preferred one, and clients take the first.
        versions.sort(key=lambda one: "beta" in one["version"] or "alpha" in one["version"])
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _group(name: str, served: list[GroupVersion]) -> Object:
    versions = sorted((version for group, version in served if group == name), key=lambda one: "beta" in one)
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


# OpenAPI


def _schema_name(resource: Resource) -> str:
    group = (resource.group or "core").removesuffix(".k8s.io").split(".")[0]
    return f"io.k8s.api.{group}.{resource.version}.{resource.kind}"


def _schema(resource: Resource) -> Object:
    return {
        "description": f"{resource.kind} of {resource.api_version}.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the object's form."},
            "kind": {"type": "string", "description": "The kind of the object."},
            "metadata": {"type": "object", "description": "Name, labels, owners and the like."},
            "spec": {"type": "object", "description": "What is wanted.", "x-kubernetes-preserve-unknown-fields": True},
            "status": {"type": "object", "description": "What is.", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-group-version-kind": [_kind(resource.group, resource.version, resource.kind)],
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _parameters() -> list[Object]:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    return [{"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names]


def _openapi_paths(resource: Resource, schema_prefix: str) -> Object:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}/{resource.version}{scope}/{resource.plural}"
    kind = _kind(resource.group, resource.version, resource.kind)
    body = {"content": {"application/json": {"schema": {"$ref": f"{schema_prefix}{_schema_name(resource)}"}}}}

    def operation(action: str) -> Object:
        return {
            "parameters": _parameters(),
            "responses": {"200": {"description": "OK", **body}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        }

    one = {"get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete")}
    return {
        collection: {"get": operation("list"), "post": operation("post")},
        collection + "/{name}": one,
    }


def openapi_v3(group_version: GroupVersion) -> Object:
    """The OpenAPI v3 document of one group and version."""
    paths: Object = {}
    schemas: Object = {}
    for resource in _of(group_version):
        paths.update(_openapi_paths(resource, "#/components/schemas/"))
        schemas[_schema_name(resource)] = _schema(resource)
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _openapi_v2() -> Object:
    definitions = {_schema_name(resource): _schema(resource) for resource in RESOURCES}
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}


def _openapi_path(group_version: GroupVersion) -> str:
    group, version = group_version
    return f"apis/{group}/{version}" if group else f"api/{version}"


@functools.cache
def documents(optional: bool) -> Mapping[str, bytes]:
    """Every plain document by its path; `optional` says whether optional resources are served."""
    served = _group_versions(optional)
    groups = list(dict.fromkeys(group for group, _ in served if group))
    root = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
    made: dict[str, Object] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [root]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, served) for name in groups]},
        "/openapi/v2": _openapi_v2(),
        "/openapi/v3": {
            "paths": {
                _openapi_path(one): {"serverRelativeURL": f"/openapi/v3/{_openapi_path(one)}?hash=trireme"}
                for one in served
            }
        },
    }
    for group in groups:
        made[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(group, served)}
    for one in served:
        made["/" + _openapi_path(one)] = resource_list(one)
        made["/openapi/v3/" + _openapi_path(one)] = openapi_v3(one)
    made["/"] = {"paths": sorted(made)}
    return {path: orjson.dumps(document) for path, document in made.items()}


@functools.cache
def aggregated(path: str, optional: bool) -> bytes:
    """The aggregated document of `/api` or `/apis`."""
    return orjson.dumps(_aggregate(path == "/api", optional))
