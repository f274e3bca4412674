"""NodeVolumeLimits: how many volumes of a driver a node has, whatever the pods are that are there."""

from typing import Any

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of
from trireme.framework import status
from trireme.plugins.node_volume_limits import filter as node_volume_limits
from trireme.v1 import core_pb2, snapshot_pb2, storage_pb2
from trireme_kube.apimachinery import decode

DRIVER = "ebs.csi.aws.com"


def _inline(**source: Json) -> Json:
    return {"volumes": [{"name": "v", **source}]}


def _disk(volume_id: str) -> Json:
    return _inline(awsElasticBlockStore={"volumeID": volume_id})


def _refusals(limit: int, *there: Json, corrected: bool) -> dict[str, status.Status]:
    """Why a pod with a disk may not be on a node that takes so many, with these pods on the node."""
    builder = SnapshotBuilder()
    builder.set_node("n")
    drivers = [{"name": DRIVER, "nodeID": "n", "allocatable": {"count": limit}}]
    found: Any = decode.decode({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, storage_pb2.CSINode)
    claim: Any = decode.decode(
        {"metadata": {"namespace": "default", "name": "p-v", "uid": "c"}, "spec": {}}, core_pb2.PersistentVolumeClaim
    )
    builder.apply(
        objects=[
            snapshot_pb2.ClusterObject(csi_node=found),
            snapshot_pb2.ClusterObject(persistent_volume_claim=claim),
        ]
    )
    for number, spec in enumerate(there, start=1):
        pod = pod_of(spec)
        pod.metadata.name = "p"
        builder.add_class(number, pod)
        builder.place(number, "n")
    plugin = node_volume_limits.NodeVolumeLimits(require_driver=True, corrected=corrected)
    return Answers(builder, plugin, pod_of(_disk("vol-new"))).refusals()


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(_disk("aws://za/none"), id="untranslatable"),
        pytest.param(_inline(azureDisk={"diskName": "d", "diskURI": "d", "kind": "Shared"}), id="not-migrated"),
        pytest.param(_inline(ephemeral={}), id="claim-of-another-owner"),
    ],
)
def test_a_volume_that_a_pod_on_a_node_cannot_have_is_not_counted(unknown: Json) -> None:
    """It ended the attempt of every pod with volumes: an error of one node is one of all."""
    with_one_more = {"volumes": [*unknown["volumes"], {**_disk("vol-there")["volumes"][0], "name": "w"}]}
    assert _refusals(1, unknown, corrected=True) == {}
    assert _refusals(2, with_one_more, corrected=True) == {}
    assert _refusals(1, with_one_more, corrected=True)["n"].code is status.Code.UNSCHEDULABLE
    assert _refusals(2, unknown, corrected=False)["n"].code is status.Code.ERROR
