"""The three kinds of patch that carry a change rather than a whole object.

JSON patch (RFC 6902), JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch, which merges the lists of the
built-in types by a key (containers by name, conditions by type) and supports the directives `$patch`, `$retainKeys`,
`$setElementOrder/…` and `$deleteFromPrimitiveList/…`. All are pure: the given document is not changed, and the result
shares its unchanged parts.

Source: k8s.io/apimachinery, pkg/util/strategicpatch; patchMergeKey tags in k8s.io/api.

Also change: internal/trireme_kube/embedded/endpoints/server_side_apply.py (fields that are merged).
"""

from collections.abc import Sequence
from typing import Any

from trireme_kube.embedded.api import api_errors

# The merge key of each list that is merged; every other list is replaced whole. The key of `ports` depends on its
# place.
MERGE_KEYS = {
    "addresses": "type",
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "nodeAllocatableResourceClaimStatuses": "resourceClaimName",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "hostIPs": "ip",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PRIMITIVE_LISTS = frozenset({"finalizers"})
_DELETE_LIST = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge_key(field: str, items: Sequence[Any]) -> str | None:
    """The key by which the list of that field is merged, or None if it is replaced."""
    if field == "ports":
        return "containerPort" if any(isinstance(one, dict) and "containerPort" in one for one in items) else "port"
    return MERGE_KEYS.get(field)


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the document with an RFC 7386 patch applied: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


# Strategic merge


def apply_strategic_patch(document: Any, patch: dict[str, Any]) -> Any:
    """Return the object with a strategic merge patch of Kubernetes applied."""
    return _merge_strategically(document if isinstance(document, dict) else {}, patch)


def _merge_strategically(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a strategic patch into an object; returns a copy. `$patch` and its kind are directives, null removes."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(document)
    if (retained := patch.get("$retainKeys")) is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_LIST):
            field = key.removeprefix(_DELETE_LIST)
            result[field] = [one for one in result.get(field) or () if one not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            result[key] = _merge_strategically(below if isinstance(below, dict) else {}, value)
        elif isinstance(value, list):
            result[key] = _merge_list_by_key(key, result.get(key), value, patch.get(_ORDER + key))
        else:
            result[key] = value
    _order_lists_by_patch(result, patch)
    return result


def _order_lists_by_patch(result: dict[str, Any], patch: dict[str, Any]) -> None:
    """Order the lists whose order the patch states, but not their elements."""
    for key, order in patch.items():
        field = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and field not in patch and result.get(field):
            result[field] = _ordered_items(result[field], result[field], order, merge_key(field, result[field]))


def _merge_list_by_key(field: str, document: Any, patch: list[Any], order: Any) -> list[Any]:
    """Merge a list by its merge key; lists of names are united, and lists without a key replaced."""
    items = document if isinstance(document, list) else []
    if field in _PRIMITIVE_LISTS:
        return _ordered_items([*items, *(one for one in patch if one not in items)], items, order or patch, None)
    key = merge_key(field, [*items, *patch])
    if key is None or not all(isinstance(one, dict) for one in patch):
        return patch
    if any(one.get("$patch") == "replace" for one in patch):
        return [_without_directives(one) for one in patch if one.get("$patch") != "replace" or len(one) > 1]
    result = list(items)
    for change in patch:
        if key not in change:
            text = f"map: {_go_text(change)} does not contain declared merge key: {key}"
            raise api_errors.ApiError(500, "", text)
        position = next((index for index, one in enumerate(result) if one.get(key) == change[key]), None)
        if change.get("$patch") == "delete":
            if position is not None:
                del result[position]
        elif position is None:
            result.append(_merge_strategically({}, change))
        else:
            result[position] = _merge_strategically(result[position], change)
    return _ordered_items(result, items, order or patch, key)


def _go_text(value: Any) -> str:
    """A JSON value as Go prints it, as in the real message."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(below)}' for key, below in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "<nil>"}[value]
    return str(value)


def _without_directives(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item without `$patch` and its like."""
    return {name: value for name, value in item.items() if not name.startswith("$")}


def _ordered_items(items: list[Any], before: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """Merged items in the order that the patch states and the list `before` allows.

    Items that the patch names come in its order; the others keep theirs, each before the first named item that it
    preceded, so that new items precede those that the patch does not name.
    """

    def name_of_item(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    positions = {name_of_item(item): index for index, item in enumerate(order)}
    place = {name_of_item(item): index for index, item in enumerate(before)}
    named = sorted(
        (item for item in items if name_of_item(item) in positions), key=lambda item: positions[name_of_item(item)]
    )
    others = [item for item in items if name_of_item(item) not in positions]
    result: list[Any] = []
    while named and others:
        first, second = place.get(name_of_item(others[0])), place.get(name_of_item(named[0]))
        result.append(others.pop(0) if first is not None and second is not None and first < second else named.pop(0))
    return [*result, *named, *others]


# JSON patch


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return the document with an RFC 6902 patch applied.

    Raises: ApiError 400 if it is malformed; 422 if a path does not exist or a test fails.
    """
    if not isinstance(operations, list):
        raise api_errors.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    for operation in operations:
        try:
            document = _apply_operation(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            text = "the server rejected our request due to an error in our request"
            raise api_errors.ApiError(422, "Invalid", text, {}) from error
    return document


def _pointer_tokens(pointer: str) -> list[str]:
    """Split a JSON pointer. Raises: ValueError if it does not begin with a slash."""
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise ValueError(pointer)
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def _value_at(document: Any, tokens: Sequence[str]) -> Any:
    """Return the value at a path. Raises: KeyError, IndexError, ValueError, TypeError."""
    for token in tokens:
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


def _with_edit_at(document: Any, tokens: Sequence[str], operation: str, value: Any) -> Any:
    """A copy of the document with the value at the path added, replaced or removed.

    Raises: KeyError, IndexError, ValueError: there is no such path.
    """
    if not tokens:
        return value
    if isinstance(document, list):
        return _list_with_edit_at(document, tokens, operation, value)
    token, rest = tokens[0], tokens[1:]
    if not isinstance(document, dict):
        raise KeyError(token)
    result = dict(document)
    if rest:
        result[token] = _with_edit_at(result[token], rest, operation, value)
    elif operation == "remove":
        del result[token]
    else:
        if operation == "replace" and token not in result:
            raise KeyError(token)
        result[token] = value
    return result


def _list_with_edit_at(document: list[Any], tokens: Sequence[str], operation: str, value: Any) -> list[Any]:
    """Return a copy of the list with the value at the path added (`-`: at the end), replaced or removed."""
    copy, rest = list(document), tokens[1:]
    index = len(copy) if tokens[0] == "-" else int(tokens[0])
    if rest:
        copy[index] = _with_edit_at(copy[index], rest, operation, value)
    elif operation == "add":
        if index > len(copy):
            raise IndexError(index)
        copy.insert(index, value)
    elif operation == "remove":
        del copy[index]
    else:
        copy[index] = value
    return copy


def _apply_operation(document: Any, operation: Any) -> Any:
    """Apply one operation of a JSON patch; returns a copy. Raises: KeyError, IndexError, ValueError."""
    kind, path = operation["op"], _pointer_tokens(operation["path"])
    if kind in ("add", "replace", "remove"):
        return _with_edit_at(document, path, kind, operation["value"] if kind != "remove" else None)
    if kind == "test":
        if _value_at(document, path) != operation["value"]:
            raise ValueError(path)
        return document
    if kind in ("copy", "move"):
        source = _pointer_tokens(operation["from"])
        value = _value_at(document, source)
        if kind == "move":
            document = _with_edit_at(document, source, "remove", None)
        return _with_edit_at(document, path, "add", value)
    raise ValueError(kind)
