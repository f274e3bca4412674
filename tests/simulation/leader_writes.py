"""What must hold of the writes to pods and device claims that clients of the API server make beside bindings.

Only leaders have such writes made, by bind: a pod is deleted only as a victim that a leader has chosen, its conditions
and nomination are only what a leader wants, and a claim is reserved only for a pod that a leader binds. Once a leader
has bound a pod, none before it has anything written. The load, controllers and kubelets write to the store itself, and
are left out.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.pod_demands import is_terminating
from tests.simulation.simulated_workloads import DEVICE_CLAIMS
from trireme.bind import service as bind_service
from trireme_kube.embedded.api.resources import PODS, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, MODIFIED, Event

_API_SERVER = "apiserver"
_DELETION, _STATUS, _RESERVATION = "deletion", "status", "reservation"
# The kind of what PreBind does, as if it were an action.
PRE_BIND = "pre_bind"
# What is written for an action, by its kind; other actions are about other objects.
_WRITES = {
    "evict": (_DELETION, _STATUS),
    "set_condition": (_STATUS,),
    "nominate": (_STATUS,),
    "clear_nomination": (_STATUS,),
    PRE_BIND: (_RESERVATION,),
}


# So many pods are remembered, for their claims are written after they were deleted, too.
_PODS = 20_000


class LeaderWrites:
    """Follows the writes. `violations` are in the order in which they happened."""

    def __init__(self, epoch_in_force: Callable[[], int]) -> None:
        """`epoch_in_force` is the highest epoch of a leader that has bound a pod."""
        self._epoch_in_force = epoch_in_force
        self.violations: list[str] = []
        # The highest epoch of the leaders that have something written for a pod, by UID and by what that is.
        self._epochs: dict[str, dict[str, int]] = collections.defaultdict(dict)

    def on_actions(self, epoch: int, actions: Iterable[tuple[str, str]]) -> None:
        """A leader of that epoch calls bind with these actions: the pods' UIDs, and the kinds."""
        for uid, kind in actions:
            for write in _WRITES.get(kind, ()):
                known = self._epochs[uid]
                known[write] = max(known.get(write, 0), epoch)
        while len(self._epochs) > _PODS:
            del self._epochs[next(iter(self._epochs))]

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        check = {PODS: self._check_pod, DEVICE_CLAIMS: self._check_claim}.get(resource)
        writer = simulated_process.current()
        if check is not None and writer is not None and writer.name == _API_SERVER and event.before is not None:
            check(event, event.before.object)

    def _check_pod(self, event: Event, before: Object) -> None:
        uid, name, after = event.record.uid, f"pod {event.record.name}", event.record.object
        if not is_terminating(before) and (event.type == DELETED or is_terminating(after)):
            self._check_epoch(uid, _DELETION, f"{name} was deleted")
        elif event.type == MODIFIED and _has_node(before) == _has_node(after) and _said(before) != _said(after):
            self._check_epoch(uid, _STATUS, f"{name} was given another status")

    def _check_claim(self, event: Event, before: Object) -> None:
        for user in sorted(_users(event.record.object) - _users(before)) if event.type == MODIFIED else ():
            self._check_epoch(user, _RESERVATION, f"claim {event.record.name} was reserved")

    def _check_epoch(self, uid: str, write: str, what: str) -> None:
        epoch = self._epochs.get(uid, {}).get(write)
        if epoch is None:
            self.violations.append(f"{what} without a leader's request")
        elif epoch < self._epoch_in_force():
            self.violations.append(f"{what} for epoch {epoch} after epoch {self._epoch_in_force()} had bound a pod")


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _said(pod: Object) -> tuple[Any, Any]:
    """What leaders write into a pod's status."""
    status = pod.get("status") or {}
    return status.get("conditions"), status.get("nominatedNodeName")


def _users(claim: Object) -> set[str]:
    """The UIDs of those that a claim is reserved for."""
    return {each["uid"] for each in (claim.get("status") or {}).get("reservedFor") or ()}


def observe_actions(observe: Callable[[int, list[tuple[str, str]]], None]) -> None:
    """Have `observe` called with the leader's epoch and what it wants of every Apply or PreBind call to a replica."""
    owner: Any = bind_service.BindPhase
    original_apply, original_pre_bind = owner.Apply, owner.PreBind

    def apply(self: Any, request: Any, context: Any) -> Any:
        actions = [(each.pod.uid, each.WhichOneof("action") or "") for each in request.actions]
        observe(request.fence.epoch, actions)
        return original_apply(self, request, context)

    def pre_bind(self: Any, request: Any, context: Any) -> Any:
        for part in request.requests:
            observe(part.cycle.fence.epoch, [(item.pod.uid, PRE_BIND) for item in part.items])
        return original_pre_bind(self, request, context)

    owner.Apply, owner.PreBind = apply, pre_bind
