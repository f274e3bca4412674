"""The statuses of PostFilter: why DefaultPreemption makes no room, and what several plugins answer together."""

from typing import Any

import pytest

from tests.helpers.preemption_cluster import PREEMPTOR, Preemption, pod_of_priority
from trireme.evaluation.preemption import post_filter_plugins
from trireme.framework import status
from trireme.snapshot import pods
from trireme.v1 import filter_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme.wire.post_filter_result import PostFilterResult


def _text(answer: filter_pb2.PostFilterResponse) -> str:
    return ", ".join(answer.status.messages)


async def test_the_status_says_why_a_pod_may_not_preempt() -> None:
    """`preemptionPolicy` Never, and victims of an earlier preemption that are still going, or about to, end it."""
    case = Preemption(1)
    case.add(1, "3", "n0", flags=pods.TERMINATING | pods.PREEMPTED)
    answer = await case.ask(nominated="n0")
    assert _text(answer) == "preemption: not eligible due to a terminating pod on the nominated node."
    assert not answer.clear_nomination
    answer = await case.again()
    assert answer.nominated_node == "n0"
    assert not answer.actions, "the victim is going already"
    case.builder.snap.pods.flags[:1] = pods.PREEMPTED
    answer = await case.again(nominated="n0")
    assert _text(answer) == "preemption: not eligible due to a terminating pod on the nominated node."
    case.builder.add_class(PREEMPTOR + 1, pod_of_priority(100, "2", preemptionPolicy="Never"))
    assert _text(await case.again(number=PREEMPTOR + 1)) == "preemption: not eligible due to preemptionPolicy=Never."


class _Answering:
    """A PostFilter plugin that answers the same about each pod."""

    remote = False

    def __init__(self, name: str, text: str, code: str) -> None:
        self.name = name
        answer = status.unschedulable(name, *filter(None, [text]), reasons=(status.Reason(code),))
        self.answer = filter_pb2.PostFilterResponse(status=wire_status.to_message(answer))

    async def post_filter(self, *_: object) -> filter_pb2.PostFilterResponse:
        return self.answer


async def test_each_plugin_that_says_something_has_a_status_of_its_own() -> None:
    """Reasons beside another plugin's name would be looked up in vain."""
    nowhere: Any = None
    plugins = _Answering("Silent", "", "nothing"), _Answering("A", "a", "one"), _Answering("B", "b", "two")
    found = await post_filter_plugins.run_in_order(plugins, nowhere, nowhere)
    assert isinstance(found, filter_pb2.PostFilterResponse)
    assert (found.status.plugin, list(found.status.messages)) == ("Silent", [])
    read = PostFilterResult.from_message(found)
    assert read.message == "a, b"
    assert [(each.plugin, each.reasons[0].code) for each in read.refusals] == [("A", "one"), ("B", "two")]
    silent = await post_filter_plugins.run_in_order(plugins[:1], nowhere, nowhere)
    assert isinstance(silent, filter_pb2.PostFilterResponse)
    assert (silent.status.plugin, list(silent.refusals)) == ("Silent", [])


@pytest.mark.parametrize("first", [status_pb2.CODE_UNSCHEDULABLE, status_pb2.CODE_PENDING], ids=status_pb2.Code.Name)
async def test_each_refusal_is_in_the_answer_once(first: status_pb2.Code.ValueType) -> None:
    """Twice, the answers of a few plugins with long texts would be too large for a message."""
    nowhere: Any = None
    plugins = _Answering("A", "a", "one"), _Answering("B", "b", "two")
    plugins[0].answer.status.code = first
    found = await post_filter_plugins.run_in_order(plugins, nowhere, nowhere)
    assert isinstance(found, filter_pb2.PostFilterResponse)
    assert (found.status.plugin, found.status.code) == ("A", status_pb2.CODE_UNSCHEDULABLE)
    assert sorted([*found.status.messages, *(text for each in found.refusals for text in each.messages)]) == ["a", "b"]
    read = PostFilterResult.from_message(found)
    assert (read.message, read.code) == ("a, b", status.Code.UNSCHEDULABLE)
    assert read.refusals == (
        status.Status(status.Code(first), "A", ("a",), (status.Reason("one"),)),
        status.unschedulable("B", "b", reasons=(status.Reason("two"),)),
    )


async def test_why_nothing_helps_is_counted_by_nodes() -> None:
    """Nodes without victims, with too little in any case, and still refusing are told apart."""
    case = Preemption(3)
    case.add(100, "3", "n0")
    case.builder.set_node("n1", allocatable={"cpu": "1", "pods": "10"})
    case.add(100, "3", "n2")
    case.add(1, "1", "n2")
    answer = await case.ask()
    assert answer.clear_nomination
    assert answer.status.code == status_pb2.CODE_UNSCHEDULABLE
    assert _text(answer) == (
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )
