"""Server-side apply: ownership by manager, fields given up, and conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.endpoints.server_side_apply import ApplyRequest


def applied(manager: str, *, force: bool = False, **fields: Any) -> ApplyRequest:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **fields}
    return ApplyRequest(manager=manager, force=force, subresource="", now="2026-01-01T00:00:00Z", body=body)


def created(manager: str = "one", **fields: Any) -> dict[str, Any]:
    return applied(manager, **fields).new_object("c")


def managers(obj: dict[str, Any]) -> list[str]:
    return [entry["manager"] for entry in obj["metadata"]["managedFields"]]


def test_a_field_that_its_manager_drops_is_removed() -> None:
    """Removing a key from a manifest and applying it again must remove it from the object."""
    obj = applied("one", data={"a": "1"}).apply_to(created(data={"a": "1", "b": "2"}))
    assert obj["data"] == {"a": "1"}


def test_fields_of_others_stay() -> None:
    """Two managers of different keys must not undo each other."""
    obj = applied("two", data={"b": "2"}).apply_to(created(data={"a": "1"}))
    assert obj["data"] == {"a": "1", "b": "2"}
    obj = applied("one").apply_to(obj)
    assert obj["data"] == {"b": "2"}
    assert managers(obj) == ["two", "one"]


def test_a_shared_field_stays_until_both_managers_drop_it() -> None:
    """A shared field must outlive the first manager that drops it."""
    obj = applied("two", data={"a": "1"}).apply_to(created(data={"a": "1"}))
    obj = applied("one").apply_to(obj)
    assert obj["data"] == {"a": "1"}
    obj = applied("two").apply_to(obj)
    assert "data" not in obj


def test_changing_another_managers_field_is_a_conflict() -> None:
    """Silent takeover is what server-side apply exists to prevent."""
    with pytest.raises(ApiError) as refusal:
        applied("two", data={"a": "2"}).apply_to(created(data={"a": "1"}))
    assert refusal.value.code == 409
    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'


def test_force_takes_the_field_over() -> None:
    """After --force-conflicts the old manager gives the field up without removing it."""
    obj = applied("two", force=True, data={"a": "2"}).apply_to(created(data={"a": "1", "b": "1"}))
    assert obj["data"] == {"a": "2", "b": "1"}
    obj = applied("one", data={"b": "1"}).apply_to(obj)
    assert obj["data"] == {"a": "2", "b": "1"}


def test_applying_the_same_twice_changes_nothing() -> None:
    """A repeated `kubectl apply` writes nothing and wakes no watcher."""
    obj = created(data={"a": "1"})
    later = ApplyRequest("one", False, "", "2027-01-01T00:00:00Z", applied("one", data={"a": "1"}).body)
    assert later.apply_to(obj) == obj


def test_lists_are_owned_by_item() -> None:
    """A container applied by one manager stays when another drops its own."""
    obj = created(spec={"containers": [{"name": "a", "image": "1"}]})
    obj = applied("two", spec={"containers": [{"name": "b", "image": "1"}]}).apply_to(obj)
    assert [one["name"] for one in obj["spec"]["containers"]] == ["a", "b"]
    obj = applied("one", spec={"containers": []}).apply_to(obj)
    assert [one["name"] for one in obj["spec"]["containers"]] == ["b"]


def test_a_conflict_within_a_list_names_the_item() -> None:
    """The message has to lead to the field."""
    obj = created(spec={"containers": [{"name": "a", "image": "1"}]})
    with pytest.raises(ApiError, match=r'\.spec\.containers\[name="a"\]\.image'):
        applied("two", spec={"containers": [{"name": "a", "image": "2"}]}).apply_to(obj)


def test_identity_fields_have_no_owner() -> None:
    """Two managers naming the same object must not conflict over its name."""
    obj = applied("two").apply_to(created())
    assert managers(obj) == ["one", "two"]
    assert all(entry["fieldsV1"] == {} for entry in obj["metadata"]["managedFields"])
