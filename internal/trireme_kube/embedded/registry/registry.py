"""Creates, changes and deletes objects with the API server's rules, between HTTP and the store.

Every write of a client, of a controller and of a simulated kubelet goes through here, so that the same optimistic
concurrency, defaults, finalizers and grace periods apply to all. The rules are general; what is particular to a
resource comes from its row in the table and from `defaults`, `admission` and `validation`.

Source: k8s.io/apiserver, pkg/registry/generic/registry/store.go and pkg/registry/rest.
"""

from collections.abc import Callable, Collection
from typing import Any

import orjson

from trireme_kube.embedded.api import api_errors, field_errors, pod_resources
from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS, Object, Resource
from trireme_kube.embedded.api.timestamps import timestamp
from trireme_kube.embedded.clock_and_ids import ClockAndIds
from trireme_kube.embedded.registry import defaults, pod_defaults
from trireme_kube.embedded.registry.admission import Admission
from trireme_kube.embedded.registry.quotas.quota_admission import QuotaAdmission
from trireme_kube.embedded.storage.store import Record, Store
from trireme_kube.embedded.validation import object_validation

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)
_IMMUTABLE_FIELDS = ("name", "namespace", *_SYSTEM_FIELDS)
# For these, a delete without a policy orphans the dependents, as in their first versions.
_ORPHAN_BY_DEFAULT = frozenset({"jobs.batch", "replicationcontrollers"})
_GENERATED_NAME_LIMIT = 58
_NAME_ATTEMPTS = 8


def metadata_of(body: Object) -> Object:
    """A copy of a body's metadata, which may be missing."""
    metadata = body.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise api_errors.bad_request("json: cannot unmarshal metadata into Go value of type v1.ObjectMeta")
    return {key: value for key, value in metadata.items() if value is not None}


def check_address(metadata: Object, namespace: str, name: str) -> None:
    """Reject a body that names another object than the URL."""
    if metadata.get("name", name) != name:
        body_name = metadata["name"]
        raise api_errors.bad_request(
            f"the name of the object ({body_name}) does not match the name on the URL ({name})"
        )
    if metadata.get("namespace", namespace) != namespace:
        raise api_errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def spec_changed(new: Object, old: Object) -> bool:
    """Whether anything but metadata and status differs."""
    ignored = ("metadata", "status")
    keys = (new.keys() | old.keys()).difference(ignored)
    return any(new.get(key) != old.get(key) for key in keys)


