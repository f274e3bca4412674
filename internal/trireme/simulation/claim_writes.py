"""What becomes of claims for devices as pods come and leave.

That is what PreBind writes into them, and the part of the resource claim controller that scheduling sees.

Tests: tests/unit/simulation/test_scenarios.py, tests/unit/simulation/test_claim_writes.py.
"""

from collections.abc import Callable

from trireme.cache import cluster_cache
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, resource_pb2
from trireme_kube.apimachinery import resource_versions

KIND = "resource_claim"


class ClaimWrites:
    """Writes the claims of pods that are bound in a simulation, and releases those of pods that leave it.

    `store` puts a changed claim in place of the one before; `remove` deletes one.
    """

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        store: Callable[[resource_pb2.ResourceClaim], None],
        remove: Callable[[resource_pb2.ResourceClaim], None],
    ) -> None:
        self._cache = cache
        self._store = store
        self._remove = remove

    def on_pod_bound(self, pod: cycle_pb2.PodIdentity, of_class: core_pb2.Pod) -> None:
        """Write the devices that were assumed for the pod, and the pod as a user of its claims.

        Until then nobody else gets one of these claims. Claims that are still to be made stay assumed.
        """
        user = resource_pb2.ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        assumed = {
            (claim.metadata.namespace, claim.metadata.name): claim
            for entry in self._cache.objects_assumed_for(pod.uid)
            if (claim := entry.resource_claim).metadata.name
        }
        own = {(pod.namespace, each.resource_claim_name) for each in of_class.spec.resource_claims}
        for key in sorted(own | assumed.keys()):
            stored = self._cache.get_object(KIND, *key)
            if stored is None:
                continue
            written = resource_pb2.ResourceClaim()
            written.CopyFrom(assumed.get(key, stored.resource_claim))
            if key in own and all(each.uid != pod.uid for each in written.status.reserved_for):
                written.status.reserved_for.append(user)
            elif key not in assumed:
                continue
            # Another version than the assumed one.
            version = resource_versions.number_of(stored.resource_claim.metadata.resource_version)
            written.metadata.resource_version = str((version or 0) + 1)
            self._store(written)

    def on_pod_left(self, uid: str) -> None:
        """Delete the claims that the pod owns, and release those that nobody else uses."""
        for key in sorted(self._cache.object_keys(KIND)):
            entry = self._cache.get_object(KIND, *key)
            if entry is None:
                continue
            claim = entry.resource_claim
            if any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references):
                self._remove(claim)
            elif any(user.uid == uid for user in claim.status.reserved_for):
                self._store(_without_user(claim, uid))

    def deallocate(self, action: bind_pb2.Action) -> None:
        """Take away the claim's allocation, or delete the claim, as PostFilter decided."""
        wanted = action.deallocate
        entry = self._cache.get_object(KIND, wanted.namespace, wanted.name)
        if entry is None or entry.resource_claim.metadata.uid != wanted.uid:
            return
        if wanted.delete:
            self._remove(entry.resource_claim)
            return
        freed = resource_pb2.ResourceClaim()
        freed.CopyFrom(entry.resource_claim)
        freed.status.ClearField("allocation")
        del freed.status.reserved_for[:]
        self._store(freed)


def _without_user(claim: resource_pb2.ResourceClaim, uid: str) -> resource_pb2.ResourceClaim:
    """The claim without a user; without an allocation if it was the last one."""
    changed = resource_pb2.ResourceClaim()
    changed.CopyFrom(claim)
    users = [user for user in claim.status.reserved_for if user.uid != uid]
    del changed.status.reserved_for[:]
    changed.status.reserved_for.extend(users)
    if not users:
        changed.status.ClearField("allocation")
    return changed
