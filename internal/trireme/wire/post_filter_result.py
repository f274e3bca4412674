"""PostFilterResult: what PostFilter answers for one pod, decoded from its message.

Also change: protos/trireme/v1/filter.proto (the messages).

Tests: tests/unit/scheduling/test_preemptors_together.py, tests/unit/wire/test_phase_answers.py,
tests/unit/plugins/default_preemption/test_post_filter_statuses.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trireme.framework import status
from trireme.v1 import bind_pb2, filter_pb2, filter_phase_pb2
from trireme.wire import status as wire_status


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
    # The statuses of the plugins that make no room, as far as they say something.
    refusals: tuple[status.Status, ...] = ()

    @staticmethod
    def from_message(
        response: filter_pb2.PostFilterResponse, changed: tuple[int, status.Status] | None = None, seconds: float = 0.0
    ) -> "PostFilterResult":
        """What PostFilter answered on the wire for one pod."""
        nominated = response.nominated_node or ("" if response.clear_nomination else None)
        answer = wire_status.from_message(response.status)
        disruption = response.disruption if response.HasField("disruption") else None
        actions = tuple(response.actions)
        others = tuple(wire_status.from_message(each) for each in response.refusals)
        refusals = (answer, *others) if answer.messages else others
        text = ", ".join(filter(None, (", ".join(response.status.messages), *(each.message for each in others))))
        return PostFilterResult(text, actions, nominated, answer.code, disruption, changed, seconds, refusals)

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
