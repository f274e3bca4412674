"""How many devices stand for an extended resource on nodes, as resource scorers count them."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import Json, SnapshotBuilder
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import device_counts, features
from trireme.registry import score_plugins
from trireme.v1 import resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

RESOURCE = "example.com/gpu"


def _cluster(*specs: Json, expression: str = "") -> SnapshotBuilder:
    """Two nodes, and a slice for each spec; a class stands for the resource."""
    builder = SnapshotBuilder()
    for name in ("n0", "n1"):
        builder.set_node(name, labels={"zone": f"z-{name}"})
    selectors = [{"cel": {"expression": expression}}] if expression else []
    body: Json = {"metadata": {"name": "c"}, "spec": {"extendedResourceName": RESOURCE, "selectors": selectors}}
    device_class = decode.decode(body, resource_pb2.DeviceClass)
    builder.apply(objects=[snapshot_pb2.ClusterObject(device_class=device_class)])
    for number, spec in enumerate(specs):
        pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
        raw = {"metadata": {"name": f"s{number}"}, "spec": {"driver": "d", "pool": pool, **spec}}
        entry = decode.decode(raw, resource_pb2.ResourceSlice)
        builder.apply(objects=[snapshot_pb2.ClusterObject(resource_slice=entry)])
    return builder


def _zone(name: str) -> Json:
    expression = {"key": "zone", "operator": "In", "values": [name]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _devices(*names: str, **fields: Any) -> Json:
    return {"devices": [{"name": name, **fields} for name in names]}


@pytest.mark.parametrize(
    ("specs", "expression", "expected"),
    [
        pytest.param([{"nodeName": "n0", **_devices("a", "b")}], "", [2, 0], id="of a node"),
        pytest.param([{"allNodes": True, **_devices("a")}], "", [1, 1], id="of all nodes"),
        pytest.param([{**_zone("z-n1"), **_devices("a")}], "", [0, 1], id="of some nodes"),
        pytest.param(
            [{"perDeviceNodeSelection": True, **_devices("a", nodeName="n1")}], "", [0, 1], id="device by device"
        ),
        pytest.param([{"nodeName": "n0", **_devices("a")}], 'device.driver == "x"', [0, 0], id="not of the class"),
        pytest.param(
            [{"nodeName": "n0", **_devices("a")}, {"allNodes": True, **_devices("b")}],
            'device.driver == "d" && device.attributes["d"].nosuch',
            [0, 0],
            id="a selector that fails",
        ),
    ],
)
def test_devices_of_the_class_are_counted_where_they_are(
    specs: list[Json], expression: str, expected: list[int]
) -> None:
    builder = _cluster(*specs, expression=expression)
    counts = device_counts.DeviceCounter(features.Features())
    total, taken = counts.count(builder.snap, RESOURCE, np.array([0, 1]))
    assert total.tolist() == expected
    assert taken.tolist() == [0, 0]


def test_devices_that_a_claim_holds_are_in_use() -> None:
    builder = _cluster({"nodeName": "n0", **_devices("a", "b", "c")})
    results = [{"request": "r", "driver": "d", "pool": "p0", "device": "a"}]
    raw = {"metadata": {"namespace": "n", "name": "c"}, "status": {"allocation": {"devices": {"results": results}}}}
    claim = decode.decode(raw, resource_pb2.ResourceClaim)
    builder.apply(objects=[snapshot_pb2.ClusterObject(resource_claim=claim)])
    counts = device_counts.DeviceCounter(features.Features())
    total, taken = counts.count(builder.snap, RESOURCE, np.array([0]))
    assert (total.tolist(), taken.tolist()) == ([3], [1])


@pytest.mark.parametrize(
    ("resource", "gate", "counted"),
    [(RESOURCE, True, True), ("cpu", True, False), (RESOURCE, False, False)],
    ids=["extended", "none that is extended", "gate off"],
)
def test_scores_look_at_the_cluster_only_where_devices_count(resource: str, gate: bool, counted: bool) -> None:
    args = b'{"resources":[{"name":"%s","weight":1}]}' % resource.encode()
    plugin = score_plugins.make_score_plugin("NodeResourcesBalancedAllocation", args, {"DRAExtendedResource": gate})
    assert plugin is not None
    assert (plugin.depends_on is interfaces.Dependency.CLUSTER) == counted
