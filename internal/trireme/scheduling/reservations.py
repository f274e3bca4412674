"""Reserve and Unreserve of placed pods: what is assumed beside them, in the cache and so on all replicas.

A pod whose reservation fails is taken back at once, as if it had not been placed; whatever takes back a placed pod
later gives its reservation back too.
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


class Reservations:
    """Reserves in filter, assumes in the cache."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        changed: Callable[[Sequence[assumed_objects.Change]], None],
    ) -> None:
        """`changed` is told of objects that are assumed to be otherwise than before."""
        self._cache = cache
        self._changed = changed
        self._evaluators = evaluators
        self.background = supervision.Supervisor()

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement], group: str = ""
    ) -> list[bytes | status.Status]:
        """For each placement the state for PreBind, or why it is taken back. Pods of the group that is being tried may
        share the claims of those before them.
        """
        try:
            answers = await self._evaluators.reserve(cycle, placements)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            return [status.error("", f"running Reserve plugins: {error}") for _ in placements]
        return [self._assumed(placement, answer, group) for placement, answer in zip(placements, answers, strict=True)]

    def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Nothing is assumed beside these any more; plugins that keep something of their own are told, in time."""
        for placement in placements:
            self._changed(self._cache.forget_objects(placement.pod.uid))
        self.background.start(self._tell(cycle, placements))

    def close_to_group(self, uids: Collection[str]) -> None:
        """The trial of these pods' group is over: who comes later shares no claims with them until they have them."""
        self._cache.close_objects(uids)

    async def close(self) -> None:
        """Stop telling."""
        await self.background.close()

    def _assumed(
        self, placement: filter_pb2.Placement, answer: filter_pb2.Reservation, group: str
    ) -> bytes | status.Status:
        said = wire_status.from_message(answer.status)
        if said.code is not status.Code.SUCCESS:
            return said
        if group:
            for entry in answer.assumed:
                if entry.WhichOneof("object") == assumed_objects.DEVICE_CLAIM:
                    entry.open_to_group = group
        try:
            changes = self._cache.assume_objects(placement.pod.uid, answer.assumed)
        except assumed_objects.OutOfSyncError as error:
            return status.error("", f"running Reserve plugins: {error}")
        if answer.claim_statuses:
            self._cache.count_claims(placement.pod.uid, answer.claim_statuses)
        self._changed(changes)
        return answer.state

    async def _tell(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        try:
            await self._evaluators.unreserve(cycle, list(reversed(placements)))
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            log.info("unreserve: %s", error)
