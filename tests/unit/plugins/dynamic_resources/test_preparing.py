"""Searches for devices that others work beside: what changes meanwhile counts."""

import asyncio

import numpy as np
import pytest

from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.framework import pausing
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import args
from trireme.plugins.dynamic_resources.filter import DynamicResourcesFilter
from trireme.v1 import core_pb2, resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode


def _device_class(expression: str) -> snapshot_pb2.ClusterObject:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    made = decode.decode({"metadata": {"name": "c"}, "spec": spec}, resource_pb2.DeviceClass)
    return snapshot_pb2.ClusterObject(device_class=made)


def _cluster() -> SnapshotBuilder:
    """A node with two devices, and a claim for one of class `c`, which accepts any."""
    builder = SnapshotBuilder()
    builder.set_node("n")
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [{"name": "a"}, {"name": "b"}]}
    entry = decode.decode({"metadata": {"name": "s"}, "spec": spec}, resource_pb2.ResourceSlice)
    exactly = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    body = {
        "metadata": {"namespace": "ns", "name": "claim", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    claim = decode.decode(body, resource_pb2.ResourceClaim)
    builder.apply(
        objects=[
            snapshot_pb2.ClusterObject(resource_slice=entry),
            snapshot_pb2.ClusterObject(resource_claim=claim),
            _device_class("true"),
        ]
    )
    pod = core_pb2.Pod(metadata={"namespace": "ns", "name": "pod", "uid": "pod"})
    pod.spec.resource_claims.add(name="x", resource_claim_name="claim")
    builder.add_class(1, pod)
    return builder


async def test_a_class_that_changes_during_a_search_is_the_one_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "SLICE_SECONDS", -1.0)
    builder = _cluster()
    plugin, pod_class, slots = DynamicResourcesFilter(args.Args()), builder.snap.classes[1], np.array([0])
    searching = asyncio.create_task(plugin.prepare(pod_class, builder.snap, slots))
    await asyncio.sleep(0)
    assert not searching.done()
    builder.apply(objects=[_device_class("false")])
    await searching
    table = interfaces.StatusTable()
    state = plugin.pre_filter(pod_class, builder.snap, table).state
    verdicts = plugin.filter(pod_class, builder.snap, state, slots, table)
    assert verdicts.index.tolist() != [interfaces.PASSES]
