"""VolumeBinding: a pod goes where its volumes are, or can be; and takes them.

Claims that wait for their first pod are matched with volumes on every node at once (volumes_matching.py). Filter says
why a node does not fit, Score prefers nodes whose storage is used least, Reserve assumes the volumes and the chosen
node for the one node that was picked; bind writes what was assumed. All three read the same snapshot and find the same
volumes, so that nothing has to be carried from one to the other.

A placement takes volumes away that the next pod of the class would see, so a class with waiting claims goes one pod at
a time.

Tests: tests/conformance/test_volume_sequences.py.
"""

from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context, volumes_claims, volumes_matching, volumes_objects
from trireme.plugins.volume_binding import objects_read, volume_bindings
from trireme.plugins.volume_binding.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

_REASONS = (
    (volumes_matching.NODE_CONFLICT, "node(s) didn't match PersistentVolume's node affinity", "volumeNodeAffinity"),
    (volumes_matching.BIND_CONFLICT, "node(s) didn't find available persistent volumes to bind", "noVolume"),
    (volumes_matching.NOT_ENOUGH_SPACE, "node(s) did not have enough free storage", "storage"),
    (
        volumes_matching.NO_VOLUME,
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "volumeNotFound",
    ),
)


class VolumeBindingFilter:
    """VolumeBinding at PreFilter, Filter and Reserve: nodes from which the pod's volumes can be reached or made."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = objects_read.READS

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Refuse claims that are missing, lost, being deleted, or unbound though they wait for no node; skip if none.

        Pods with claims that wait for a node are placed one at a time, as each takes volumes from the next.
        """
        if not volumes_claims.claims_of(pod_class):
            return interfaces.SKIPPED
        for use in volumes_claims.claims_of(pod_class):
            problem = _problem_of_claim(use, pod_class, snap)
            if problem:
                reason = status.Reason.of("claim", {"claim": use.name})
                return interfaces.PreFilterResult(status=status.unresolvable(self.name, problem, reasons=(reason,)))
        try:
            claims = volumes_matching.pod_claims(pod_class, snap)
        except volumes_matching.ClaimError as error:
            failed = status.error(self.name, f'running PreFilter plugin "{self.name}": {error}')
            return interfaces.PreFilterResult(status=failed)
        if claims.immediate:
            reason = status.Reason.of("unboundClaim", {"claim": claims.immediate[0].metadata.name})
            text = "pod has unbound immediate PersistentVolumeClaims"
            late = status.unresolvable(self.name, text, reasons=(reason,))
            return interfaces.PreFilterResult(status=late)
        return interfaces.PreFilterResult(
            state=claims,
            max_batch=1 if claims.delayed else 0,
            reserves=bool(claims.delayed),
            takes=None if volumes_matching.may_take_volumes(claims, snap) else _claims_taken(pod_class),
        )

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots from which a volume cannot be reached, and where one can be neither taken nor made."""
        matches = volumes_matching.match_volumes(state, snap)
        conflicts, errors = matches.conflicts[slots], matches.error[slots]
        index = np.full(slots.shape[0], interfaces.PASSES, dtype=np.int16)
        for found in np.unique(conflicts).tolist():
            if found:
                index[conflicts == found] = table.intern(self._refusal_for_conflicts(found))
        for number in np.unique(errors).tolist():
            if number:
                text = f'running "{self.name}" filter plugin: {matches.errors[number - 1]}'
                index[errors == number] = table.intern(status.error(self.name, text))
        return interfaces.Verdicts(index)

    def _refusal_for_conflicts(self, conflicts: int) -> status.Status:
        """Make the refusal with all reasons whose bits are set in `conflicts`."""
        found = [(text, code) for bit, text, code in _REASONS if conflicts & bit]
        return status.unresolvable(
            self.name, *(text for text, _ in found), reasons=tuple(status.Reason(code) for _, code in found)
        )

    # Reserve

    def reserve(
        self, pod_class: classes.PodClass, pod: cycle_pb2.PodIdentity, snap: snapshot.Snapshot, slot: int
    ) -> interfaces.ReserveResult:
        """Return to be assumed: volumes as bound to the claims, and claims with the node where theirs is to be made.

        Empty if no claim waits for a node. A status if the node does not do any more.
        """
        try:
            claims = volumes_matching.pod_claims(pod_class, snap)
        except volumes_matching.ClaimError as error:
            return interfaces.ReserveResult(self._reserve_error(str(error)))
        if not claims.delayed:
            return interfaces.ReserveResult()
        matches = volumes_matching.match_volumes(claims, snap)
        if matches.error[slot] or matches.conflicts[slot]:
            return interfaces.ReserveResult(
                self._reserve_error(f'no pod volume found for node "{snap.nodes.names[slot]}"')
            )
        return _objects_to_assume(matches, slot, snap.nodes.names[slot])

    def _reserve_error(self, text: str) -> status.Status:
        """Make the error status of Reserve, in kube-scheduler's words."""
        return status.error(self.name, f'running Reserve plugin "{self.name}": {text}')


