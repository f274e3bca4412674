"""Pods with volumes one after the other, none of them bound yet, through two replicas of filter that take turns.

What one pod was promised the next must not get, whichever replica answers; and it is free again once it is given back.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import Json
from tests.conformance.decision_phases import Phases
from tests.conformance.unbound_pods import Sequence

pytestmark = pytest.mark.timeout(120)

DRIVER = "csi.example.com"


@pytest.fixture(scope="module")
def phases() -> Iterator[Phases]:
    """Two filters and a score, running."""
    with Phases(decision_profiles.make().configuration, replicas=2) as running:
        yield running


def _pod(name: str, claim: str = "") -> Json:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c"}], "volumes": volumes},
    }


def _node(name: str) -> Json:
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"kind": "Node", "metadata": metadata, "status": {"allocatable": resources, "capacity": resources}}


def _claim(name: str, **spec: Any) -> Json:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if spec.get("volumeName") else {}
    requests = {"storage": "1Gi"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "annotations": bound,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": requests},
            "storageClassName": "c",
            **spec,
        },
    }


def _volume(name: str, **spec: Any) -> Json:
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name, "resourceVersion": "7"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c", **spec},
        "status": {"phase": "Available"},
    }


def _class(provisioner: str) -> Json:
    return {
        "kind": "StorageClass",
        "metadata": {"name": "c"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def test_no_volume_is_assigned_twice(phases: Phases) -> None:
    """Three pods take three volumes, the fourth has to wait, and gets the one that is given back."""
    objects = {
        "nodes": [_node("a"), _node("b")],
        "persistentVolumes": [_volume(f"v{number}") for number in range(3)],
        "persistentVolumeClaims": [_claim(f"c{number}") for number in range(4)],
        "storageClasses": [_class("kubernetes.io/no-provisioner")],
    }
    sequence = Sequence(phases, objects)
    pods = [_pod(f"p{number}", f"c{number}") for number in range(4)]
    for pod in pods[:3]:
        assert sequence.place(pod) in ("a", "b")
    promised = sequence.claimed()
    assert sorted(promised.values()) == ["c0", "c1", "c2"]
    assert sequence.place(pods[3]) == "node(s) didn't find available persistent volumes to bind"
    sequence.unassume(pods[1])
    assert sequence.place(pods[3]) in ("a", "b")
    given_back = next(volume for volume, claim in promised.items() if claim == "c1")
    assert sequence.claimed()[given_back] == "c3"


def test_the_last_place_for_a_volume_is_given_once(phases: Phases) -> None:
    """A node takes two volumes: the third pod has to wait until one of the others is taken back."""
    limit = [{"name": DRIVER, "nodeID": "a", "allocatable": {"count": 2}}]
    sources = {f"v{number}": {"driver": DRIVER, "volumeHandle": f"h{number}"} for number in range(3)}
    objects = {
        "nodes": [_node("a")],
        "persistentVolumes": [_volume(name, csi=source) for name, source in sources.items()],
        "persistentVolumeClaims": [_claim(f"c{number}", volumeName=f"v{number}") for number in range(3)],
        "csiNodes": [{"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": limit}}],
    }
    sequence = Sequence(phases, objects)
    pods = [_pod(f"p{number}", f"c{number}") for number in range(3)]
    assert [sequence.place(pod) for pod in pods] == ["a", "a", "node(s) exceed max volume count"]
    sequence.unassume(pods[0])
    assert sequence.place(pods[2]) == "a"


def test_a_claim_that_waits_for_a_node_keeps_its_pods_together(phases: Phases) -> None:
    """The first pod's node is the claim's: a second pod with the same claim goes nowhere else."""
    objects = {
        "nodes": [_node(name) for name in ("a", "b", "c")],
        "persistentVolumeClaims": [_claim("shared")],
        "storageClasses": [_class(DRIVER)],
    }
    sequence = Sequence(phases, objects)
    first = sequence.place(_pod("p0", "shared"))
    assert [sequence.place(_pod(f"p{number}", "shared")) for number in range(1, 4)] == [first] * 3


def test_a_claim_for_one_pod_is_used_by_one(phases: Phases) -> None:
    """ReadWriteOncePod: the second pod waits wherever the first one is, until that is taken back."""
    objects = {
        "nodes": [_node("a"), _node("b")],
        "persistentVolumes": [_volume("v")],
        "persistentVolumeClaims": [_claim("only", volumeName="v", accessModes=["ReadWriteOncePod"])],
    }
    sequence = Sequence(phases, objects)
    pods = [_pod("p0", "only"), _pod("p1", "only")]
    assert sequence.place(pods[0]) in ("a", "b")
    assert "ReadWriteOncePod access mode already in-use" in sequence.place(pods[1])
    sequence.unassume(pods[0])
    assert sequence.place(pods[1]) in ("a", "b")
