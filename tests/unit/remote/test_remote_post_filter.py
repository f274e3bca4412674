"""A remote plugin at PostFilter: what of its answer reaches the frontend."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from trireme.evaluation.preemption import post_filter_plugins
from trireme.framework import status
from trireme.remote.remote_post_filter import RemotePostFilterPlugin
from trireme.scheduling.refusal import Refusal
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, status_pb2
from trireme.wire.post_filter_result import PostFilterResult


def _plugin(name: str, answer: filter_pb2.PostFilterResponse) -> RemotePostFilterPlugin:
    async def call(
        method: object, request: bytes, read: Callable[[filter_pb2.PostFilterResponse], filter_pb2.PostFilterResponse]
    ) -> filter_pb2.PostFilterResponse:
        return read(answer)

    client: Any = SimpleNamespace(
        name=name, connection=SimpleNamespace(call=call), project_cycle=lambda cycle, pod: cycle_pb2.Cycle(pod=pod)
    )
    return RemotePostFilterPlugin(client)


async def _run(*plugins: RemotePostFilterPlugin) -> filter_pb2.PostFilterResponse:
    context: Any = SimpleNamespace(cycle=cycle_pb2.Cycle(pod_class=1), pre_filter=None)
    snap: Any = SimpleNamespace(classes={1: SimpleNamespace(pod=core_pb2.Pod())})
    out = await post_filter_plugins.run_in_order(plugins, context, snap)
    assert isinstance(out, filter_pb2.PostFilterResponse)
    return out


def _refusal(text: str, reasons: int) -> filter_pb2.PostFilterResponse:
    refused = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=[text])
    for number in range(reasons):
        refused.reasons.add(code="quotaFull", parameters={"queue": f"q{number}"})
    return filter_pb2.PostFilterResponse(status=refused)


async def test_long_answers_of_several_plugins_are_small_and_little_is_kept() -> None:
    """Each waiting pod keeps why PostFilter makes no room for it."""
    names = "A", "B", "C"
    found = await _run(*(_plugin(name, _refusal(name * (1 << 20), 20_000)) for name in names))
    assert found.ByteSize() < 10_000
    refused = status.unschedulable("Fit", "Insufficient cpu")
    result = PostFilterResult.from_message(found)
    failure = Refusal(3, [(refused, 3)], None, frozenset()).as_failure(result.message, None, result.refusals)
    kept = failure.to_keep().statuses
    assert [(each.plugin, len(each.message), len(each.reasons)) for each, _ in kept[1:]] == [
        (name, 1024, 16) for name in names
    ]


async def test_a_plugin_speaks_for_itself_alone() -> None:
    """Reasons beside another plugin's name would be looked up in vain."""
    for code in (status_pb2.CODE_UNSCHEDULABLE, status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE):
        answer = _refusal("no", 1)
        answer.status.code = code
        answer.refusals.add(plugin="B", messages=["not by B"])
        found = await _run(_plugin("A", answer))
        assert (found.status.plugin, list(found.refusals)) == ("A", [])
