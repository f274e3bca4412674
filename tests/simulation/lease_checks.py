"""What must hold of the Lease: nobody takes it from a holder that renews it in time.

So a leader that works as long as its Lease lasts, by its own clock, is the only one that works.
"""

from __future__ import annotations

from collections.abc import Callable

from trireme_kube.embedded.api.resources import LEASES, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, MODIFIED, Event

_LEASE = "kube-scheduler"
# The share of the Lease's duration that a candidate waits at least, by the simulation's time: its clock may be fast.
_SHARE = 0.98


class LeaseChecks:
    """Follows the writes of the leader's Lease. `violations` are in the order in which they happened."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.violations: list[str] = []
        self._renewed_at = 0.0

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        if resource is not LEASES or event.record.name != _LEASE or event.type == DELETED:
            return
        if event.type == MODIFIED and event.before is not None:
            self._check_holder(event.before.object["spec"], event.record.object["spec"])
        self._renewed_at = self._now()

    def _check_holder(self, before: Object, after: Object) -> None:
        holder, successor = before.get("holderIdentity") or "", after.get("holderIdentity") or ""
        age, duration = self._now() - self._renewed_at, before.get("leaseDurationSeconds") or 0
        if holder and successor not in ("", holder) and age < duration * _SHARE:
            self.violations.append(f"{successor} takes the Lease of {holder}: it was renewed {age:.1f} s ago")