def _claims_taken(pod_class: classes.PodClass) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        (volumes_claims.CLAIM, pod_class.namespace, use.name) for use in volumes_claims.claims_of(pod_class)
    )


def _problem_of_claim(
    use: volumes_objects.ClaimUse, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView
) -> str:
    """Return why the claim cannot be used; empty if it can."""
    claim = volumes_claims.find_claim(snap, pod_class.namespace, use.name)
    if claim is None:
        if use.ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
        return volumes_objects.claim_not_found(use.name)
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.HasField("deletion_timestamp"):
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return volumes_objects.not_owner(pod_class.pod, claim) if use.ephemeral else ""


def _objects_to_assume(matches: volumes_matching.VolumeMatches, slot: int, node: str) -> interfaces.ReserveResult:
    """Return the objects to assume, and PreBind's work: volumes with their claims, claims with the chosen node."""
    assumed = []
    to_bind = []
    for entry in matches.static:
        number = int(entry.chosen[slot])
        if number == volumes_matching.NONE:
            continue
        volume, claim = entry.volumes[number].volume, entry.claim
        by_controller = not volumes_objects.bound_to(volume, claim)
        assumed.append(
            snapshot_pb2.ClusterObject(
                persistent_volume=_volume_with_claim_ref(volume, claim, by_controller), assumed=True
            )
        )
        to_bind.append(
            volume_bindings.VolumeToBind(
                volume.metadata.name,
                volume.metadata.resource_version,
                by_controller,
                claim.metadata.namespace,
                claim.metadata.name,
                claim.metadata.uid,
                claim.metadata.resource_version,
            )
        )
    to_provision = []
    for made in matches.dynamic:
        if made.needed[slot]:
            claim = core_pb2.PersistentVolumeClaim()
            claim.CopyFrom(made.claim)
            claim.metadata.annotations[volumes_objects.SELECTED_NODE] = node
            assumed.append(snapshot_pb2.ClusterObject(persistent_volume_claim=claim, assumed=True))
            identity = claim.metadata
            to_provision.append(
                volume_bindings.SelectedNodeWrite(identity.namespace, identity.name, identity.resource_version)
            )
    state = volume_bindings.VolumeBindings(tuple(to_bind), tuple(to_provision))
    return interfaces.ReserveResult(None, tuple(assumed), state.to_bytes())


def _volume_with_claim_ref(
    volume: core_pb2.PersistentVolume, claim: core_pb2.PersistentVolumeClaim, by_controller: bool
) -> core_pb2.PersistentVolume:
    """Return the volume as it will be once it names the claim; `by_controller`: it is marked as bound by one."""
    out = core_pb2.PersistentVolume()
    out.CopyFrom(volume)
    out.spec.claim_ref.CopyFrom(
        core_pb2.ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
            resource_version=claim.metadata.resource_version,
        )
    )
    if by_controller:
        out.metadata.annotations.setdefault(volumes_objects.BOUND_BY_CONTROLLER, "yes")
    return out


def make(context: plugin_context.PluginContext) -> VolumeBindingFilter:
    """Make the filter, which depends on nothing in its profile."""
    return VolumeBindingFilter()
