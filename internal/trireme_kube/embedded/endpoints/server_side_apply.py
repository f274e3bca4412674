"""Server-side apply, in a simple form.

Each manager owns the fields of what it last applied, recorded in metadata.managedFields as the real server records
them. Applying again removes fields that the manager no longer sets and nobody else owns. It fails if it would change a
field that another *applying* manager owns, unless forced. Simpler than the real implementation in one respect: fields
written by update and patch have no recorded owner, so they are taken over without a conflict.

Source: sigs.k8s.io/structured-merge-diff; FieldsV1 in k8s.io/apimachinery.

Also change: internal/trireme_kube/embedded/endpoints/patches.py (fields that are merged).
"""

from dataclasses import dataclass
from typing import Any

import orjson

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.endpoints.patches import merge_key

Fields = dict[str, Any]
"""FieldsV1: `f:name` is a field, `k:{…}` an item by key, `v:…` an item by value, `.` the thing itself."""

_IDENTITY = ("apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "managedFields", "creationTimestamp")
_SET_LISTS = frozenset({"finalizers"})


def _managed_field_name_of_item(key: str, item: Object) -> str:
    return "k:" + orjson.dumps({key: item[key]}).decode()


def fields_of(value: Object, *, top: bool = False) -> Fields:
    """The set of fields in an object."""
    fields: Fields = {}
    for name, below in value.items():
        if name in _IDENTITY and top:
            continue
        if name == "metadata" and not _fields_below(name, below):
            continue  # nothing but the identity
        fields[f"f:{name}"] = _fields_below(name, below)
    return fields


def _fields_below(name: str, value: Any) -> Fields:
    """Return the set of fields in a field's value; empty for a value that is owned as a whole."""
    if isinstance(value, dict):
        return fields_of(value, top=name == "metadata")
    if isinstance(value, list):
        if name in _SET_LISTS:
            return {"v:" + orjson.dumps(one).decode(): {} for one in value}
        key = merge_key(name, value)
        if key and value and all(isinstance(one, dict) and key in one for one in value):
            return {_managed_field_name_of_item(key, one): {".": {}, **fields_of(one)} for one in value}
    return {}


def _fields_without(fields: Fields, others: Fields) -> Fields:
    """The fields that are not in the other set."""
    remaining: Fields = {}
    for name, below in fields.items():
        if name not in others:
            remaining[name] = below
        elif below and (rest := _fields_without(below, others[name])):
            remaining[name] = rest
    return remaining


def _united_fields(fields: Fields, others: Fields) -> Fields:
    """Return the fields that are in either set."""
    result = dict(fields)
    for name, below in others.items():
        result[name] = _united_fields(result[name], below) if name in result else below
    return result


def _without_fields(value: Any, name: str, fields: Fields) -> Any:
    """A copy of the value without the fields; items of lists are removed when they themselves are listed."""
    if isinstance(value, dict):
        return _object_without_fields(value, fields)
    return _list_without_fields(value, name, fields) if isinstance(value, list) else value


def _object_without_fields(value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return a copy of the object without the fields; what becomes empty goes, too."""
    result = dict(value)
    for field, below in fields.items():
        own = field.removeprefix("f:")
        if not field.startswith("f:") or own not in result:
            continue
        if below:
            result[own] = _without_fields(result[own], own, below)
        if not below or result[own] in ({}, []):
            del result[own]
    return result


def _list_without_fields(value: list[Any], name: str, fields: Fields) -> list[Any]:
    """Return a copy of the list without the items that are listed, or without these fields of them."""
    key = merge_key(name, value)
    remaining = []
    for item in value:
        field = "v:" + orjson.dumps(item).decode()
        if key and isinstance(item, dict) and key in item:
            field = _managed_field_name_of_item(key, item)
        if field not in fields:
            remaining.append(item)
        elif fields[field] and "." not in fields[field]:
            remaining.append(_without_fields(item, "", fields[field]))
    return remaining


def _set_applied_fields(value: Any, applied: Any, name: str) -> Any:
    """Set the applied fields in the value. Lists are merged by their key, or united if they are sets, else replaced."""
    if isinstance(value, dict) and isinstance(applied, dict):
        result = dict(value)
        for key, below in applied.items():
            result[key] = _set_applied_fields(result.get(key), below, key)
        return result
    if isinstance(applied, list) and isinstance(value, list):
        if name in _SET_LISTS:
            return [*value, *(one for one in applied if one not in value)]
        key = merge_key(name, [*value, *applied])
        if key and all(isinstance(one, dict) and key in one for one in applied):
            result_list = list(value)
            for item in applied:
                index = next((at for at, one in enumerate(result_list) if one.get(key) == item[key]), None)
                if index is None:
                    result_list.append(item)
                else:
                    result_list[index] = _set_applied_fields(result_list[index], item, "")
            return result_list
    return applied


def _paths_in_conflict(fields: Fields, owned: Fields, value: Any, applied: Any, name: str, path: str) -> list[str]:
    """Paths of fields that another manager owns and the applied object would change."""
    conflicts: list[str] = []
    for field in fields.keys() & owned.keys():
        own = field.removeprefix("f:")
        if field.startswith("k:"):
            key, expected = next(iter(orjson.loads(field[2:]).items()))
            old = next((one for one in value or () if one.get(key) == expected), None)
            new = next((one for one in applied or () if one.get(key) == expected), None)
            where = f'{path}[{key}="{expected}"]'
        elif field.startswith("f:"):
            old = value.get(own) if isinstance(value, dict) else None
            new = applied.get(own) if isinstance(applied, dict) else None
            where = f"{path}.{own}"
        else:
            continue
        if fields[field] and owned[field]:
            conflicts += _paths_in_conflict(fields[field], owned[field], old, new, own, where)
        elif old != new and not fields[field] and not owned[field]:
            conflicts.append(where)
    return conflicts


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """One apply request."""

    manager: str
    force: bool
    subresource: str
    now: str
    body: Object

    def _managed_fields_entry(self, fields: Fields) -> Object:
        """Return the manager's entry with these fields."""
        entry: Object = {
            "manager": self.manager,
            "operation": "Apply",
            "apiVersion": self.body.get("apiVersion", "v1"),
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry

    def _is_same_manager(self, entry: Object) -> bool:
        """Whether an entry is this manager's, by an apply to the same subresource."""
        return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (
            self.manager,
            "Apply",
            self.subresource,
        )

    def new_object(self, name: str) -> Object:
        """The object that applying creates if none exists."""
        metadata = {**(self.body.get("metadata") or {}), "name": name}
        metadata["managedFields"] = [self._managed_fields_entry(fields_of(self.body, top=True))]
        return {**self.body, "metadata": metadata}

    def apply_to(self, obj: Object) -> Object:
        """The object with the applied fields set and released ones removed.

        Raises: ApiError 409 if another applying manager owns a changed field.
        """
        entries = obj["metadata"].get("managedFields") or []
        fields = fields_of(self.body, top=True)
        mine = next((one for one in entries if self._is_same_manager(one)), None)
        others = [one for one in entries if one.get("operation") == "Apply" and not self._is_same_manager(one)]
        if not self.force:
            self._refuse_conflicts(obj, fields, others)
        elif others:
            others = [{**one, "fieldsV1": _fields_without(one.get("fieldsV1") or {}, fields)} for one in others]
        owned_elsewhere: Fields = {}
        for entry in others:
            owned_elsewhere = _united_fields(owned_elsewhere, entry.get("fieldsV1") or {})
        released = _fields_without(_fields_without((mine or {}).get("fieldsV1") or {}, fields), owned_elsewhere)
        result = _set_applied_fields(_without_fields(obj, "", released), self.body, "")
        updates = [one for one in entries if one.get("operation") != "Apply"]
        result["metadata"] = {**result["metadata"]}
        result["metadata"]["managedFields"] = [*updates, *others, self._updated_entry(mine, fields)]
        return dict(result)

    def _updated_entry(self, mine: Object | None, fields: Fields) -> Object:
        """The manager's entry; unchanged if nothing changed, so that applying twice writes once."""
        return mine if mine is not None and mine.get("fieldsV1") == fields else self._managed_fields_entry(fields)

    def _refuse_conflicts(self, obj: Object, fields: Fields, others: list[Object]) -> None:
        """Raise ApiError 409 if another manager owns a field that the request changes."""
        causes: list[Object] = []
        for entry in others:
            for path in sorted(_paths_in_conflict(fields, entry.get("fieldsV1") or {}, obj, self.body, "", "")):
                message = f'conflict with "{entry["manager"]}"'
                causes.append({"reason": "FieldManagerConflict", "message": message, "field": path})
        if causes:
            first = causes[0]
            plural = "" if len(causes) == 1 else "s"
            text = f"Apply failed with {len(causes)} conflict{plural}: {first['message']}: {first['field']}"
            raise api_errors.ApiError(409, "Conflict", text, {"causes": causes})
