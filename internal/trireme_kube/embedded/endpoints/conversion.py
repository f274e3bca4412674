"""Objects in another form than the one that is stored.

Events of the events.k8s.io group are stored in the core form; all versions of custom resources are stored as one, and
differ in nothing but its name. Requests and responses are converted.

Source: k8s.io/kubernetes, pkg/apis/events/v1/conversion.go.

Tests: tests/unit/embedded/controllers/test_custom_resources.py, tests/unit/embedded/endpoints/test_reads.py.
"""

from trireme_kube.embedded.api.resources import EVENTS, Object, Resource
from trireme_kube.embedded.storage.store import Record

# Field of the core form, field of the events.k8s.io form.
_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_OUTWARD = dict(_RENAMED)
_INWARD = {view: stored for stored, view in _RENAMED}


def to_view(resource: Resource, record: Record) -> Record:
    """The record in the form of `resource`."""
    return Record(object_to_view(resource, record.object), record.revision) if resource.is_view else record


def object_to_view(resource: Resource, stored: Object) -> Object:
    """The object in the form of `resource`."""
    if not resource.is_view:
        return stored
    if resource.storage is not None:
        return {**stored, "apiVersion": resource.api_version}
    obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version}
    # The core form always has these fields, this form only if they are set.
    obj.update((_OUTWARD.get(key, key), value) for key, value in stored.items() if key not in obj and value != "")
    return obj


def to_storage(resource: Resource, body: Object) -> Object:
    """The body of a write in the stored form."""
    if not resource.is_view:
        return body
    if resource.storage is not None:
        return {**body, "apiVersion": resource.storage.api_version}
    obj: Object = {"kind": EVENTS.kind, "apiVersion": EVENTS.api_version}
    obj.update((_INWARD.get(key, key), value) for key, value in body.items() if key not in obj)
    return obj


def selector_to_storage(resource: Resource, fields: str) -> str:
    """A field selector in terms of the stored form."""
    if resource.view_of:
        for stored_name, view_name in _RENAMED:
            fields = fields.replace(view_name, stored_name)
    return fields
