"""A remote plugin at PostFilter: what of its answer reaches the frontend."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.called_plugin import CalledPlugin
from tests.helpers.snapshot_views import pod_of
from trireme.evaluation.preemption import post_filter_plugins
from trireme.framework import status
from trireme.remote import answer_recording, remote_connection
from trireme.remote.remote_post_filter import RemotePostFilterPlugin
from trireme.scheduling.refusal import Refusal
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, plugin_pb2, remote_answer_pb2, status_pb2
from trireme.wire import node_columns
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


@pytest.mark.parametrize("refused", [False, True], ids=["nodes", "PreFilter"])
async def test_the_plugin_gets_the_pods_names_whatever_it_reads_of_pods(refused: bool) -> None:
    """Evictions name the pod that room is made for."""
    called = CalledPlugin(PostFilter=_refusal("no", 1))
    pod = core_pb2.Pod()
    pod.metadata.namespace, pod.metadata.name, pod.metadata.uid = "ns", "p", "uid-p"
    pre_filter = status.unschedulable("Affinity", "no such node") if refused else None
    pod.status.nominated_node_name = "n1"
    cycle = cycle_pb2.Cycle(profile="p", pod_class=1, generation=4, state=b"another's", pod=pod)
    context: Any = SimpleNamespace(cycle=cycle, pre_filter=pre_filter)
    snap: Any = SimpleNamespace(classes={1: SimpleNamespace(pod=pod_of(labels={"app": "web"}))})
    columns = node_columns.NodeColumns(generation=4)
    client = called.client(
        plugin_pb2.EXTENSION_POINT_POST_FILTER, pod_fields=["metadata.labels", "status.nominatedNodeName"]
    )
    plugin = RemotePostFilterPlugin(client)
    found = await plugin.post_filter(context, snap, None if refused else columns)
    assert found is not None
    assert list(found.status.messages) == ["no"]
    (request,) = called.requests_of("PostFilter")
    assert request.cycle.pod.status.nominated_node_name == "n1"
    metadata = request.cycle.pod.metadata
    assert (metadata.namespace, metadata.name, metadata.uid) == ("ns", "p", "uid-p")
    assert dict(metadata.labels) == {"app": "web"}
    assert (request.cycle.profile, request.cycle.generation, request.cycle.state) == ("p", 4, b"")
    assert request.columns.generation == (0 if refused else 4)
    assert list(request.pre_filter.messages) == (["no such node"] if refused else [])


_ERROR = filter_pb2.PostFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"]))
_ACTING = _refusal("no", 1)
_ACTING.actions.add()


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (remote_connection.PluginError("away"), "away"),
        (_ERROR, "broken"),
        (_ACTING, "wrong: actions: are carried out with a status of success only"),
    ],
)
async def test_a_plugin_that_fails_is_an_error_or_has_no_answer(answer: Any, text: str, ignore: bool) -> None:
    called = CalledPlugin(PostFilter=answer)
    context: Any = SimpleNamespace(cycle=cycle_pb2.Cycle(pod_class=1), pre_filter=None)
    snap: Any = SimpleNamespace(classes={1: SimpleNamespace(pod=core_pb2.Pod())})
    client = called.client(plugin_pb2.EXTENSION_POINT_POST_FILTER, ignore=ignore)
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        found = await RemotePostFilterPlugin(client).post_filter(context, snap, None)
    if ignore:
        assert found is None
    else:
        assert found is not None
        assert found.status.code == status_pb2.CODE_ERROR
        assert list(found.status.messages) == [f'running PostFilter plugin "Quota": {text}']
    (recorded,) = remote_answer_pb2.RemoteAnswers.FromString(collected.content()).answers
    assert recorded.post_filter.HasField("response") is not ignore
