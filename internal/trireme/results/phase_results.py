"""What filter, score and PostFilter answer about pods of one class."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trireme.framework import status
from trireme.results import class_answer
from trireme.v1 import bind_pb2, filter_pb2, filter_phase_pb2
from trireme.wire import status as wire_status


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """Where pods of a class may run.

    `refusal` is PreFilter's, which then holds for all nodes; `columns` what is new of the answer.
    """

    answer: class_answer.ClassAnswer
    columns: filter_pb2.NodeColumns
    refusal: status.Status | None
    constraints: tuple[filter_phase_pb2.DomainConstraint, ...]
    max_batch: int
    needs_reserve: bool
    needs_pre_bind: bool
    evaluated: tuple[str, ...]
    timings: Sequence[filter_phase_pb2.Timing] = ()
    # It holds for one pod, not for all of the class.
    of_one: bool = False
    # The plugins that left only some nodes to be filtered at all.
    narrowed_by: frozenset[str] = frozenset()
    # PostFilter's results for the first pods, where they came with this one.
    post_filter: "Sequence[PostFilterResult]" = ()
    # How many of the nominated pods, the first of them, may have the nodes that they are nominated for.
    admitted: int = 0

    @classmethod
    def of_nominated(
        cls,
        slots: Sequence[int],
        generation: int,
        *,
        needs_reserve: bool,
        needs_pre_bind: bool,
        evaluated: Sequence[str],
        timings: Sequence[filter_phase_pb2.Timing],
    ) -> "FilterResult":
        """The result for pods that may have the nodes at these slots, which they are nominated for, in order."""
        return cls(
            answer=class_answer.ClassAnswer.of_nominated(slots, generation),
            columns=filter_pb2.NodeColumns(),
            refusal=None,
            constraints=(),
            max_batch=0,
            needs_reserve=needs_reserve,
            needs_pre_bind=needs_pre_bind,
            evaluated=tuple(evaluated),
            timings=timings,
            of_one=True,
            admitted=len(slots),
        )

    def is_refused_everywhere(self, nominated: int) -> bool:
        """Whether the pod can be placed nowhere: no node passes, or a plugin failed for one of them.

        The node that it is nominated for, at the slot, is tried before the others, and hides their failures.
        """
        if self.refusal is not None or not self.answer.has_feasible_node:
            return True
        return self.answer.error is not None and not self.answer.admits(nominated)


@dataclass(frozen=True, slots=True)
class PlaceResult:
    """The slots of the next pods, in order. `failure`: a plugin failed. `more`: ask again once these are assumed."""

    slots: tuple[int, ...]
    failure: status.Status | None
    more: bool
    timings: Sequence[filter_phase_pb2.Timing] = ()
    evaluated: Sequence[str] = ()

    def for_pods(self, start: int, end: int) -> "PlaceResult":
        """The result for some of the pods, by their positions. Every field with one value for each pod is cut here."""
        return replace(self, slots=self.slots[start:end])


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """How room can be made for a pod. `nominated_node` None: leave the nomination as it is; empty: clear it."""

    message: str
    actions: Sequence[bind_pb2.Action]
    nominated_node: str | None
    code: status.Code = status.Code.UNSCHEDULABLE
    # What it costs, where the actions make room.
    disruption: filter_pb2.Disruption | None = None
    # The slot that the result for the pod before nominates, where there is one, and why it refuses the class since.
    changed: tuple[int, status.Status] | None = None
    # How long PostFilter took.
    seconds: float = 0.0

    @staticmethod
    def from_message(
        response: filter_pb2.PostFilterResponse, changed: tuple[int, status.Status] | None = None, seconds: float = 0.0
    ) -> "PostFilterResult":
        """What PostFilter answered on the wire for one pod."""
        nominated = response.nominated_node or ("" if response.clear_nomination else None)
        code = wire_status.from_message(response.status).code
        disruption = response.disruption if response.HasField("disruption") else None
        text = ", ".join(response.status.messages)
        return PostFilterResult(text, tuple(response.actions), nominated, code, disruption, changed, seconds)

    @staticmethod
    def from_messages(results: Iterable[filter_phase_pb2.PostFilterResult]) -> "list[PostFilterResult]":
        """What PostFilter answered on the wire for pods in order."""
        out = []
        for result in results:
            changed = None
            if result.HasField("changed_slot"):
                changed = result.changed_slot, wire_status.from_message(result.changed_status)
            out.append(PostFilterResult.from_message(result.answer, changed, result.duration_us / 1_000_000))
        return out
