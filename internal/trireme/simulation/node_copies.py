"""Nodes of a snapshot as objects again: as they are, or as the shape of a new one.

Tests: tests/unit/simulation/test_scenarios.py, tests/unit/simulation/test_group_proposals.py,
tests/unit/insight/test_label_proposals.py.
"""

from collections.abc import Mapping

from trireme.framework import amounts
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import well_known_labels

# Snapshots know whether a node disables resize preemption, not for whom: plugins do not ask.
_ALL = "*"

# Taints with these prefixes say that something is wrong with a node, or that it is being taken out of service: another
# node of its shape need not have them.
CONDITION_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def node_at(snap: snapshot.Snapshot, slot: int) -> core_pb2.Node:
    """The node at the slot, with all that plugins read of nodes."""
    nodes = snap.nodes
    stored = nodes.messages.get(slot)
    if stored is not None:
        return core_pb2.Node.FromString(stored)
    out = core_pb2.Node()
    out.metadata.name = nodes.names[slot]
    out.metadata.labels.update(nodes.labels.labels_of(slot))
    out.spec.unschedulable = bool(nodes.unschedulable[slot])
    if nodes.resize_preemption_disabled[slot]:
        out.spec.pod_preemption_policy.disable_resize_preemption.append(_ALL)
    for key, value, effect in nodes.taint_sets.value(int(nodes.taint_set[slot])):
        out.spec.taints.add(key=key, value=value, effect=effect)
    _set_resources(out, snap, slot)
    for name, size in nodes.images.images_of(slot):
        out.status.images.add(names=[name], size_bytes=size)
    return out


def node_with_labels(snap: snapshot.Snapshot, slot: int, labels: Mapping[str, str]) -> core_pb2.Node:
    """The node at the slot, with these labels added."""
    out = node_at(snap, slot)
    out.metadata.labels.update(labels)
    return out


def node_like(snap: snapshot.Snapshot, slot: int, name: str) -> core_pb2.Node:
    """A node of the shape of the one at the slot: without pods, images and conditions, with a host name of its own."""
    nodes = snap.nodes
    out = core_pb2.Node()
    out.metadata.name = name
    labels = nodes.labels.labels_of(slot)
    out.metadata.labels.update(
        labels | ({well_known_labels.HOSTNAME: name} if well_known_labels.HOSTNAME in labels else {})
    )
    for key, value, effect in nodes.taint_sets.value(int(nodes.taint_set[slot])):
        if not key.startswith(CONDITION_TAINTS):
            out.spec.taints.add(key=key, value=value, effect=effect)
    _set_resources(out, snap, slot)
    return out


def _set_resources(node: core_pb2.Node, snap: snapshot.Snapshot, slot: int) -> None:
    """Set the allocatable resources and declared features of the slot."""
    nodes = snap.nodes
    for name, amount in zip(nodes.resource_names.names, nodes.allocatable[:, slot].tolist(), strict=False):
        if amount:
            node.status.allocatable[name].string = amounts.quantity_text(name, amount)
    node.status.allocatable[amounts.PODS].string = str(int(nodes.allowed_pods[slot]))
    node.status.declared_features.extend(sorted(nodes.feature_sets.value(int(nodes.feature_set[slot]))))
