"""What must hold of the writes to pods that clients of the API server make beside bindings.

Only leaders have such writes made, by bind: a pod is deleted only as a victim that a leader has chosen, and its
conditions and nomination are only what a leader wants. Once a leader has bound a pod, none before it has anything
written. The load, controllers and kubelets write to the store itself, and are left out.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

import simulated_process
from pod_demands import is_terminating

from trireme.bind import service as bind_service
from trireme_kube.embedded.api.resources import PODS, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, MODIFIED, Event

_API_SERVER = "apiserver"
_DELETION, _STATUS = "deletion", "status"
# What is written for an action, by its kind; other actions are about other objects.
_WRITES = {
    "evict": (_DELETION, _STATUS),
    "set_condition": (_STATUS,),
    "nominate": (_STATUS,),
    "clear_nomination": (_STATUS,),
}


class LeaderWrites:
    """Follows the writes. `violations` are in the order in which they happened."""

    def __init__(self, epoch_in_force: Callable[[], int]) -> None:
        """`epoch_in_force` is the highest epoch of a leader that has bound a pod."""
        self._epoch_in_force = epoch_in_force
        self.violations: list[str] = []
        # The highest epoch of the leaders that have a pod deleted, or its status written, by UID and that.
        self._epochs: dict[str, dict[str, int]] = collections.defaultdict(dict)

    def on_actions(self, epoch: int, actions: Iterable[tuple[str, str]]) -> None:
        """A leader of that epoch calls bind with these actions: the pods' UIDs, and the kinds."""
        for uid, kind in actions:
            for write in _WRITES.get(kind, ()):
                known = self._epochs[uid]
                known[write] = max(known.get(write, 0), epoch)

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is not PODS:
            return
        writer = simulated_process.current()
        if writer is not None and writer.name == _API_SERVER:
            self._check(event)
        if event.type == DELETED:
            self._epochs.pop(event.record.uid, None)

    def _check(self, event: Event) -> None:
        if event.before is None:
            return
        before, after = event.before.object, event.record.object
        if not is_terminating(before) and (event.type == DELETED or is_terminating(after)):
            self._check_epoch(event, _DELETION, "deleted")
        elif event.type == MODIFIED and _has_node(before) == _has_node(after) and _said(before) != _said(after):
            self._check_epoch(event, _STATUS, "given another status")

    def _check_epoch(self, event: Event, write: str, what: str) -> None:
        epoch, name = self._epochs.get(event.record.uid, {}).get(write), event.record.name
        if epoch is None:
            self.violations.append(f"pod {name} was {what} without a leader's request")
        elif epoch < self._epoch_in_force():
            self.violations.append(
                f"pod {name} was {what} for epoch {epoch} after epoch {self._epoch_in_force()} had bound a pod"
            )


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _said(pod: Object) -> tuple[Any, Any]:
    """What leaders say of a pod in its status."""
    status = pod.get("status") or {}
    return status.get("conditions"), status.get("nominatedNodeName")


def observe_actions(observe: Callable[[int, list[tuple[str, str]]], None]) -> None:
    """Have `observe` called with the leader's epoch and the actions of every Apply call that a bind replica gets."""
    original = bind_service.BindPhase.Apply

    def apply(self: Any, request: Any, context: Any) -> Any:
        actions = [(each.pod.uid, each.WhichOneof("action") or "") for each in request.actions]
        observe(request.fence.epoch, actions)
        return original(self, request, context)

    bind_service.BindPhase.Apply = apply
