"""What queueing hints see of the cluster."""

import types
from typing import Any

from trireme.queueing.hints import cluster_view
from trireme.v1 import core_pb2


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


def _view() -> tuple[cluster_view.CacheView, dict[int, Any]]:
    entries = {number: types.SimpleNamespace(pod=core_pb2.Pod(), pod_class=None) for number in (1, 2)}

    class Registry(dict[int, Any]):
        rules = None

    cache: Any = types.SimpleNamespace(registry=Registry(entries))
    return cluster_view.CacheView(cache), entries


def test_a_class_is_made_once_and_lives_with_the_registry() -> None:
    view, entries = _view()
    first = view.class_of_waiting_pod(1)
    assert view.class_of_waiting_pod(1) is first is entries[1].pod_class
    assert view.class_of_waiting_pod(2) is not first


def test_the_classes_of_the_latest_pods_of_events_are_remembered() -> None:
    view, _ = _view()
    pods = [core_pb2.Pod() for _ in range(257)]
    made = [view.class_of(pod) for pod in pods]
    assert [view.class_of(pod) for pod in pods[1:]] == made[1:]
    assert view.class_of(pods[0]) is not made[0]
