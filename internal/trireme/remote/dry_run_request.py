"""Requests for dry runs, for preemption.

A plugin that follows the snapshot stream gets rows and classes, any other its projection of the pods. These requests
are small, a few nodes and their pods, so they are built as ordinary messages.

Tests: tests/contract/test_recorded_dry_runs.py.
"""

from collections.abc import Sequence

import numpy as np

from trireme.plugin_api import interfaces
from trireme.remote import remote_client
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, filter_pb2, plugin_pb2
from trireme_kube.apimachinery import protobuf_wire


def serialize_request(
    cycle: bytes, client: remote_client.PluginClient, snap: snapshot.Snapshot, runs: Sequence[interfaces.DryRun]
) -> bytes:
    """Serialise a FilterDryRunRequest. `cycle` is serialised already."""
    follows = client.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT
    slots = np.array([run.slot for run in runs], dtype=np.intp)
    views: list[filter_pb2.NodeView] = []
    if not follows:
        for _, selection in client.nodes.split(snap.nodes, slots):
            views += filter_pb2.NodeSelection.FromString(selection).nodes
    out = filter_pb2.FilterDryRunRequest()
    for at, run in enumerate(runs):
        if follows:
            node = filter_pb2.NodeView(name=snap.nodes.names[run.slot])
            out.runs.add(node=node, slot=run.slot, removed_rows=run.removed_rows, added_classes=run.added_classes)
            continue
        out.runs.add(
            node=views[at],
            slot=run.slot,
            removed_pods=client.project_pods([_placed_pod(snap, row) for row in run.removed_rows]),
            added_pods=client.project_pods([snap.classes[number].pod for number in run.added_classes]),
        )
    field = filter_pb2.FilterDryRunRequest.CYCLE_FIELD_NUMBER
    return protobuf_wire.encode_delimited(field, cycle) + out.SerializeToString()


def _placed_pod(snap: snapshot.Snapshot, row: int) -> core_pb2.Pod:
    """The pod of a row: its class's fields, and its own name."""
    out = core_pb2.Pod()
    out.CopyFrom(snap.classes[int(snap.pods.pod_class[row])].pod)
    out.metadata.name, out.metadata.uid = snap.pods.names[row], snap.pods.uids[row]
    out.spec.node_name = snap.nodes.names[int(snap.pods.slot[row])]
    return out
