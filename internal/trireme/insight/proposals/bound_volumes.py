"""Candidates without one of the pod's volumes: a claim may be bound to one that full nodes alone reach.

Also change: protos/trireme/v1/volume_proposal.proto (the messages).

Tests: tests/unit/insight/test_volume_proposals.py.
"""

from collections.abc import Iterator

import numpy as np

from trireme.insight.proposals import pod_changes
from trireme.plugin_kit import volumes_nodes
from trireme.snapshot import node_selection, snapshot
from trireme.v1 import core_pb2, insight_pb2, volume_proposal_pb2


def volumes_to_drop(pod: core_pb2.Pod, snap: snapshot.Snapshot) -> Iterator[pod_changes.PodChange]:
    """A candidate for each volume whose claim is bound, in the order of the pod's volumes."""
    for number, volume in enumerate(pod.spec.volumes):
        name = volume.volume_source.persistent_volume_claim.claim_name
        claim = snap.objects.get("persistent_volume_claim", pod.metadata.namespace, name) if name else None
        if claim is None or not claim.spec.volume_name:
            continue
        # By name, for classes have only the volumes that nodes may refuse.
        drop = insight_pb2.DropConstraint(field=f"spec.volumes[{volume.name}]", bound_volume=_bound_volume(claim, snap))
        yield pod_changes.dropping(pod, drop, "volumes", number)


def _bound_volume(claim: core_pb2.PersistentVolumeClaim, snap: snapshot.Snapshot) -> volume_proposal_pb2.BoundVolume:
    """The claim with its volume, and where that is reached."""
    out = volume_proposal_pb2.BoundVolume(claim_name=claim.metadata.name, volume_name=claim.spec.volume_name)
    volume = snap.objects.get("persistent_volume", "", claim.spec.volume_name)
    terms = None if volume is None else volumes_nodes.volume_terms(volume.spec.node_affinity)
    if volume is not None and terms is not None:
        out.required_node_affinity.CopyFrom(volume.spec.node_affinity.required)
        reaching = node_selection.matches_any(snap.nodes, terms, snap.nodes.live_slots())
        out.reaching_count = int(np.count_nonzero(reaching))
    return out
