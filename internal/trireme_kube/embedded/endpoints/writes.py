"""POST, PUT, PATCH and DELETE: from a decoded request to the registry and back.

One method per verb, for every resource alike; subresources with rules of their own are looked up in a table.

Also change: internal/trireme_kube/embedded/registry/subresources.py (subresources with rules of their own).

Tests: tests/unit/embedded/controllers/test_custom_resources.py, tests/contract/test_bind_service.py.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trireme_kube.apimachinery import api_writes
from trireme_kube.embedded.api import api_errors, field_errors
from trireme_kube.embedded.api.resources import BY_KIND, Object, Resource, stored_as
from trireme_kube.embedded.endpoints import conversion, patches, server_side_apply
from trireme_kube.embedded.endpoints.reads import ReadHandler, ResponseForm
from trireme_kube.embedded.endpoints.request_info import RequestInfo
from trireme_kube.embedded.registry import subresources
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.serializer import type_checking
from trireme_kube.embedded.storage.store import Record

JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, api_writes.MERGE, api_writes.STRATEGIC_MERGE, APPLY_PATCH)


def patch_types(resource: Resource) -> tuple[str, ...]:
    """The kinds of patch that a resource takes; a strategic one needs to know the type."""
    return tuple(one for one in PATCH_TYPES if one != api_writes.STRATEGIC_MERGE) if resource.custom else PATCH_TYPES


@dataclass(frozen=True, slots=True)
class Reply:
    """A status code and a JSON body."""

    code: int
    body: bytes


def dry_run_of(verb: str, query: Mapping[str, str], options: Mapping[str, Any] | None = None) -> bool:
    """Whether the write is a dry run. Raises: ApiError 422 for anything but All."""
    requested = query.get("dryRun") or next(iter((options or {}).get("dryRun") or ()), "")
    if requested not in ("", "All"):
        text = f'Unsupported value: ["{requested}"]: supported values: "All"'
        raise api_errors.invalid_options(f"{verb}Options", field_errors.Cause("FieldValueNotSupported", "dryRun", text))
    return requested == "All"


class WriteHandler:
    """Executes writes."""

    def __init__(self, registry: Registry, reader: ReadHandler) -> None:
        self._registry = registry
        self._reader = reader

    def _reply_with_object(self, target: RequestInfo, record: Record, form: ResponseForm, code: int = 200) -> Reply:
        return Reply(code, self._reader.object_in_form(target.resource, record, form))

    @staticmethod
    def _body_to_store(target: RequestInfo, query: Mapping[str, str], body: Object) -> Object:
        """The body of a write, of the right kind and shape, in the form that is stored."""
        check_kind(target.resource, body)
        body = type_checking.conform_to_type(target.resource, body, strict=query.get("fieldValidation") == "Strict")
        return conversion.to_storage(target.resource, body)

    def post(self, target: RequestInfo, query: Mapping[str, str], body: Object, form: ResponseForm) -> Reply:
        """Creates an object, or acts through a subresource."""
        dry_run = dry_run_of("Create", query)
        if target.subresource:
            action = {"binding": subresources.bind, "eviction": subresources.evict}.get(target.subresource)
            if action is None:
                raise api_errors.method_not_allowed()
            return Reply(
                201, orjson.dumps(action(self._registry, target.namespace, target.name, body, dry_run=dry_run))
            )
        if target.name:
            raise api_errors.method_not_allowed()
        body = self._body_to_store(target, query, body)
        stored = stored_as(target.resource)
        record = self._registry.create(stored, target.namespace, body, dry_run=dry_run)
        return self._reply_with_object(target, record, form, 201)

    def put(self, target: RequestInfo, query: Mapping[str, str], body: Object, form: ResponseForm) -> Reply:
        """Replaces an object, its status, or its scale."""
        dry_run = dry_run_of("Update", query)
        stored = stored_as(target.resource)
        if target.subresource == "scale":
            edit = functools.partial(subresources.rescale, scale=body, paths=stored.scale_paths)
            record = self._registry.edit_object(stored, target.namespace, target.name, edit, dry_run=dry_run)
            return Reply(200, orjson.dumps(subresources.scale_of(record.object, stored.scale_paths)))
        record, created = self._registry.update(
            stored,
            target.namespace,
            target.name,
            self._body_to_store(target, query, body),
            subresource=target.subresource,
            dry_run=dry_run,
        )
        return self._reply_with_object(target, record, form, 201 if created else 200)

    def patch(self, target: RequestInfo, query: Mapping[str, str], kind: str, body: Any, form: ResponseForm) -> Reply:
        """Changes an object by one of the four kinds of patch."""
        dry_run = dry_run_of("Patch", query)
        stored = stored_as(target.resource)
        if kind == APPLY_PATCH:
            return self._apply_server_side(target, query, body, form, dry_run)
        if kind != JSON_PATCH and not isinstance(body, dict):
            raise api_errors.bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
        change = {
            JSON_PATCH: patches.apply_json_patch,
            api_writes.MERGE: patches.apply_merge_patch,
            api_writes.STRATEGIC_MERGE: patches.apply_strategic_patch,
        }[kind]
        if target.subresource == "scale":

            def with_patched_scale(obj: Object) -> Object:
                return subresources.rescale(
                    obj, change(subresources.scale_of(obj, stored.scale_paths), body), stored.scale_paths
                )

            record = self._registry.edit_object(
                stored, target.namespace, target.name, with_patched_scale, dry_run=dry_run
            )
            return Reply(200, orjson.dumps(subresources.scale_of(record.object, stored.scale_paths)))

        def with_patch(obj: Object) -> Object:
            view = conversion.object_to_view(target.resource, obj)
            return self._body_to_store(target, query, change(view, body))

        record = self._registry.edit_object(
            stored, target.namespace, target.name, with_patch, subresource=target.subresource, dry_run=dry_run
        )
        return self._reply_with_object(target, record, form)

    def _apply_server_side(
        self, target: RequestInfo, query: Mapping[str, str], body: Any, form: ResponseForm, dry_run: bool
    ) -> Reply:
        """Apply the body as the field manager's; create the object if there is none, unless it is a subresource."""
        manager = query.get("fieldManager", "")
        if not manager:
            cause = field_errors.required("fieldManager", "is required for apply patch")
            raise api_errors.invalid_options("PatchOptions", cause)
        if not isinstance(body, dict):
            raise api_errors.bad_request("error decoding YAML: the body is no object")
        check_kind(target.resource, body)
        apply_request = server_side_apply.ApplyRequest(
            manager=manager,
            force=query.get("force") == "true",
            subresource=target.subresource,
            now=self._registry.clock_and_ids.now(),
            body=body,
        )
        stored = stored_as(target.resource)
        if self._registry.store.get(stored, target.namespace, target.name) is None and not target.subresource:
            obj = self._body_to_store(target, query, apply_request.new_object(target.name))
            record, _ = self._registry.update(stored, target.namespace, target.name, obj, dry_run=dry_run, create=True)
            return self._reply_with_object(target, record, form, 201)
        record = self._registry.edit_object(
            stored,
            target.namespace,
            target.name,
            lambda obj: self._body_to_store(target, query, apply_request.apply_to(obj)),
            subresource=target.subresource,
            dry_run=dry_run,
        )
        return self._reply_with_object(target, record, form)

    def delete(self, target: RequestInfo, query: Mapping[str, str], options: Object, form: ResponseForm) -> Reply:
        """Deletes one object."""
        if target.subresource:
            raise api_errors.method_not_allowed()
        options = _delete_options(query, options)
        stored = stored_as(target.resource)
        record, deleted = self._registry.delete(stored, target.namespace, target.name, options)
        if not deleted or stored.returns_deleted:
            code = 202 if not deleted and options.get("orphanDependents") is False else 200
            return self._reply_with_object(target, record, form, code)
        details: Object = {"name": record.name, "kind": target.resource.plural, "uid": record.uid}
        if target.resource.group:
            details["group"] = target.resource.group
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Reply(200, orjson.dumps(status))

    def delete_collection(
        self, target: RequestInfo, query: Mapping[str, str], options: Object, form: ResponseForm
    ) -> Reply:
        """Delete all objects that a list with the same parameters would return; return that list."""
        options = _delete_options(query, options)
        body = self._reader.list_objects(target, query, form)
        stored = stored_as(target.resource)
        for item in orjson.loads(self._reader.list_objects(target, query, ResponseForm()))["items"]:
            metadata = item["metadata"]
            self._registry.delete(stored, metadata.get("namespace", ""), metadata["name"], options)
        return Reply(200, body)


def _delete_options(query: Mapping[str, str], options: Object) -> Object:
    """Return DeleteOptions of body and query together. Raises: ApiError 400, 422."""
    options = dict(options)
    if "gracePeriodSeconds" in query:
        text = query["gracePeriodSeconds"]
        try:
            options["gracePeriodSeconds"] = int(text)
        except ValueError as error:
            raise api_errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if dry_run_of("Delete", query, options):
        options["dryRun"] = ["All"]
    return options


def check_kind(resource: Resource, body: Object) -> None:
    """Reject a body of another kind or version; a body may omit both. Raises: ApiError 400."""
    version, kind = body.get("apiVersion") or resource.api_version, body.get("kind") or resource.kind
    if (version, kind) == (resource.api_version, resource.kind):
        return
    short = str(version).rpartition("/")[2]
    why = f'no kind "{kind}" is registered for version "{version}"'
    if (version, kind) in BY_KIND:
        internal = f"{resource.group.split('.')[0] or 'core'}.{resource.kind}"
        why = f"converting ({short}.{kind}) to ({internal}): unknown conversion"
    raise api_errors.bad_request(f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {why}')
