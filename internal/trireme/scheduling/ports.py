"""Ports: what the scheduler needs of the world around it. Every decision is asked of `Evaluators`.

Scheduling knows these interfaces alone, so that the same algorithm runs against replicas behind gRPC
(`frontend/phase_clients`), or against anything else that answers.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Protocol

from trireme.cache import placed_pod
from trireme.results.phase_results import FilterResult, PlaceResult, PostFilterResult
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, score_pb2

# A profile's name and a class of pods.
ClassKey = tuple[str, int]

# Narrows preemption's candidates to those that it answers, perhaps with other victims.
Trim = Callable[[filter_pb2.PreemptionCandidates], Awaitable[filter_pb2.PreemptionCandidates]]


class PhaseFault(Exception):
    """A phase answered what it must not: the pods go back by error, the text says what was wrong."""


class PhaseUnavailable(Exception):
    """No replica of the phase could answer."""


class Evaluators(Protocol):
    """Filters, scores and reserves. A generation is one that the caller has published.

    Each call raises PhaseUnavailable where nobody can answer now, PhaseFault where the answer cannot be right.
    """

    @property
    def answers(self) -> Container[ClassKey]:
        """The classes about which filter has answered, as far as that is known: these need not be prepared."""
        ...

    def cycle(self, profile: str, class_id: int, generation: int, attempt: int = 0) -> cycle_pb2.Cycle:
        """The context of a call."""
        ...

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        nominated: int = placed_pod.NO_SLOT,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterResult:
        """Where the class may run; `nominee` is the pod that is asked about where it is nominated for a node, by name
        and UID. Where the node at the slot `nominated` is all that is needed if it passes, the answer may know of no
        other. `preemptors` are the first pods, where they most likely fit nowhere and are not nominated: PostFilter's
        results for them may come with the answer.
        """
        ...

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterResult:
        """How many of these pods, the first of them, may run where each is nominated: all at different slots. The
        answer knows of no other nodes.
        """
        ...

    async def post_filter(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterResult,
        trim: Trim | None = None,
    ) -> PostFilterResult:
        """How room can be made for a pod that fits nowhere; `pod` is its name, UID and nomination, `trim` narrows
        preemption's candidates.
        """
        ...

    async def pod_group_post_filter(
        self, request: filter_pb2.PodGroupPostFilterRequest
    ) -> filter_pb2.PodGroupPostFilterResponse:
        """How room can be made for a group."""
        ...

    async def score_placements(self, request: score_pb2.ScorePlacementsRequest) -> score_pb2.ScorePlacementsResponse:
        """How good each placement of a group is."""
        ...

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterResult, extra_scores: Sequence[int] = ()
    ) -> PlaceResult:
        """The hosts of the next pods; `extra_scores` are added to the plugins', by slot."""
        ...

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> Sequence[filter_pb2.Reservation]:
        """What is to be assumed beside each placement."""
        ...

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """The placements are void."""
        ...

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """Have the class evaluated ahead of its turn, so that the calls about it are answered sooner."""
        ...
