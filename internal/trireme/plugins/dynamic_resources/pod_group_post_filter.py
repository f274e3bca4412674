"""DynamicResources' PodGroupPostFilter: claims are given up that pods of a group cannot use, so that it may get others.

First each pod that was tried has its own say, as if it were alone (`deallocation`). Where one of them found nothing to
give up, and no pod of the group has a node, the group's own claims come next: one that could not be used somewhere and
that nobody else uses loses its devices; if there is none, the group leaves one of its claims that it is known to use.

What was unavailable was found while the group was tried: then a claim may have been going to get devices for an earlier
pod, which is not known any more. So the request has what Reserve returned for each.

Source: pkg/scheduler/framework/plugins/dynamicresources (PodGroupPostFilter, deallocatePodGroupClaims).

Tests: tests/conformance/test_group_claims.py.
"""

from collections.abc import Iterator, MutableSequence, Sequence

from trireme.framework import fit_reasons, status
from trireme.plugin_kit import plugin_context
from trireme.plugins.dynamic_resources import filter as device_filter
from trireme.plugins.dynamic_resources import pod_claims, reserve_state
from trireme.plugins.dynamic_resources import post_filter as deallocation
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import snapshot
from trireme.v1 import bind_pb2, bind_phase_pb2, filter_phase_pb2, resource_pb2, scheduling_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import decode

_FREED = "deallocation of PodGroup ResourceClaim completed"
_LEFT = "ResourceClaim unreserved for PodGroup"

_Unavailable = Sequence[resource_pb2.ResourceClaim]


def make(context: plugin_context.PluginContext) -> "ClaimRelease":
    """Make the plugin for PodGroupPostFilter; it asks the filter of the same profile, if there is one."""
    plugin = context.filter_plugin
    return ClaimRelease(plugin if isinstance(plugin, device_filter.DynamicResourcesFilter) else None)


class ClaimRelease:
    """DynamicResources at PodGroupPostFilter: gives claims up that the group's pods cannot use."""

    def __init__(self, plugin: device_filter.DynamicResourcesFilter | None) -> None:
        """`plugin`: the profile's filter; None: there is none."""
        self._plugin = plugin

    def post_filter(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest, snap: snapshot.Snapshot
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Return claims to release so that the group's pods may get other devices.

        Raises: ValueError, DecodeError where a member's state is none that Reserve made.
        """
        return _list_releasable_claims(self._plugin, request, snap)


def _list_releasable_claims(
    plugin: device_filter.DynamicResourcesFilter | None,
    request: filter_phase_pb2.ListReleasableClaimsRequest,
    snap: snapshot.Snapshot,
) -> filter_phase_pb2.ListReleasableClaimsResponse:
    """Which claims to give up so that the group's pods may get other devices.

    For each member one that it cannot use and nobody else uses, or a stale one; if some have neither, and no member is
    scheduled, the group's own.
    """
    out = filter_phase_pb2.ListReleasableClaimsResponse()
    if plugin is None:
        # It does not filter, and so keeps nothing of the pods.
        out.status.CopyFrom(wire_status.to_message(status.error(SPEC.name, "not found")))
        return out
    unavailable = list(_unusable_claims_by_member(plugin, request, snap))
    given_up: set[str] = set()
    all_found = True
    for member, claims in zip(request.tried, unavailable, strict=True):
        pod_class = snap.classes[member.pod_class]
        claim = next((each for each in claims if deallocation.is_used_by_nobody_else(each, member.pod.uid)), None)
        stale = plugin.stale_claim(pod_class, snap, member.pod.uid) if claim is None else None
        all_found &= claim is not None or stale is not None
        freed = claim if claim is not None else stale
        # A claim that several pods share is given up once; one that was only going to get devices has nothing to lose.
        if freed is not None and freed.metadata.uid not in given_up and freed.status.HasField("allocation"):
            given_up.add(freed.metadata.uid)
            out.actions.append(deallocation.release_action(member.pod, freed, delete=claim is None))
    result = None
    if not all_found and plugin.groups_have_claims and not request.scheduled:
        try:
            result = _release_claim_of_group(request, unavailable, snap, out.actions, given_up)
        except pod_claims.ClaimError as error:
            result = status.error(plugin.name, str(error))
    reasons = deallocation.RELEASED if out.actions else deallocation.NOTHING_TO_RELEASE
    result = result or status.unschedulable(plugin.name, fit_reasons.NO_CLAIM_TO_RELEASE, reasons=reasons)
    out.status.CopyFrom(wire_status.to_message(result))
    return out


def _unusable_claims_by_member(
    plugin: device_filter.DynamicResourcesFilter,
    request: filter_phase_pb2.ListReleasableClaimsRequest,
    snap: snapshot.Snapshot,
) -> Iterator[_Unavailable]:
    """Yield for each member, in order, the claims that it could not use on some node.

    What members before it were to get counts as allocated.
    """
    pending_allocations: dict[str, resource_pb2.AllocationResult] = {}
    for member in request.tried:
        found: _Unavailable = ()
        if member.HasField("columns"):
            columns = node_columns.from_message(member.columns)
            slots = deallocation.slots_refused_for_claims(columns.statuses, columns.index, snap)
            found = plugin.unavailable_claims(snap.classes[member.pod_class], snap, slots, pending_allocations)
        yield found
        pending_allocations.update(_pending_allocations(member.state))


def _pending_allocations(state: bytes) -> Iterator[tuple[str, resource_pb2.AllocationResult]]:
    """Yield the allocations that Reserve had chosen for a member, each with its claim's UID."""
    own_state = bind_phase_pb2.PluginStates.FromString(state).plugin_states.get(SPEC.name, b"")
    for claim in reserve_state.DeviceClaims.from_bytes(own_state).claims if own_state else ():
        if claim.allocation is not None:
            yield claim.uid, decode.decode(claim.allocation, resource_pb2.AllocationResult)


def _release_claim_of_group(
    request: filter_phase_pb2.ListReleasableClaimsRequest,
    unavailable: Sequence[_Unavailable],
    snap: snapshot.Snapshot,
    actions: MutableSequence[bind_pb2.Action],
    given_up: set[str],
) -> status.Status | None:
    """Give up the first claim that a member could not use and that nobody but the group uses.

    Or else have the group leave one of its own; None: neither is possible.

    Adds to `actions`. Raises: ClaimError.
    """
    identity = request.pod_group
    group: scheduling_pb2.PodGroup | None = snap.objects.get(pod_claims.POD_GROUP, identity.namespace, identity.name)
    uid = group.metadata.uid if group is not None else ""
    pod = request.tried[0].pod
    for claim in (claim for claims in unavailable for claim in claims):
        if deallocation.is_used_by_nobody_else(claim, uid):
            if claim.metadata.uid not in given_up and claim.status.HasField("allocation"):
                actions.append(deallocation.release_action(pod, claim, user_uid=uid))
            return status.unschedulable(SPEC.name, _FREED, reasons=deallocation.RELEASED)
    for claim in () if group is None else pod_claims.claims_of_group(group, snap):
        if claim.status.HasField("allocation") and pod_claims.is_reserved_for(claim, pod.uid, identity.name):
            leaving = bind_pb2.RemoveClaimUser(
                namespace=claim.metadata.namespace, name=claim.metadata.name, uid=claim.metadata.uid, user_uid=uid
            )
            actions.append(bind_pb2.Action(pod=pod, remove_claim_user=leaving))
            return status.unresolvable(SPEC.name, _LEFT, reasons=deallocation.RELEASED)
    return None
