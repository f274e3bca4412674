"""DynamicResources' PostFilter: takes a claim's devices away where the pod cannot use them, so that it may get others.

Only claims that nobody else uses are taken away, one at a time; the change of the claim brings the pod back. A claim
that was made for the pod's extended resources in an earlier attempt is deleted.

Source: pkg/scheduler/framework/plugins/dynamicresources (PostFilter).

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Sequence

import numpy as np

from trireme.evaluation.preemption import post_filter_context
from trireme.framework import status
from trireme.plugin_kit import plugin_context
from trireme.plugins.dynamic_resources import filter as device_filter
from trireme.plugins.dynamic_resources.spec import SPEC
from trireme.snapshot import arrays, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, resource_pb2
from trireme.wire import status as wire_status

RELEASED = (status.Reason("claimReleased"),)
NOTHING_TO_RELEASE = (status.Reason("noClaimToRelease"),)
_FREED = "deallocation of ResourceClaim completed"
_DELETED = "deletion of ResourceClaim completed"


class Deallocation:
    """DynamicResources at PostFilter: gives up a claim's devices so that the pod may get others."""

    name = SPEC.name

    def __init__(self, plugin: device_filter.DynamicResourcesFilter) -> None:
        self._plugin = plugin
        self._none = status.unschedulable(self.name, reasons=NOTHING_TO_RELEASE)

    async def post_filter(
        self, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
    ) -> filter_pb2.PostFilterResponse:
        """Have one claim deallocated that the pod cannot use on some node and nobody else uses; never SUCCESS.

        Without such a claim a stale one for extended resources is deleted. Fails if PreFilter ended before this
        plugin's turn: kube-scheduler does not find what it keeps there.
        """
        if context.chain.skips_class(self.name, context.pod_class):
            return _response_with_actions(self._none)
        if context.pre_filter is not None and not self._was_filter_called(context):
            return _response_with_actions(status.error(self.name, "not found"))
        metadata = context.cycle.pod.metadata
        pod = cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        claims = self._plugin.unavailable_claims(context.pod_class, snap, self._slots_refused_for_claims(context, snap))
        for claim in claims:
            if is_used_by_nobody_else(claim, pod.uid):
                freed = status.unschedulable(self.name, _FREED, reasons=RELEASED)
                return _response_with_actions(freed, release_action(pod, claim))
        stale = self._plugin.stale_claim(context.pod_class, snap, pod.uid)
        if stale is not None and context.pre_filter is None:
            deleted = status.unschedulable(self.name, _DELETED, reasons=RELEASED)
            return _response_with_actions(deleted, release_action(pod, stale, delete=True))
        return _response_with_actions(self._none)

    def _was_filter_called(self, context: post_filter_context.PostFilterContext) -> bool:
        """Whether this plugin's PreFilter ran: no plugin before it in the profile had refused all nodes."""
        refusal, order = context.pre_filter, list(context.chain.order)
        ended = refusal is not None and refusal.code == status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if not ended or refusal is None or refusal.plugin not in order:
            return True
        return self.name in order and order.index(self.name) <= order.index(refusal.plugin)

    def _slots_refused_for_claims(
        self, context: post_filter_context.PostFilterContext, snap: snapshot.Snapshot
    ) -> arrays.SlotArray:
        """Return the slots that this plugin refused because of a claim; none if Filter did not run."""
        if context.index is None:
            return np.zeros(0, dtype=np.intp)
        return slots_refused_for_claims(context.statuses, context.index, snap)


def slots_refused_for_claims(
    refusals: Sequence[status.Status], index: arrays.Int16Array, snap: snapshot.Snapshot
) -> arrays.SlotArray:
    """Return the slots refused because of a claim; `index` has the number of each slot's refusal, from 1."""
    numbers = [number for number, refusal in enumerate(refusals, start=1) if refusal == device_filter.NOT_AVAILABLE]
    if not numbers:
        return np.zeros(0, dtype=np.intp)
    slots = np.flatnonzero(np.isin(index, numbers))
    return slots[snap.nodes.alive[slots]]


def release_action(
    pod: cycle_pb2.PodIdentity, claim: resource_pb2.ResourceClaim, *, delete: bool = False, user_uid: str = ""
) -> bind_pb2.Action:
    """Make the action that deallocates the claim, or deletes it.

    It fails if anyone but the pod, or but the user `user_uid`, uses the claim by then.
    """
    identity = claim.metadata
    return bind_pb2.Action(
        pod=pod,
        deallocate=bind_pb2.Deallocate(
            namespace=identity.namespace, name=identity.name, uid=identity.uid, delete=delete, user_uid=user_uid
        ),
    )


def is_used_by_nobody_else(claim: resource_pb2.ResourceClaim, uid: str) -> bool:
    """Whether reservedFor is empty or lists this user alone."""
    users = claim.status.reserved_for
    return not users or (len(users) == 1 and users[0].uid == uid)


def _response_with_actions(result: status.Status, *actions: bind_pb2.Action) -> filter_pb2.PostFilterResponse:
    return filter_pb2.PostFilterResponse(status=wire_status.to_message(result), actions=actions)


def make(context: plugin_context.PluginContext) -> Deallocation | None:
    """Make the plugin for PostFilter; None if the profile does not filter by DynamicResources."""
    plugin = context.filter_plugin
    return Deallocation(plugin) if isinstance(plugin, device_filter.DynamicResourcesFilter) else None
