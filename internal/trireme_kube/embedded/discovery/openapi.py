"""The OpenAPI documents, from which `kubectl explain` and `kubectl apply` learn the fields of each kind.

The schemas of built-in kinds are those of the real API server (`openapi_from_server` fetches them); they are unpacked
for the first request. Custom resources have the schema of their definition. Paths contain just enough to find the kind
of a resource, and that the server validates fields, so that `kubectl` leaves that to it.

Tests: tests/unit/embedded/controllers/test_custom_resources.py.
"""

import functools
import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from trireme_kube.embedded.api.resources import Object, Resource

SCHEMA_FILE = Path(__file__).with_name("openapi.json.gz")
_V3, _V2 = "#/components/schemas/", "#/definitions/"
_KINDS = "x-kubernetes-group-version-kind"
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
GroupVersion = tuple[str, str]


@functools.cache
def _load_all_schemas() -> dict[str, Object]:
    """Read the schemas of all built-in types, by name, from the file beside this module."""
    loaded: dict[str, Object] = orjson.loads(gzip.decompress(SCHEMA_FILE.read_bytes()))
    return loaded


@functools.cache
def _schema_names_by_kind() -> dict[tuple[str, str, str], str]:
    """Names of the schemas by group, version and kind."""
    return {
        (one["group"], one["version"], one["kind"]): name
        for name, schema in _load_all_schemas().items()
        for one in schema.get(_KINDS) or ()
        if len(schema[_KINDS]) == 1
    }


def references(schema: Any) -> Iterator[str]:
    """Names of the schemas that a schema refers to."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def _schemas_with_references(names: Iterable[str]) -> dict[str, Object]:
    """These schemas with all that they refer to, directly or not."""
    closure: dict[str, Object] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure[name] = _load_all_schemas()[name]
            waiting += references(closure[name])
    return closure


def _group_version_kinds(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _custom_schema(resource: Resource) -> Object:
    """Return a custom resource's schema, with the fields that all objects have."""
    schema = dict(resource.schema or {"type": "object"})
    own = {
        "apiVersion": {"type": "string", "description": "Version of the object's form."},
        "kind": {"type": "string", "description": "The kind of the object."},
        "metadata": {"description": "Standard object's metadata.", "allOf": [{"$ref": _V3 + _METADATA}]},
    }
    schema["properties"] = {**(schema.get("properties") or {}), **own}
    return {**schema, _KINDS: [_group_version_kinds(resource)]}


def _schema_name(resource: Resource) -> str:
    """The name under which a document has the resource's schema."""
    if resource.custom:
        return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"
    return _schema_names_by_kind()[(resource.group, resource.version, resource.kind)]


def _all_schemas(resources: Iterable[Resource]) -> dict[str, Object]:
    """Return the schemas of these resources, and all that they refer to, by name."""
    resources = list(resources)
    fixed = [_schema_name(one) for one in resources if not one.custom]
    result = _schemas_with_references([*fixed, _METADATA])
    result.update({_schema_name(one): _custom_schema(one) for one in resources if one.custom})
    return result


def _query_parameters_of_writes() -> list[Object]:
    """The query parameters that writes take, as OpenAPI describes them."""
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    return [{"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in names]


def _path_items(resource: Resource) -> Object:
    """Describe the paths of a resource with their operations, as far as clients read them."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}/{resource.version}{scope}/{resource.plural}"
    body = {"content": {"application/json": {"schema": {"$ref": f"{_V3}{_schema_name(resource)}"}}}}

    def describe_operation(action: str) -> Object:
        return {
            "parameters": _query_parameters_of_writes(),
            "responses": {"200": {"description": "OK", **body}},
            "x-kubernetes-action": action,
            _KINDS: _group_version_kinds(resource),
        }

    one = {
        "get": describe_operation("get"),
        "put": describe_operation("put"),
        "patch": describe_operation("patch"),
        "delete": describe_operation("delete"),
    }
    return {
        collection: {"get": describe_operation("list"), "post": describe_operation("post")},
        collection + "/{name}": one,
    }


def version_3(resources: Iterable[Resource], version: str) -> bytes:
    """The OpenAPI v3 document of the resources of one group and version."""
    resources = list(resources)
    paths: Object = {}
    for resource in resources:
        paths.update(_path_items(resource))
    components = {"schemas": _all_schemas(resources)}
    info = {"title": "Kubernetes", "version": version}
    return orjson.dumps({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})


def _as_version_2(schema: Any) -> Any:
    """A schema in version 2's notation."""
    if isinstance(schema, list):
        return [_as_version_2(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "oneOf" in schema and "properties" not in schema:  # a quantity, or a number or a name
        supported = {key: value for key, value in schema.items() if key not in ("oneOf", "format")}
        return {**supported, "type": "string", **({"format": schema["format"]} if "format" in schema else {})}
    result = {key: _as_version_2(value) for key, value in schema.items() if key not in ("default", "allOf", "nullable")}
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and "$ref" in parts[0]:
        result["$ref"] = parts[0]["$ref"]
    if isinstance(result.get("$ref"), str):
        result["$ref"] = result["$ref"].replace(_V3, _V2)
    return result


def version_2(resources: Iterable[Resource], version: str) -> Object:
    """The OpenAPI v2 document of all resources."""
    definitions = {name: _as_version_2(schema) for name, schema in _all_schemas(resources).items()}
    info = {"title": "Kubernetes", "version": version}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions}
