"""Queueing hints and trials of pod groups of a remote plugin: what it gets of pods, and what its answers mean."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.called_plugin import HASH, CalledPlugin
from trireme.framework import status
from trireme.remote import remote_connection, remote_placement_feasible, remote_queue
from trireme.v1 import core_pb2, plugin_pb2, pod_groups_pb2, queue_pb2, status_pb2

HINT, TRIAL = plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE, plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE


class Called(CalledPlugin):
    """Answers every RPC alike, and records the requests as they are sent."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer = answer
        self.sent: list[bytes] = []

    async def call(self, method: Any, request: bytes, read: Callable[[Any], Any]) -> Any:
        self.sent.append(request)
        try:
            return read(self.answer)
        except ValueError as error:
            raise remote_connection.PluginError(f"wrong: {error}") from error


@pytest.mark.parametrize("fields", [[], ["metadata.labels"]], ids=["all", "some"])
async def test_a_hint_is_about_what_the_plugin_reads_of_pods_and_their_profile(fields: list[str]) -> None:
    called = Called(queue_pb2.QueueingHintResponse(hints=[queue_pb2.HINT_QUEUE_SKIP, queue_pb2.HINT_QUEUE]))
    pod = core_pb2.Pod()
    pod.metadata.name, pod.metadata.labels["app"], pod.spec.scheduler_name = "p", "web", "profile"
    plugin = remote_queue.RemoteQueuePlugin(called.client(HINT, pod_fields=fields))
    assert await plugin.queueing_hint(plugin_pb2.ClusterEvent(), b"{}", b"{}", [pod, pod]) == [False, True]
    request = queue_pb2.QueueingHintRequest.FromString(called.sent[0])
    assert (request.plugin, request.config_hash) == ("Quota", HASH)
    for each in request.pods:
        assert (dict(each.metadata.labels), each.spec.scheduler_name) == ({"app": "web"}, "profile")
        assert each.metadata.name == ("" if fields else "p")
    assert pod.metadata.name == "p"
    assert await plugin.queueing_hint(plugin_pb2.ClusterEvent(), b"", b"", [pod]) is None, "an answer for each pod"


@pytest.mark.parametrize(
    ("code", "texts", "expected"),
    [
        (status_pb2.CODE_ERROR, ["broken"], status.Code.ERROR),
        (status_pb2.CODE_ERROR, [], status.Code.ERROR),
        (status_pb2.CODE_UNSCHEDULABLE, ["no"], status.Code.UNSCHEDULABLE),
        (status_pb2.CODE_UNSCHEDULABLE, [], status.Code.ERROR),
        (status_pb2.CODE_SUCCESS, [], status.Code.SUCCESS),
    ],
)
async def test_a_trial_that_is_refused_says_why(
    code: status_pb2.Code.ValueType, texts: list[str], expected: status.Code
) -> None:
    answer = pod_groups_pb2.PlacementFeasibleResponse(statuses=[status_pb2.Status(code=code, messages=texts)])
    plugin = remote_placement_feasible.RemotePlacementFeasiblePlugin(Called(answer).client(TRIAL))
    trial, step = pod_groups_pb2.PlacementFeasibleRequest(), pod_groups_pb2.PlacementStep()
    (found,) = await plugin.placement_feasible(trial, [], [step])
    assert found.code is expected
    needs_text = not texts and code != status_pb2.CODE_SUCCESS
    assert found.message.endswith("needs one" if needs_text else "".join(texts))
