"""The fields of a pod that in-tree plugins declare, and those that pods are projected to, are the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from trireme.cache import pod_projection
from trireme.config import gates
from trireme.frontend import pod_reads
from trireme.plugin_api import pod_fields
from trireme.registry import default_profile
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import core_pb2, projection_pb2

# What the scheduler itself reads of a pod, whatever plugins are enabled.
_OF_THE_SCHEDULER = {
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.uid",
    "spec.containers.restartPolicy",  # of a type that containers share with init containers
    "spec.nodeName",
    "spec.schedulerName",
    "status.conditions",
    "status.nominatedNodeName",
    "status.startTime",
}


@pytest.mark.parametrize("name", IN_TREE.plugins)
def test_a_spec_names_fields_that_pods_have(name: str) -> None:
    """A misspelled path would be taken for a field that needs nothing done."""
    pod_fields.PodFields(IN_TREE[name].pod_fields)


def test_pods_are_projected_to_what_some_plugin_reads() -> None:
    """A field that nobody reads makes pods of a controller different classes.

    One that is missing is read a second time for each pod.
    """
    declared = {*IN_TREE.pod_fields(IN_TREE.plugins), *_OF_THE_SCHEDULER}
    unread = {
        path
        for path in _paths(projection_pb2.ProjectedPod.DESCRIPTOR)
        if not any(path == each or path.startswith(f"{each}.") or each.startswith(f"{path}.") for each in declared)
    }
    assert not unread
    by_default = [
        name for name, _ in default_profile.default_plugins(gates.FeatureGates(values={"GenericWorkload": True}))
    ]
    assert pod_projection.missing_fields(IN_TREE.pod_fields(by_default)) == frozenset()


def test_each_field_that_the_projection_lacks_is_read_beside_it() -> None:
    """Whichever of them is named first, and though others are there."""
    paths = ["spec.hostname", "spec.nodeSelector", "spec.containers.tty", "metadata.creationTimestamp"]
    missing = {"spec.hostname", "spec.containers.tty", "metadata.creationTimestamp"}
    assert pod_projection.missing_fields(paths) == pod_projection.missing_fields(reversed(paths)) == missing


def test_a_declared_field_that_the_projection_lacks_becomes_part_of_the_class() -> None:
    fields = ("spec.terminationGracePeriodSeconds", "spec.nodeSelector", "metadata.labels['tier']")
    reads = pod_reads.PodReads({}, fields)
    assert reads.paths == {"spec.terminationGracePeriodSeconds"}
    assert reads.label_keys == {"tier"}
    quick, slow = (_pod(seconds) for seconds in (1, 30))
    assert pod_projection.parse(quick).base == pod_projection.parse(slow).base
    assert pod_projection.parse(quick, reads.paths).base != pod_projection.parse(slow, reads.paths).base


@pytest.mark.parametrize("field", ["metadata.creationTimestamp", "metadata.generation", "status.startTime"])
def test_a_declared_field_that_each_pod_has_of_its_own_becomes_part_of_the_class(field: str) -> None:
    part, name = field.split(".")
    early, late = _pod(1), _pod(1)
    values = (1, 2) if name == "generation" else ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    for raw, value in zip((early, late), values, strict=True):
        raw.setdefault(part, {})[name] = value
    reads = pod_reads.PodReads({}, (field,))
    assert pod_projection.parse(early).base == pod_projection.parse(late).base
    assert pod_projection.parse(early, reads.paths).base != pod_projection.parse(late, reads.paths).base


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.containers.ports", [80]),
        ("spec.containers.ports.containerPort", [80]),
        ("spec.containers.image", []),
    ],
)
def test_a_part_of_a_field_that_is_projected_in_part_becomes_part_of_the_class(path: str, expected: list[int]) -> None:
    raw = _pod(1)
    raw["spec"] = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
    pod = core_pb2.Pod.FromString(pod_projection.parse(raw, {path}).base)
    (container,) = pod.spec.containers
    assert ([port.container_port for port in container.ports], container.image) == (expected, "i")


def test_elements_that_the_projection_leaves_out_are_added_for_a_part_of_them() -> None:
    raw = _pod(1)
    raw["status"] = {"containerStatuses": [{"name": "c", "ready": True}]}
    assert not core_pb2.Pod.FromString(pod_projection.parse(raw).base).status.container_statuses
    pod = core_pb2.Pod.FromString(pod_projection.parse(raw, {"status.containerStatuses.ready"}).base)
    assert [(entry.name, entry.ready) for entry in pod.status.container_statuses] == [("c", True)]


def _pod(grace_period: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"terminationGracePeriodSeconds": grace_period},
    }


def _paths(descriptor: Descriptor, path: str = "") -> Iterator[str]:
    """All fields of the projection; messages that are not only projected count as one."""
    for field in descriptor.fields:
        name = f"{path}.{field.json_name}".lstrip(".")
        if _projected(field):
            yield from _paths(field.message_type, name)
        else:
            yield name


def _projected(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.name.startswith("Projected")
