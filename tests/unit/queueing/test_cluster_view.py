"""What queueing hints see of the cluster."""

import types
from typing import Any

from trireme.queueing.hints import cluster_view


def test_objects_come_by_name_and_those_of_a_namespace_alone() -> None:
    """A hint would decide by another namespace's objects."""
    objects = {("b", "y"): "b/y", ("a", "z"): "a/z", ("b", "x"): "b/x"}
    cache: Any = types.SimpleNamespace(
        object_keys=lambda kind: objects.keys(),
        get_object=lambda kind, *key: types.SimpleNamespace(service=objects[key]) if key in objects else None,
    )
    view = cluster_view.CacheView(cache)
    assert list(view.all("service")) == ["a/z", "b/x", "b/y"]
    assert list(view.of_namespace("service", "b")) == ["b/x", "b/y"]
    assert (view.get("service", "a", "z"), view.get("service", "a", "x")) == ("a/z", None)
