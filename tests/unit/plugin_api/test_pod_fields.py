"""Cutting a pod down to the fields that a plugin declared."""

import pytest
from google.protobuf import json_format

from trireme.plugin_api.pod_fields import PodFields
from trireme.v1 import core_pb2

POD = json_format.ParseDict(
    {
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "priority": 0,
            "hostNetwork": True,
            "nodeSelector": {"disk": "ssd"},
            "affinity": {"podAffinity": {}},
            "containers": [
                {"name": "a", "image": "nginx", "resources": {"requests": {"cpu": {"string": "1"}}}},
                {"name": "b", "image": "redis"},
            ],
            "tolerations": [{"key": "x", "operator": "Exists"}],
        },
    },
    core_pb2.Pod(),
)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["metadata.namespace"], {"metadata": {"namespace": "shop"}}),
        (["metadata.labels"], {"metadata": {"labels": {"app": "web", "tier": "front"}}}),
        (["metadata.labels['app']"], {"metadata": {"labels": {"app": "web"}}}),
        (["metadata.labels['none']"], {"metadata": {}}),
        (["metadata.labels['app']", "metadata.labels"], {"metadata": {"labels": {"app": "web", "tier": "front"}}}),
        (["spec.containers.image"], {"spec": {"containers": [{"image": "nginx"}, {"image": "redis"}]}}),
        (
            ["spec.containers.resources.requests"],
            {"spec": {"containers": [{"resources": {"requests": {"cpu": {"string": "1"}}}}, {}]}},
        ),
        (["spec.containers", "spec.containers.image"], {"spec": {"containers": "both"}}),
        (["spec.priority"], {"spec": {"priority": 0}}),
        (["spec.nodeName"], {"spec": {}}),
        (["spec.hostNetwork", "spec.nodeSelector"], {"spec": {"hostNetwork": True, "nodeSelector": {"disk": "ssd"}}}),
        (["spec.affinity.nodeAffinity"], {"spec": {"affinity": {}}}),
        (["spec.affinity"], {"spec": {"affinity": {"podAffinity": {}}}}),
        (["spec.tolerations"], {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_pod_has_only_the_declared_fields(paths: list[str], expected: dict[str, dict[str, object]]) -> None:
    """If this fails, a plugin misses what it reads or gets what it must not see."""
    projected = json_format.MessageToDict(PodFields(paths).project(POD))
    if expected.get("spec", {}).get("containers") == "both":
        expected = {"spec": {"containers": json_format.MessageToDict(POD)["spec"]["containers"]}}
    assert projected == expected


def test_an_unset_optional_field_stays_unset() -> None:
    """If this fails, a plugin would see priority 0 where the pod has none."""
    projected = PodFields(["spec.priority"]).project(core_pb2.Pod(spec=core_pb2.PodSpec()))
    assert not projected.spec.HasField("priority")


def test_without_paths_all_is_sent() -> None:
    """If this fails, a plugin that declares nothing would see nothing."""
    assert PodFields([]).project(POD) == POD


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("spec.nodeselector", "spec.nodeselector: a pod as schedulers see it has no field nodeselector"),
        ("spec.containers.env", "has no field env"),
        ("spec.node_name", "is no path of a field"),
        ("metadata.labels.app", "labels has no fields of its own"),
        ("spec.priority.value", "priority has no fields of its own"),
        ("spec.containers['a']", "containers has no keys"),
        ("metadata.labels['a'", "is no path of a field"),
        ("", "is no path of a field"),
    ],
)
def test_a_path_that_is_no_field_is_refused(path: str, words: str) -> None:
    """If this fails, a plugin with a misspelt path never sees what it decides by, and nobody is told."""
    with pytest.raises(ValueError, match="^pod_fields: .*" + words.replace("[", r"\[")):
        PodFields([path])


@pytest.mark.parametrize(
    ("paths", "keys"),
    [
        ([], None),
        (["spec.priority"], frozenset()),
        (["metadata.labels['a']", "metadata.labels['b']"], frozenset({"a", "b"})),
        (["metadata.labels['a']", "metadata"], None),
        (["metadata.labels", "metadata.labels['a']"], None),
        (["metadata.annotations['a']"], frozenset()),
    ],
    ids=["all", "none", "keys", "the whole metadata", "all and a key", "annotations"],
)
def test_the_labels_that_are_read(paths: list[str], keys: frozenset[str] | None) -> None:
    """If this fails, pods that differ in a label that the plugin reads would be one class."""
    assert PodFields(paths).label_keys == keys


@pytest.mark.parametrize(
    ("path", "present", "expected"),
    [
        ("spec.priority", {"spec": {}}, {"spec": {"priority": 0}}),
        (
            "spec.tolerations",
            {"spec": {"tolerations": [{"key": "x"}]}},
            {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
        ),
        (
            "metadata.labels['tier']",
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"labels": {"a": "b", "tier": "front"}}},
        ),
        (
            "spec.containers.image",
            {"spec": {"containers": [{"name": "a"}, {}]}},
            {"spec": {"containers": [{"name": "a", "image": "nginx"}, {"image": "redis"}]}},
        ),
        ("spec.containers.image", {"spec": {"containers": [{"name": "b"}]}}, {"spec": {"containers": "all"}}),
        ("spec.affinity.podAffinity", {"spec": {}}, {"spec": {"affinity": {"podAffinity": {}}}}),
        ("spec.nodeName", {"spec": {"priority": 0}}, {"spec": {"priority": 0}}),
    ],
    ids=[
        "a field",
        "a list that is there",
        "a label",
        "each of a list",
        "a list in part",
        "a message",
        "an unset field",
    ],
)
def test_a_part_of_a_pod_gets_the_declared_fields(
    path: str, present: dict[str, object], expected: dict[str, dict[str, object]]
) -> None:
    part = json_format.ParseDict(present, core_pb2.Pod())
    PodFields([path]).complete(POD, part)
    if expected.get("spec", {}).get("containers") == "all":
        expected = {"spec": {"containers": json_format.MessageToDict(POD)["spec"]["containers"]}}
    assert json_format.MessageToDict(part) == expected
