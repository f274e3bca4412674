"""Ports of remote plugins: at PreEnqueue and QueueSort, with queueing hints, and at PlacementFeasible."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trireme.config import scheduler_configuration
from trireme.queueing import queued_pod, remote_calls
from trireme.queueing.hints import queueing_hint_map

if TYPE_CHECKING:
    from trireme.scheduling.groups import placement_feasibility


@dataclass(frozen=True, slots=True)
class QueueReports:
    """The queue's methods of these names, which take the answers of remote plugins; `queued_pods`: all of its pods."""

    queued_pods: Callable[[], Iterable[queued_pod.QueuedPodInfo]]
    sort_anew: Callable[[str, str], None]
    pre_enqueue_answered: Callable[[int, str, str], None]
    repeat_pre_enqueue: Callable[[int], bool]
    hint_answered: Callable[[int, Sequence[queueing_hint_map.HintAnswer] | None], None]


class QueueCaller(Protocol):
    """Calls remote plugins for the queue, in the background, and has those that cycles of pod groups call.

    Implementers: trireme.scheduling.in_memory.QueueCaller, trireme.frontend.queue_plugin_calls.QueuePluginCaller.
    """

    def has_to_be_called(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether a remote plugin has a PreEnqueue for the pod, or has to give it a sort key."""
        ...

    def placement_feasible_plugins(self, profile: str) -> "Mapping[str, placement_feasibility.RemotePlacementFeasible]":
        """The remote plugins of a profile at PlacementFeasible, by name; cycles of pod groups call them."""
        ...

    def execute(self, instructions: remote_calls.Instructions) -> None:
        """Make these calls; returns at once."""
        ...


QueueCallerT = TypeVar("QueueCallerT", bound=QueueCaller)


@dataclass(frozen=True, slots=True)
class QueuePlugins(Generic[QueueCallerT]):
    """The remote plugins that take part in queueing."""

    #: Makes what calls them; it reports their answers there.
    make_caller: Callable[[QueueReports], QueueCallerT]
    #: The events that those of a profile register for.
    registrations: Callable[[scheduler_configuration.CompletedProfile], Sequence[queueing_hint_map.EventRegistration]]
    #: The one that a profile's pods cannot be scheduled without, and that does not take part; empty: none.
    missing: Callable[[str], str]
