"""A remote plugin at PlacementFeasible: cycles of groups that call it over gRPC, and what its failures do."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract.plugin_servers import (
    PLACEMENT_FEASIBLE,
    SUCCESS,
    Answer,
    ScriptedPlugin,
    on_the_sdk,
    remote,
    scripted,
)
from tests.contract.sdk_hosts import Hosts, Stack
from tests.helpers.pod_group_builders import T0, of_groups, pod_group
from tests.helpers.pod_group_cluster import Cluster
from trireme import sdk
from trireme.frontend import placement_plugin_calls, queue_plugin_calls
from trireme.plugin_api import contract_features
from trireme.remote import remote_client, remote_placement_feasible
from trireme.v1 import plugin_pb2, plugin_pb2_grpc, pod_groups_pb2, snapshot_pb2, status_pb2

POINT = plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE
REFUSED = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["no licence"])
WAITS = status_pb2.Status(code=status_pb2.CODE_WAIT, messages=["one more"])


def deciding(client: remote_client.PluginClient, rooms: Sequence[int], **fields: Any) -> Cluster:
    """A cluster whose groups the plugin decides about."""
    made: list[Cluster] = []

    def node_at(slot: int, generation: int) -> str | None:
        return made[0].cache.node_at(slot, generation)

    plugin = remote_placement_feasible.RemotePlacementFeasiblePlugin(client)
    caller = placement_plugin_calls.PlacementFeasibleCaller(
        plugin,
        node_at,
        lambda pod: queue_plugin_calls.pod_for_plugins(made[0].cache, pod),
    )
    made.append(Cluster(rooms, remote_feasible={plugin.name: caller}, **fields))
    return made[0]


def racks(client: remote_client.PluginClient) -> Cluster:
    """Two racks with a node each, where a gang of two has room, and the plugin decides."""
    cluster = deciding(client, [2, 2], racks=["a", "b"], topology=True, composite=True)
    cluster.totals = [90, 10]
    group = pod_group("g", 2)
    group.spec.scheduling_constraints.topology.add(key="rack")
    cluster.group(group)
    for name in ("p0", "p1"):
        cluster.add(name, "g", kind="worker")
    return cluster


class Licences:
    """Allows groups the rack b alone, and looks at each pod that was tried."""

    info = sdk.Info("Licences", pod_fields=("spec.nodeSelector",), events=(sdk.Event("Node", "Add"),))

    def __init__(self) -> None:
        self.trials: list[sdk.PlacementTrial] = []

    def placement_feasible(self, call: sdk.Call, trial: sdk.PlacementTrial) -> sdk.Status | None:
        assert call.profile == "default-scheduler"
        self.trials.append(trial)
        if trial.placement == "a":
            return sdk.unschedulable("no licence in this rack")
        missing = trial.min_count - trial.scheduled
        return sdk.more_members(f"{missing} more") if missing > 0 else None


async def test_a_plugin_refuses_a_placement_and_the_group_goes_to_another_one(stack: Stack) -> None:
    """If this fails, no plugin has a say about where a group is as a whole."""
    plugin = Licences()
    cluster = racks((await stack.host(plugin)).client)
    await cluster.run()
    assert cluster.nodes == dict.fromkeys(("p0", "p1"), "n1")
    seen = [(each.placement, list(each.node_names), each.remaining, each.scheduled) for each in plugin.trials]
    assert seen == [("a", ["n0"], 2, 0), ("b", ["n1"], 2, 0), ("b", ["n1"], 1, 1), ("b", ["n1"], 0, 2)]
    last = plugin.trials[-1]
    assert (last.group.metadata.name, last.min_count, last.unschedulable) == ("g", 2, 0)
    tried = [(each.pod.metadata.name, dict(each.pod.spec.node_selector), each.node_name) for each in last.tried]
    assert tried == [(name, {"kind": "worker"}, "n1") for name in ("p0", "p1")]
    assert [len(each.tried) for each in plugin.trials] == [0, 0, 1, 2]


async def test_a_group_of_groups_is_asked_about_as_such(stack: Stack) -> None:
    """If this fails, a plugin cannot tell groups of pods from groups of groups."""
    plugin = Licences()
    cluster = racks((await stack.host(plugin)).client)
    cluster.group(of_groups("top", 1))
    cluster.group(pod_group("inner", 1, parent="top"))
    cluster.add("p2", "inner")
    await cluster.run()
    await cluster.run()
    tops = [each for each in plugin.trials if each.group.metadata.name == "top"]
    assert [type(each.group).__name__ for each in tops] == ["CompositePodGroup"] * 2
    assert [(each.placement, list(each.node_names), each.remaining) for each in tops] == [("", [], 1), ("", [], 0)]


class _Broken:
    """Answers what it must not, or raises."""

    info = sdk.Info("Broken")

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def placement_feasible(self, call: sdk.Call, trial: sdk.PlacementTrial) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (True, "PlacementFeasible: placement_feasible returned True: must be None, more_members, "),
        (sdk.SKIP, "PlacementFeasible: placement_feasible returned Status("),
        (sdk.unresolvable("never"), "PlacementFeasible: placement_feasible returned Status("),
        (OSError("down"), "PlacementFeasible: placement_feasible failed: OSError: down"),
        (sdk.error("no answer from the server"), "no answer from the server"),
    ],
    ids=["no status", "skip", "unresolvable", "raises", "an error"],
)
async def test_an_author_reads_what_was_wrong(stack: Stack, answer: Any, text: str) -> None:
    """If this fails, a mistake of a plugin shows as a group that waits for no reason."""
    cluster = racks((await stack.host(_Broken(answer))).client)
    await cluster.run()
    ((_, reason, message),) = cluster.conditions
    prefix = "failed to evaluate placement feasibility: running PlacementFeasible plugin: "
    assert (cluster.nodes, reason, message.startswith(prefix)) == ({}, "SchedulerError", True)
    assert text in message


FAILED = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["cannot decide"])


def answering(*statuses: status_pb2.Status) -> Answer:
    """Answers with these statuses, whatever the steps."""
    return lambda request: pod_groups_pb2.PlacementFeasibleResponse(statuses=statuses)


def of_steps(request: pod_groups_pb2.PlacementFeasibleRequest) -> pod_groups_pb2.PlacementFeasibleResponse:
    """A success for each step."""
    return pod_groups_pb2.PlacementFeasibleResponse(statuses=[SUCCESS] * len(request.steps))


def of_each_step(request: pod_groups_pb2.PlacementFeasibleRequest) -> pod_groups_pb2.PlacementFeasibleResponse:
    """A status too many for each call."""
    return pod_groups_pb2.PlacementFeasibleResponse(statuses=[SUCCESS] * (len(request.steps) + 1))


WRONG: Mapping[str, tuple[Answer, str]] = {
    "down": (lambda request: (grpc.StatusCode.UNAVAILABLE, "gone"), "UNAVAILABLE: gone"),
    "too slow": (lambda request: None, "no answer within 200 ms"),
    "no message of the contract": (lambda request: b"\xff", "answer to PlacementFeasible"),
    "too few statuses": (answering(), "statuses: has 0 entries, must have 1"),
    "too many statuses": (of_each_step, "statuses: has 2 entries, must have 1"),
    "more after a refusal": (answering(REFUSED, SUCCESS), "statuses: has 2 entries, and entry 0 ends the trial"),
    "no code": (answering(status_pb2.Status()), "statuses[0].code is not set"),
    "another refusal": (
        answering(status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, messages=["x"])),
        "statuses[0].code: UnschedulableAndUnresolvable does not belong here",
    ),
    "no message": (
        answering(status_pb2.Status(code=status_pb2.CODE_WAIT)),
        "statuses[0].messages: a status Wait needs one",
    ),
    "another plugin's status": (
        answering(status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="Other", messages=["x"])),
        "statuses[0].plugin: 'Other' is another plugin",
    ),
    "an error": (
        answering(FAILED),
        "running PlacementFeasible plugin: cannot decide",
    ),
}


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Callable[..., remote_client.PluginClient]]:
    """Connects to a plugin on a socket of the test, with fields of its configuration."""
    clients: list[remote_client.PluginClient] = []

    def made(**fields: Any) -> remote_client.PluginClient:
        config = remote(f"unix:{tmp_path}/scripted.sock", info={"extension_points": [POINT]}, **fields)
        clients.append(remote_client.connect(config))
        return clients[-1]

    yield made
    for client in clients:
        await client.connection.close()


@pytest.mark.parametrize("ignored", [False, True], ids=["Fail", "Ignore"])
@pytest.mark.parametrize("case", WRONG)
async def test_a_failure_is_an_error_of_the_group_or_ignored(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient], case: str, ignored: bool
) -> None:
    """If this fails, a plugin that is down, slow or wrong has groups bound that it would refuse, or all groups wait."""
    answer, text = WRONG[case]
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignored else snapshot_pb2.FAILURE_POLICY_FAIL
    client = connect(failure_policy=policy, deadline_ms=200 if case == "too slow" else 20_000)
    async with scripted(f"unix:{tmp_path}/scripted.sock", ScriptedPlugin({PLACEMENT_FEASIBLE: answer})):
        cluster = racks(client)
        await cluster.run()
    if ignored:
        assert cluster.nodes == dict.fromkeys(("p0", "p1"), "n0")
        return
    ((_, reason, message),) = cluster.conditions
    assert (cluster.nodes, reason) == ({}, "SchedulerError")
    assert message.startswith("failed to evaluate placement feasibility: running PlacementFeasible plugin: ")
    assert text in message


async def test_nobody_listens(connect: Callable[..., remote_client.PluginClient]) -> None:
    """If this fails, a scheduler hangs on a plugin that was removed."""
    cluster = racks(connect(failure_policy=snapshot_pb2.FAILURE_POLICY_FAIL, deadline_ms=2000))
    await cluster.run()
    assert [reason for _, reason, _ in cluster.conditions] == ["SchedulerError"]


async def test_a_refusal_with_the_code_of_the_contract_is_none_of_these(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient]
) -> None:
    """The twin of the failures above: the same calls, answered rightly."""
    client = connect(failure_policy=snapshot_pb2.FAILURE_POLICY_IGNORE)
    plugin = ScriptedPlugin({PLACEMENT_FEASIBLE: answering(REFUSED)})
    async with scripted(f"unix:{tmp_path}/scripted.sock", plugin):
        cluster = racks(client)
        await cluster.run()
    text = "0/2 placements are available, first placement status: no licence"
    assert cluster.conditions == [("False", "Unschedulable", text)]
    assert cluster.failures["p0"].rejectors == {"P"}
    assert [(request.placement, request.min_count) for request in plugin.requests] == [("a", 2), ("b", 2)]


def of_two_licences(
    request: pod_groups_pb2.PlacementFeasibleRequest,
) -> pod_groups_pb2.PlacementFeasibleResponse:
    """Refuses a third pod, and fails about the first one: up to the first step that ends the trial, as SDKs answer."""
    response = pod_groups_pb2.PlacementFeasibleResponse()
    for step in request.steps:
        answer = {1: FAILED, 3: REFUSED}.get(step.scheduled, SUCCESS)
        response.statuses.append(answer)
        if answer is not SUCCESS:
            break
    return response


@pytest.mark.parametrize("kinds", ["abcd", "aaaa"], ids=["of several classes", "of one class"])
async def test_an_ignored_error_about_one_step_lets_that_step_pass_alone(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient], kinds: str
) -> None:
    """If this fails, one pod whose licence server is slow lets a whole group pass that the plugin refuses."""
    client = connect(failure_policy=snapshot_pb2.FAILURE_POLICY_IGNORE)
    plugin = ScriptedPlugin({PLACEMENT_FEASIBLE: of_two_licences})
    async with scripted(f"unix:{tmp_path}/scripted.sock", plugin):
        cluster = deciding(client, [4])
        cluster.group(pod_group("g", 4))
        for number, kind in enumerate(kinds):
            cluster.add(f"p{number}", "g", kind=kind)
        await cluster.run()
    assert (cluster.nodes, cluster.conditions) == ({}, [("False", "Unschedulable", "no licence")])
    assert client.connection.statistics().failed == 0
    calls = [[0], [1], [2, 3]] if kinds == "abcd" else [[0], [1, 2, 3, 4], [2, 3, 4]]
    assert [[step.tried for step in request.steps] for request in plugin.requests] == calls


async def test_what_equal_pods_have_is_sent_once_and_few_steps_have_the_deadline_of_a_call(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient]
) -> None:
    """If this fails, a large group of large pods is in no message, or is not answered in time, at each attempt."""
    client = connect(failure_policy=snapshot_pb2.FAILURE_POLICY_FAIL)
    plugin = ScriptedPlugin({PLACEMENT_FEASIBLE: of_steps})
    async with scripted(f"unix:{tmp_path}/scripted.sock", plugin):
        cluster = deciding(client, [200])
        cluster.group(pod_group("g", 200))
        for number in range(200):
            cluster.add(f"p{number}", "g", kind="x" * 100_000)
        await cluster.run()
    assert len(cluster.nodes) == 200
    steps = [[step.tried for step in request.steps] for request in plugin.requests]
    assert [tried for each in steps for tried in each] == list(range(201))
    assert max(len(each) for each in steps) == remote_placement_feasible.STEPS_PER_CALL
    assert [len(request.tried) for request in plugin.requests] == [each[-1] for each in steps]
    assert max(request.ByteSize() for request in plugin.requests) < 200_000


@pytest.mark.parametrize("ignored", [False, True], ids=["Fail", "Ignore"])
async def test_a_group_that_no_message_holds_fails_by_policy_without_a_call(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient], ignored: bool
) -> None:
    """If this fails, the plugin counts as down because of one group, and nobody is told why."""
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignored else snapshot_pb2.FAILURE_POLICY_FAIL
    client = connect(failure_policy=policy)
    async with scripted(f"unix:{tmp_path}/scripted.sock", ScriptedPlugin({PLACEMENT_FEASIBLE: of_steps})):
        cluster = deciding(client, [1])
        cluster.group(pod_group("g", 1))
        cluster.add("p0", "g", kind="x" * 17_000_000)
        await cluster.run()
    assert client.connection.statistics().failed == 0
    assert len(cluster.nodes) == (1 if ignored else 0)
    ((_, reason, message),) = cluster.conditions
    assert reason == ("Scheduled" if ignored else "SchedulerError")
    assert ignored or "the pods that were tried make a request of 17000" in message


async def test_a_member_that_is_deleted_during_the_trial_is_in_the_calls_that_follow(
    tmp_path: Path, connect: Callable[..., remote_client.PluginClient]
) -> None:
    """If this fails, a group that is deleted with many other pods ends the scheduler: the class of its pod is gone."""
    clusters: list[Cluster] = []

    def delete_the_first(request: pod_groups_pb2.PlacementFeasibleRequest) -> pod_groups_pb2.PlacementFeasibleResponse:
        (cluster,) = clusters
        if request.steps[0].tried == 1:
            cluster.queue.delete("ns/p0", "uid-p0", T0)
            cluster.registry.release(first)
        return of_steps(request)

    client = connect(failure_policy=snapshot_pb2.FAILURE_POLICY_FAIL)
    plugin = ScriptedPlugin({PLACEMENT_FEASIBLE: delete_the_first})
    async with scripted(f"unix:{tmp_path}/scripted.sock", plugin):
        clusters.append(cluster := deciding(client, [4]))
        cluster.registry._idle_limit = 0
        cluster.group(pod_group("g", 1))
        for name, kind in (("p0", "a"), ("p1", "b"), ("p2", "c")):
            cluster.add(name, "g", kind=kind)
        first = min(each.id for each in cluster.registry.entries())
        cluster.hopeless = {first}  # so that it is on no node, which would keep its class
        await cluster.run()
    assert sorted(cluster.nodes) == ["p1", "p2"]
    assert [each.pod.metadata.name for each in plugin.requests[-1].tried] == ["p0", "p1", "p2"]


async def _points(address: str, *features: str) -> list[int]:
    async with aio.insecure_channel(address) as channel:
        stub = plugin_pb2_grpc.PluginServiceStub(channel)
        answer = await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(features=features))
    return list(answer.plugins[0].extension_points)


async def test_the_point_is_left_out_for_a_scheduler_that_does_not_know_it(tmp_path: Path) -> None:
    """If this fails, a plugin that also filters cannot be updated before its scheduler is."""

    class Both(Licences):
        def filter(self, call: sdk.Call, node: sdk.Node) -> None:
            return None

    async with on_the_sdk(Both(), tmp_path) as address:
        assert await _points(address) == [plugin_pb2.EXTENSION_POINT_FILTER]
        assert await _points(address, *contract_features.FEATURES) == [plugin_pb2.EXTENSION_POINT_FILTER, POINT]


async def test_hosts_of_the_other_points_do_not_serve_it(stack: Stack) -> None:
    """A plugin without the method is not called there, and says so if it is."""

    class Filtering:
        info = sdk.Info("Filtering")

        def filter(self, call: sdk.Call, node: sdk.Node) -> None:
            return None

    hosts: Hosts = await stack.host(Filtering())
    assert not hosts.client.serves(POINT)
    cluster = racks(hosts.client)
    await cluster.run()
    assert "UNIMPLEMENTED" in cluster.conditions[0][2]
