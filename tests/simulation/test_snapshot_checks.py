"""A snapshot that differs from one made anew, or from the API server's objects, is found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.snapshot_checks import differences, differences_from_store
from trireme.v1 import cycle_pb2, snapshot_pb2
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.storage.store import Store


def _cluster(cpu: str = "500m", **changes: Any) -> SnapshotBuilder:
    """A node with a pod, and a pod that is nominated to it."""
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of(requesting(cpu=cpu, memory="1Gi")))
    builder.place(1, "n0")
    nomination = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="nominated"), pod_class=1, slot=0)
    builder.apply(**{"nominations": [nomination], **changes})
    return builder


@pytest.mark.parametrize(
    ("known", "tables"),
    [
        (_cluster(), []),
        (_cluster(cpu="2"), ["nodes", "classes"]),
        (_cluster(removed_pods=[0]), ["nodes", "pods"]),
        (_cluster(nominations=[]), ["nominations", "nominations by column"]),
        (_cluster(objects=[snapshot_pb2.ClusterObject(service={})]), ["objects"]),
    ],
)
def test_each_table_is_compared_with_a_new_one(known: SnapshotBuilder, tables: list[str]) -> None:
    """If this fails, replicas may decide by what is not so, and no simulation says so."""
    found = list(differences(known.snap, _cluster().snap))
    assert [text.partition(":")[0] for text in found] == tables


@pytest.mark.parametrize(
    ("cpu", "nomination", "found"),
    [
        ("500m", "n0", []),
        ("2", "n0", ["on n0 1 pods request"]),
        ("500m", "", ["pods are nominated to {'nominated': 'n0'}, by their objects to {}"]),
    ],
)
def test_what_a_leader_knows_is_compared_with_the_objects(cpu: str, nomination: str, found: list[str]) -> None:
    """If this fails, the amounts that all replicas have may be wrong alike."""
    store, placed = Store(), PlacedPods()
    store.listen(PODS, placed.on_pod)

    def put(name: str, spec: Object, status: Object) -> None:
        metadata = {"namespace": "default", "name": name, "uid": name}
        store.put(PODS, {"metadata": metadata, "spec": {**requesting(cpu=cpu, memory="1Gi"), **spec}, "status": status})

    put("placed", {"nodeName": "n0"}, {})
    put("nominated", {}, {"nominatedNodeName": nomination})
    texts = list(differences_from_store(_cluster().snap, store, placed))
    assert [text.startswith(start) for text, start in zip(texts, found, strict=True)] == [True] * len(found)
