"""What the scheduler is assembled from: the ports through which it looks, calls, writes and measures."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic

from trireme.cache import cluster_cache, object_waits
from trireme.extenders import extenders
from trireme.scheduling import ports, queue_ports
from trireme.scheduling.queue_ports import QueueCallerT
from trireme.v1 import core_pb2


@dataclass(frozen=True, slots=True)
class EvaluationPorts:
    """What the cycles use of filter and score, wherever these run."""

    evaluators: ports.Evaluators
    #: Brings the snapshots of filter and score up to date; returns the generation that they will be at.
    publish: Callable[[], int]
    #: Returns the generation that has all that the cache has now, once somebody has published it; None: nobody waits
    #: for that, as no remote plugin runs PreBind.
    until_published: Callable[[], Awaitable[int]] | None
    #: Whether all phases can be called.
    available: Callable[[], bool]
    #: Takes down how long the steps of binding took.
    decisions: ports.BindingLog


@dataclass(frozen=True, slots=True)
class SchedulerPorts(Generic[QueueCallerT]):
    """All ports of the scheduler."""

    cache: cluster_cache.ClusterCache
    waits: object_waits.ObjectWaits
    evaluation: EvaluationPorts
    effects: ports.Effects
    queue_plugins: queue_ports.QueuePlugins[QueueCallerT]
    observer: ports.Observer
    clocks: ports.Clocks
    #: The HTTP extenders, where there are any.
    http_extenders: extenders.Extenders | None = None
    #: Returns the JSON of a node that extenders want, once.
    json_of: Callable[[core_pb2.Node], bytes] = lambda node: b""
    randomness: ports.Random = random.random
    #: Set when a batch may have become possible.
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
