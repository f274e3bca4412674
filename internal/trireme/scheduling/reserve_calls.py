"""Reserve and Unreserve of placed pods: what is assumed beside them, in the cache and so on all replicas.

If Reserve fails for a pod, the pod is unassumed at once, as if it had not been placed. Whatever unassumes a placed pod
later undoes its reservation too.

Tests: tests/unit/scheduling/test_reserve_calls.py, tests/unit/scheduling/test_pod_group_cycle.py.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from trireme.cache import assumed_objects, cluster_cache
from trireme.framework import status
from trireme.scheduling import ports
from trireme.v1 import cycle_pb2, filter_pb2
from trireme.wire import status as wire_status
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)


class ReserveCalls:
    """Calls Reserve in filter and assumes what it wants in the cache; undoes both when a pod is not bound."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        changed: Callable[[Sequence[assumed_objects.Change]], None],
    ) -> None:
        """`changed` receives the changes of assumed objects."""
        self._cache = cache
        self._changed = changed
        self._evaluators = evaluators
        self.background = supervision.Supervisor()

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], group: str = ""
    ) -> list[bytes | status.Status]:
        """Call Reserve for these placements; for each the state for PreBind, or a status that says why it failed.

        What a plugin wants assumed is in the cache on return; a phase that does not answer fails all of them. `group`:
        the pod group that is being tried; its members may share the claims of those before them.
        """
        try:
            response = await self._evaluators.reserve(cycle, placements)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            failed = status.error("", f"running Reserve plugins: {error}", reasons=(status.Reason("phaseFailed"),))
            return [failed for _ in placements]
        return [
            self._assume_objects(placement, answer, group)
            for placement, answer in zip(placements, response.reservations, strict=True)
        ]

    def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Drop the objects that are assumed with these placements. Plugins run Unreserve in the background."""
        for placement in placements:
            self._changed(self._cache.forget_objects(placement.pod.uid))
        self.background.start(self._run_unreserve(cycle, placements))

    def end_claim_sharing(self, uids: Collection[str]) -> None:
        """The trial of these pods' group is over: other pods share no claims with them until these are written."""
        self._cache.end_object_sharing(uids)

    async def close(self) -> None:
        """Cancel Unreserve calls that are under way."""
        await self.background.close()

    def _assume_objects(
        self, placement: filter_pb2.Placement, answer: filter_pb2.Reservation, group: str
    ) -> bytes | status.Status:
        """Assume the objects that Reserve wants for a pod (claims, volumes); returns the state for PreBind.

        A status instead: Reserve failed, or an object has changed since filter saw it; then nothing is assumed.
        """
        result = wire_status.from_message(answer.status)
        if result.code is not status.Code.SUCCESS:
            return result
        for entry in answer.assumed:
            if entry.WhichOneof("object") == assumed_objects.DEVICE_CLAIM:
                entry.open_to_group = group
        try:
            changes = self._cache.assume_objects(placement.pod.uid, answer.assumed)
        except assumed_objects.OutOfSyncError as error:
            reasons = (status.Reason("objectChanged"),)
            return status.error("", f"running Reserve plugins: {error}", reasons=reasons)
        if answer.claim_statuses:
            self._cache.count_claim_resources(placement.pod.uid, answer.claim_statuses)
        self._changed(changes)
        return answer.state

    async def _run_unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Call Unreserve for the placements, last ones first; a failure is logged alone."""
        try:
            await self._evaluators.unreserve(cycle, list(reversed(placements)))
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            log.info("unreserve: %s", error)
