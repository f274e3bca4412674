"""Speculative placement: places for pods that do not exist yet.

After a pod that came alone, when there is nothing else to do, Filter and Place are called for more pods of its class.
Their answers hold as long as nothing changes except by placing pods according to them. A pod of the class that arrives
until then is assumed without another call, and replicas receive such placements with the next call.
"""

import dataclasses
import logging
from collections.abc import Callable

from trireme.cache import cluster_cache
from trireme.queueing import scheduling_queue
from trireme.scheduling import batch_limit, ports
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class SpeculativePlacement:
    """The nodes where the next pods of a class would go, in order; good while the cache's `revision` is the same."""

    class_key: ports.ClassKey
    revision: int  # the cache's, as long as the answers hold
    filtered: FilterAnswer
    placed: PlaceAnswer
    used: int = 0  # pods placed so far

    @property
    def left(self) -> int:
        """How many more pods it has places for."""
        return len(self.placed.slots) - self.used

    def take_places(self, pods: int) -> PlaceAnswer:
        """The places of the next pods; the caller assumes each of them."""
        start, self.used = self.used, self.used + pods
        self.revision += pods
        return self.placed.for_pods(start, self.used)


class Speculation:
    """The latest speculative placement. There is one at a time."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        limit: batch_limit.BatchLimit,
        publish: Callable[[], int],
    ) -> None:
        self._cache = cache
        self._evaluators = evaluators
        self._limit = limit
        self._publish = publish
        self._latest: SpeculativePlacement | None = None

    def placement(self, class_key: ports.ClassKey, pods: int) -> SpeculativePlacement | None:
        """The speculative placement if it has places for so many pods of the class and still holds."""
        latest = self._latest
        if latest is None or latest.class_key != class_key or latest.left < pods:
            return None
        return latest if latest.revision == self._cache.revision else None

    def forget(self) -> None:
        """Forget the placement, whatever it was."""
        self._latest = None

    def drop_unless_current(self, used: SpeculativePlacement) -> None:
        """Forget the placement unless all pods that took a place of it could be assumed."""
        if used.revision != self._cache.revision:
            self._latest = None

    async def speculate(self, batch: scheduling_queue.PodBatch) -> None:
        """Find places for more pods like those of the batch, once all of it is placed, though there may never be any.

        Nothing is found, and the placement before is dropped, if a pod of the batch has no node, the class needs
        Reserve, it fits nowhere, or a phase does not answer.
        """
        if any(self._cache.pod(pod.uid) is None or pod.record.pod.has_deferred_resize for pod in batch.pods):
            return
        profile, class_id = class_key = batch.profile, batch.class_id
        before, self._latest = self._latest, None
        pods = self._limit.for_speculation(0 if before is None or before.class_key != class_key else before.used)
        generation, revision = self._publish(), self._cache.revision
        try:
            filtered = await self._evaluators.filter(profile, class_id, pods, generation)
            if filtered.is_refused_everywhere(self._cache.slot_of("")) or filtered.needs_reserve:
                return
            count = self._limit.for_place(filtered, pods)
            placed = await self._evaluators.place(profile, class_id, count, filtered, ())
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            log.debug("no speculative placement of class %d: %s", class_id, error)
            return
        if placed.slots:
            self._latest = SpeculativePlacement(class_key, revision, filtered, placed)
