"""What all cycles work with, of batches and of groups, of scheduling and of binding; made once, in `assembly`."""

import dataclasses
from collections.abc import Callable

from trireme.cache import cluster_cache
from trireme.extenders import extenders
from trireme.queueing import remote_calls, scheduling_queue
from trireme.scheduling import outcomes, ports, reservations


@dataclasses.dataclass(frozen=True, slots=True)
class CycleParts:
    """`publish` sends the replicas what has changed and answers the generation that they will be at; `carry_out` gets
    what the queue wants done; `now` answers the time by the steady clock.
    """

    cache: cluster_cache.ClusterCache
    queue: scheduling_queue.SchedulingQueue
    evaluators: ports.Evaluators
    results: outcomes.Outcomes
    reserved: reservations.Reservations
    observer: ports.Observer
    extension: extenders.Extenders | None  # the HTTP extenders, where there are any
    publish: Callable[[], int]
    carry_out: Callable[[remote_calls.Instructions], None]
    now: Callable[[], float]
