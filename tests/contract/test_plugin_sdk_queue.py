"""Plugins written on the Python SDK at PreEnqueue, QueueSort and queueing hints, called by the frontend's clients."""

from typing import Any

import pytest

from tests.contract.sdk_hosts import POD, Stack
from trireme import sdk
from trireme.framework import status
from trireme.v1 import (
    core_pb2,
    plugin_pb2,
)


class Queue:
    """Gates and wakes pods."""

    info = sdk.Info(
        "Queue", events=(sdk.Event("Node", "Add"),), pod_fields=("metadata.name", "metadata.labels['gate']")
    )

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> sdk.Status | None:
        assert "other" not in pod.metadata.labels
        return sdk.unresolvable(f"closed in {profile}") if "gate" in pod.metadata.labels else None

    def queueing_hint(self, pod: core_pb2.Pod, event: plugin_pb2.ClusterEvent, old: Any, new: Any) -> bool:
        return old is None and new["metadata"]["name"] == pod.metadata.name


def named(name: str, **labels: str) -> core_pb2.Pod:
    """A pod."""
    return core_pb2.Pod(metadata={"name": name, "namespace": "shop", "labels": labels})


async def test_the_steps_around_the_queue(stack: Stack) -> None:
    """If this fails, a remote plugin cannot hold back or wake pods."""
    queue = (await stack.host(Queue())).queue
    pods = [named("a", other="y"), named("b", gate="x")]
    assert await queue.pre_enqueue("p", pods) == [status.SUCCESS, status.unresolvable("Queue", "closed in p")]
    event = plugin_pb2.ClusterEvent(resource="Node", actions=["Add"])
    assert await queue.queueing_hint(event, b"", b'{"metadata":{"name":"b"}}', pods) == [False, True]


async def test_pre_enqueue_knows_which_pod_it_is_about(stack: Stack) -> None:
    """If this fails, a plugin lists the pod's name in `pod_fields`, and each pod becomes its own class."""
    seen: list[core_pb2.Pod] = []

    class Asking:
        info = sdk.Info("Asking", pod_fields=("spec.priority",))

        def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> None:
            seen.append(pod)

    queue = (await stack.host(Asking())).queue
    metadata = {"name": "a", "namespace": "shop", "uid": "uid-a", "labels": {"app": "web"}}
    pod = core_pb2.Pod(metadata=metadata, spec={"priority": 7, "node_name": "n"})
    assert await queue.pre_enqueue("p", [pod]) == [status.SUCCESS]
    del metadata["labels"]
    assert seen == [core_pb2.Pod(metadata=metadata, spec={"priority": 7})]


async def test_a_hint_knows_the_profile_of_each_pod(stack: Stack) -> None:
    """If this fails, a plugin answers with another profile's arguments, and the pod that an event helps waits."""
    seen: list[core_pb2.Pod] = []

    class Asking:
        info = sdk.Info("Asking", events=(sdk.Event("Node", "Add"),), pod_fields=("spec.priority",))

        def filter(self, call: sdk.Call, node: sdk.Node) -> None:
            return None

        def queueing_hint(self, pod: core_pb2.Pod, event: plugin_pb2.ClusterEvent, old: Any, new: Any) -> bool:
            seen.append(pod)
            return True

    queue = (await stack.host(Asking())).queue
    pod = core_pb2.Pod(spec={"priority": 7, "scheduler_name": "batch", "node_name": "n"})
    assert await queue.queueing_hint(plugin_pb2.ClusterEvent(resource="Node", actions=["Add"]), b"", b"", [pod])
    assert seen == [core_pb2.Pod(spec={"priority": 7, "scheduler_name": "batch"})]
    assert pod.spec.node_name == "n"


async def test_the_queue_goes_on_without_a_plugin_that_fails(stack: Stack) -> None:
    """If this fails, pods vanish in a queue whose plugin is down."""

    class Failing:
        info = sdk.Info("Failing")

        def pre_enqueue(self, pod: core_pb2.Pod, profile: str) -> sdk.Status | None:
            raise OSError("down")

    queue = (await stack.host(Failing())).queue
    (answer,) = await queue.pre_enqueue("p", [POD])
    assert answer.code is status.Code.ERROR
    assert answer.message.startswith('running PreEnqueue plugin "Failing": ')
    assert await queue.queueing_hint(plugin_pb2.ClusterEvent(), b"", b"", [POD]) is None


async def test_a_plugin_orders_pods_by_what_it_reads_of_them(stack: Stack) -> None:
    """If this fails, a number, several, or a key in two parts order pods otherwise than the author meant."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("metadata.labels['rank']",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> int | tuple[int, ...] | sdk.SortKey:
            answers = {"one": 3, "two": (3, -1 << 63), "parts": sdk.SortKey((1, 2), pod.spec.priority)}
            return answers[pod.metadata.labels["rank"]]

    queue = (await stack.host(Sorting())).queue_sort
    pods = [
        core_pb2.Pod(metadata={"name": rank, "labels": {"rank": rank, "other": "x"}}, spec={"priority": 7})
        for rank in ("one", "two", "parts")
    ]
    assert await queue.sort_keys("p", pods) == [((3,), ()), ((3, -1 << 63), ()), ((1, 2), (7,))]


async def test_a_pod_whose_sort_key_fails_leaves_the_others_their_keys(stack: Stack) -> None:
    """If this fails, one odd pod keeps all those out of the queue that the plugin is called about with it."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("metadata.labels['rank']",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> int:
            return int(pod.metadata.labels["rank"])

    queue = (await stack.host(Sorting())).queue_sort
    pods = [core_pb2.Pod(metadata={"name": rank, "labels": {"rank": rank}}) for rank in ("3", "odd", "1")]
    first, odd, last = await queue.sort_keys("p", pods)
    assert (first, last) == (((3,), ()), ((1,), ()))
    text = "invalid literal for int() with base 10: 'odd'"
    assert odd == status.error(
        "Sorting",
        f"running QueueSort plugin: plugin Sorting: QueueSort: sort_key failed: ValueError: {text}",
        reasons=(status.Reason("pluginCallFailed"),),
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("high", id="text"),
        pytest.param(None, id="nothing"),
        pytest.param(1.5, id="fraction"),
        pytest.param(True, id="no number"),
        pytest.param(1 << 63, id="too large"),
        pytest.param((), id="none"),
        pytest.param(tuple(range(17)), id="too many"),
        pytest.param(sdk.SortKey(1, "x"), id="rest"),  # type: ignore[arg-type]
    ],
)
async def test_a_key_that_is_none_is_an_error_that_says_so(stack: Stack, answer: object) -> None:
    """If this fails, a mistake of the author orders pods by chance, or its error does not name the method."""

    class Sorting:
        info = sdk.Info("Sorting", pod_fields=("spec.priority",))

        def sort_key(self, pod: core_pb2.Pod, profile: str) -> object:
            return answer

    (failed,) = await (await stack.host(Sorting())).queue_sort.sort_keys("p", [POD])
    assert isinstance(failed, status.Status)
    assert failed.plugin == "Sorting"
    assert f"plugin Sorting: QueueSort: sort_key returned {answer!r}: must be a whole number" in failed.message
