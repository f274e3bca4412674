"""DynamicResources' PostFilter: takes a claim's devices away where the pod cannot use them, so that it may get others.

Only claims that nobody else uses are taken away, one at a time; the change of the claim brings the pod back. A claim
that was made for the pod's extended resources in an earlier attempt is deleted.

Source: pkg/scheduler/framework/plugins/dynamicresources (PostFilter).
"""

import numpy as np

from trireme.filter import preemption
from trireme.framework import status
from trireme.plugins.dynamic_resources import plugin as dynamic_resources
from trireme.snapshot import arrays, snapshot
from trireme.v1 import bind_pb2, cycle_pb2, filter_pb2, resource_pb2
from trireme.wire import status as wire_status

_FREED = "deallocation of ResourceClaim completed"
_DELETED = "deletion of ResourceClaim completed"


class Deallocation:
    """The in-tree PostFilter plugin."""

    name = dynamic_resources.NAME

    def __init__(self, plugin: dynamic_resources.DynamicResources) -> None:
        self._plugin = plugin

    def post_filter(self, question: preemption.Question, snap: snapshot.Snapshot) -> filter_pb2.PostFilterResponse:
        """Free a claim, or say nothing. It fails where PreFilter ended before this plugin's turn: kube-scheduler does
        not find what it keeps there.
        """
        if question.pre_filter is not None and not self._reached(question):
            return _answer(status.error(self.name, "not found"))
        pod = question.cycle.pod.metadata
        claims = self._plugin.unavailable_claims(question.pod_class, snap, self._refusing(question, snap))
        for claim in claims:
            if all(user.uid == pod.uid for user in claim.status.reserved_for) and len(claim.status.reserved_for) <= 1:
                return _answer(status.unschedulable(self.name, _FREED), _action(question, claim, delete=False))
        stale = self._plugin.stale_claim(question.pod_class, snap, pod.uid)
        if stale is not None and question.pre_filter is None:
            return _answer(status.unschedulable(self.name, _DELETED), _action(question, stale, delete=True))
        return _answer(status.unschedulable(self.name))

    def _reached(self, question: preemption.Question) -> bool:
        refusal, order = question.pre_filter, list(question.chain.order)
        ended = refusal is not None and refusal.code == status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if not ended or refusal is None or refusal.plugin not in order:
            return True
        return self.name in order and order.index(self.name) <= order.index(refusal.plugin)

    def _refusing(self, question: preemption.Question, snap: snapshot.Snapshot) -> arrays.SlotArray:
        """The slots where a claim cannot be used, of those that this plugin was asked about."""
        if question.index is None:
            return np.zeros(0, dtype=np.intp)
        numbers = [
            number
            for number, refusal in enumerate(question.refusals, start=1)
            if refusal.plugin == self.name and refusal.messages == (dynamic_resources.NOT_AVAILABLE,)
        ]
        slots = np.flatnonzero(np.isin(question.index, numbers))
        return slots[snap.nodes.alive[slots]]


def _action(question: preemption.Question, claim: resource_pb2.ResourceClaim, *, delete: bool) -> bind_pb2.Action:
    pod, identity = question.cycle.pod.metadata, claim.metadata
    return bind_pb2.Action(
        pod=cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        deallocate=bind_pb2.Deallocate(
            namespace=identity.namespace, name=identity.name, uid=identity.uid, delete=delete
        ),
    )


def _answer(said: status.Status, *actions: bind_pb2.Action) -> filter_pb2.PostFilterResponse:
    return filter_pb2.PostFilterResponse(status=wire_status.to_message(said), actions=actions)