class Registry:
    """The API's write rules over one store."""

    def __init__(self, store: Store, clock_and_ids: ClockAndIds, catalog: ResourceCatalog | None = None) -> None:
        self.store = store
        self.catalog = catalog or ResourceCatalog()
        self.clock_and_ids = clock_and_ids
        self.admission = Admission(store, clock_and_ids)
        self._quotas = QuotaAdmission(store, clock_and_ids.clock)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """The record; raises ApiError 404."""
        record = self.store.get(resource, namespace, name)
        if record is None:
            raise api_errors.not_found(resource, name)
        return record

    # Creating

    def create(self, resource: Resource, namespace: str, body: Object, *, dry_run: bool = False) -> Record:
        """Store a new object made from `body`, which becomes the registry's; a namespace with its service account.

        The server's own metadata replace those in `body`. A dry run stores nothing.

        Raises: ApiError 400, 403, 404 (no such namespace), 409, 422.
        """
        metadata = metadata_of(body)
        if metadata.pop("resourceVersion", ""):
            raise api_errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
        for field in _SYSTEM_FIELDS:
            metadata.pop(field, None)
        if resource.namespaced:
            check_address(metadata, namespace, metadata.get("name", ""))
            metadata["namespace"] = namespace
            self.admission.check_namespace(resource, namespace, metadata.get("name", ""))
        else:
            metadata.pop("namespace", None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generate_name(resource, namespace, metadata["generateName"])
        metadata["uid"] = self.clock_and_ids.uid()
        metadata["creationTimestamp"] = self.clock_and_ids.now()
        if resource.counts_generations:
            metadata["generation"] = 1
        body.pop("metadata", None)
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        obj.update((key, value) for key, value in body.items() if key not in obj)
        self._prepare_for_create(resource, obj)
        charges = self._quotas.check_create(resource, obj)
        if self.store.get(resource, metadata.get("namespace", ""), metadata["name"]) is not None:
            raise api_errors.already_exists(resource, metadata["name"])
        if dry_run:
            return Record(obj, self.store.revision)
        self._quotas.charge(charges)
        record = self.store.put(resource, obj)
        if resource is NAMESPACES:
            self.store.put(SERVICE_ACCOUNTS, self._new_default_account(record.name))
        return record

    def _new_default_account(self, namespace: str) -> Object:
        """The default service account of a new namespace, not stored yet."""
        metadata = {"name": "default", "namespace": namespace, "uid": self.clock_and_ids.uid()}
        metadata["creationTimestamp"] = self.clock_and_ids.now()
        return {"kind": SERVICE_ACCOUNTS.kind, "apiVersion": SERVICE_ACCOUNTS.api_version, "metadata": metadata}

    def _prepare_for_create(self, resource: Resource, obj: Object) -> None:
        """Defaults, admission, validation and the initial status of a new object."""
        if resource.has_status and not resource.keeps_status:
            obj.pop("status", None)
        defaults.set_defaults(resource.key, obj)
        object_validation.validate_create(resource, obj)
        self.admission.admit(resource, obj)
        if resource.has_status and "status" not in obj and not resource.custom:
            obj["status"] = defaults.initial_status(resource, obj, self.clock_and_ids.now())

    def _generate_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        """Return a name with that prefix that is free; after a few tries one that is taken."""
        for _ in range(_NAME_ATTEMPTS):
            name = prefix[:_GENERATED_NAME_LIMIT] + self.clock_and_ids.suffix()
            if self.store.get(resource, namespace, name) is None:
                break
        return name

    # Changing

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        create: bool = False,
    ) -> tuple[Record, bool]:
        """Replace an object by `body` as PUT does; return the record and whether it was created.

        Raises: ApiError 400, 404, 409, 422.
        """
        metadata = metadata_of(body)
        check_address(metadata, namespace, name)
        before = self.store.get(resource, namespace, name)
        if before is None:
            if subresource or not (resource.created_by_update or create) or metadata.get("uid"):
                raise api_errors.not_found(resource, name)
            body["metadata"] = {**metadata, "name": name}
            body["metadata"].pop("resourceVersion", None)
            return self.create(resource, namespace, body, dry_run=dry_run), True
        if metadata.get("uid") and metadata["uid"] != before.uid:
            raise api_errors.precondition_failed(resource, before.key, "UID", metadata["uid"], before.uid)
        return self._update_existing(resource, before, {**body, "metadata": metadata}, subresource, dry_run), False

    def edit_object(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        edit: Callable[[Object], Object],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Record:
        """Replace an object by the result of `edit` as PATCH does; `edit` does not change its argument.

        Raises: ApiError 400, 404, 409, 422.
        """
        before = self.get(resource, namespace, name)
        body = edit(before.object)
        if subresource != "status":
            body = orjson.loads(orjson.dumps(body))  # the steps that follow fill in defaults, in place
        metadata = metadata_of(body)
        check_address(metadata, namespace, name)
        object_validation.validate_identity(resource, metadata, before.object["metadata"])
        return self._update_existing(resource, before, {**body, "metadata": metadata}, subresource, dry_run)

    def _update_existing(
        self, resource: Resource, before: Record, body: Object, subresource: str, dry_run: bool
    ) -> Record:
        """Replace an object by `body`: of its status alone for the subresource `status`, of all else otherwise.

        Raises: ApiError 403 if a quota is exceeded, 409 if `body` has another resourceVersion, 422.
        """
        old = before.object
        version = body["metadata"].get("resourceVersion", "")
        if not version and resource.needs_version:
            cause = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise api_errors.invalid_object(resource.group, resource.plural, before.name, [cause])
        if version and version != old["metadata"]["resourceVersion"]:
            raise api_errors.conflict(resource, before.name, api_errors.MODIFIED)
        if subresource in ("status", "approval"):
            obj = self._with_new_status(resource, old, body)
        else:
            if subresource == "resize":
                body = pod_defaults.with_new_amounts(old, body)
            obj = self._with_all_but_status(resource, old, body, subresource)
            charges = self._quotas.check_update(resource, obj, old, subresource)
            if not dry_run:
                self._quotas.charge(charges)
        return self.store_update(resource, before, obj, dry_run=dry_run)

    def _merged_metadata(self, old: Object, new: Object) -> Object:
        """Return the new metadata, with the old object's immutable fields."""
        merged = {key: value for key, value in new.items() if key not in _IMMUTABLE_FIELDS}
        merged.update((key, old[key]) for key in _IMMUTABLE_FIELDS if key in old)
        merged["resourceVersion"] = old["resourceVersion"]
        return merged

    def _with_new_status(self, resource: Resource, old: Object, body: Object) -> Object:
        """Return the stored object with the body's status, and with what of its metadata may change so."""
        metadata = old["metadata"]
        if not resource.status_keeps_metadata:
            owners = metadata.get("ownerReferences")
            metadata = self._merged_metadata(metadata, body["metadata"])
            metadata.pop("ownerReferences", None)
            if owners:
                metadata["ownerReferences"] = owners
        obj = {**old, "metadata": dict(metadata)}
        if body.get("status") is not None:
            obj["status"] = body["status"]
        else:
            obj.pop("status", None)
        defaults.complete_pod_status(resource.key, obj, old)
        return obj

    def _with_all_but_status(self, resource: Resource, old: Object, body: Object, subresource: str) -> Object:
        """Return the body as it is to be stored, with defaults and the present status. Raises: ApiError 422."""
        obj: Object = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": self._merged_metadata(old["metadata"], body["metadata"]),
        }
        obj.update((key, value) for key, value in body.items() if key not in obj)
        if resource.has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]
        if resource is NAMESPACES:
            obj["spec"] = old["spec"]  # finalizers go through /finalize alone
        defaults.set_defaults(resource.key, obj)
        defaults.keep_omitted_fields(resource.key, obj, old)
        object_validation.validate_update(resource, obj, old, subresource)
        return obj

    def store_update(self, resource: Resource, before: Record, obj: Object, *, dry_run: bool = False) -> Record:
        """Store `obj` in place of `before`; `obj` has a metadata dictionary of its own.

        Increments the generation, skips writes without a change, and finishes a deletion that waited.
        """
        old, metadata = before.object, obj["metadata"]
        if resource.counts_generations and spec_changed(obj, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        if obj == old:
            return before
        if dry_run:
            return Record(obj, before.revision)
        if self._may_be_removed(resource, obj):
            self.store.remove(resource, *before.key)
            return Record(obj, self.store.revision)
        return self.store.put(resource, obj)

    def update_fields(self, resource: Resource, before: Record, *, dry_run: bool = False, **fields: Any) -> Record:
        """Store an object with other top-level fields, such as `status`, as `store_update` does."""
        obj = {**before.object, "metadata": dict(before.object["metadata"]), **fields}
        return self.store_update(resource, before, obj, dry_run=dry_run)

    def update_metadata(self, resource: Resource, before: Record, field: str, values: Collection[Any]) -> Record:
        """Store an object with another list or map in its metadata; without that field if it is empty."""
        metadata = {name: value for name, value in before.object["metadata"].items() if name != field}
        return self.update_fields(resource, before, metadata={**metadata, field: values} if values else metadata)

    def remove_finalizer(self, resource: Resource, before: Record, finalizer: str) -> Record:
        """Store an object without the finalizer, which completes a deletion that waited for it alone."""
        finalizers = before.object["metadata"].get("finalizers") or ()
        others = [one for one in finalizers if one != finalizer]
        return self.update_metadata(resource, before, "finalizers", others)

    @staticmethod
    def _may_be_removed(resource: Resource, obj: Object) -> bool:
        """Whether an object being deleted has nothing left to wait for."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        if resource is NAMESPACES:
            return not obj["spec"].get("finalizers")
        return not metadata.get("deletionGracePeriodSeconds")

    # Deleting

    def delete(
        self, resource: Resource, namespace: str, name: str, options: Object | None = None
    ) -> tuple[Record, bool]:
        """Delete an object or start to; return the record and whether it is gone. `options` is a metav1.DeleteOptions.

        Raises: ApiError 403, 404, 409.
        """
        self.admission.check_deletion(resource, name)
        options = options or {}
        before = self.get(resource, namespace, name)
        self.check_preconditions(resource, before, options.get("preconditions") or {})
        if options.get("dryRun"):
            return before, True
        metadata = dict(before.object["metadata"])
        finalizers = self._deletion_finalizers(resource, metadata, options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        period = self._grace_period(resource, before.object, options)
        waiting = period > 0 or bool(finalizers) or (resource is NAMESPACES and before.object["spec"].get("finalizers"))
        if not waiting:
            if resource is PODS and metadata.get("deletionGracePeriodSeconds") != 0:
                # Watchers see a pod marked before they see it gone, however short its grace period.
                self.store.put(resource, {**before.object, "metadata": self._with_deletion_timestamp(metadata, 0)})
            return self.store.remove(resource, namespace, name), True
        already = "deletionTimestamp" in metadata
        if not already or period < metadata.get("deletionGracePeriodSeconds", 0):
            metadata = self._with_deletion_timestamp(metadata, period)
        obj = {**before.object, "metadata": metadata}
        if resource is NAMESPACES:
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            metadata.pop("deletionGracePeriodSeconds", None)
        if obj == before.object:
            return before, False
        return self.store.put(resource, obj), False

    def _with_deletion_timestamp(self, metadata: Object, period: int) -> Object:
        """The metadata of an object with so many seconds of grace."""
        marked = {**metadata, "deletionTimestamp": timestamp(self.clock_and_ids.clock() + period)}
        marked["deletionGracePeriodSeconds"] = period
        if marked.get("generation") and "deletionTimestamp" not in metadata:
            marked["generation"] += 1
        return marked

    @staticmethod
    def check_preconditions(resource: Resource, before: Record, preconditions: Object) -> None:
        """Check that the object is the one, and of the version, that a deletion names. Raises: ApiError 409."""
        metadata = before.object["metadata"]
        for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            expected = preconditions.get(field)
            if expected and expected != metadata[field]:
                change = "deleted and then recreated" if field == "uid" else "modified"
                why = f"the {label} in the precondition ({expected}) does not match the {label} in record "
                why += f"({metadata[field]}). The object might have been {change}"
                text = f'Operation cannot be fulfilled on {resource.kind} "{before.name}": {why}'
                raise api_errors.ApiError(409, "Conflict", text, {"name": before.name, "kind": resource.kind})

    @staticmethod
    def _deletion_finalizers(resource: Resource, metadata: Object, options: Object) -> list[str]:
        """The object's finalizers, with those of the propagation policy."""
        finalizers = [one for one in metadata.get("finalizers") or () if one not in (FOREGROUND, ORPHAN)]
        policy = options.get("propagationPolicy")
        if policy is None and options.get("orphanDependents") is not None:
            policy = "Orphan" if options["orphanDependents"] else "Background"
        if policy is None and FOREGROUND in (metadata.get("finalizers") or ()):
            policy = "Foreground"
        if policy is None and resource.key in _ORPHAN_BY_DEFAULT:
            policy = "Orphan"
        if policy == "Foreground":
            finalizers.append(FOREGROUND)
        elif policy == "Orphan":
            finalizers.append(ORPHAN)
        return finalizers

    @staticmethod
    def _grace_period(resource: Resource, obj: Object, options: Object) -> int:
        """The grace period in seconds; only pods on a node have one."""
        if resource is not PODS or not obj["spec"].get("nodeName"):
            return 0
        if pod_resources.has_ended(obj):
            return 0
        period = options.get("gracePeriodSeconds")
        if period is None:
            period = obj["spec"].get("terminationGracePeriodSeconds") or 0
        period = 1 if period < 0 else int(period)
        if "deletionTimestamp" in obj["metadata"]:
            return min(period, int(obj["metadata"].get("deletionGracePeriodSeconds") or 0))
        return period
