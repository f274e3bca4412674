"""One suite over everything that serves the contract: plugins in every language of examples/, and the phases.

What is the same for all of them is asked of all: the handshake, health, reflection, and answers about nodes that fit
the question. Each runs as the process that a user would run. The example plugins do the same thing, so one set of
questions covers them.
"""

import asyncio
import importlib
import signal
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.contract.contract_services import (
    CHANNEL_OPTIONS,
    CYCLE,
    DEADLINE,
    FOLLOWERS,
    PHASES,
    PLUGINS,
    UNLIMITED,
    Served,
    check_columns,
    connected,
    get,
    start,
)
from trireme.plugin_api import plugin_info_validation, scorers
from trireme.remote import plugin_control, remote_client, remote_connection, remote_response
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    score_pb2,
    score_pb2_grpc,
    snapshot_pb2,
    status_pb2,
)

# The first test of a plugin builds it.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def configuration(
    args_json: bytes, config_hash: int = 9, profile: str = "default-scheduler"
) -> plugin_pb2.ConfigureRequest:
    """The configuration of the example plugins."""
    return plugin_pb2.ConfigureRequest(
        plugin="Maintenance", config_hash=config_hash, profile=profile, args_json=args_json
    )


@pytest.fixture(params=[*PLUGINS, *PHASES, *FOLLOWERS])
def served(
    request: pytest.FixtureRequest, running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """Each plugin and each phase."""
    return get(request.param, running, tmp_path_factory)


@pytest.fixture(params=PLUGINS)
def plugin(
    request: pytest.FixtureRequest, running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """Each plugin, configured without arguments."""
    served = get(request.param, running, tmp_path_factory)
    with grpc.insecure_channel(served.address, options=CHANNEL_OPTIONS) as channel:
        stub = plugin_pb2_grpc.PluginServiceStub(channel)
        refused = stub.Configure(configuration(b"{}"), timeout=DEADLINE)
    assert not refused.errors
    return served


# What all of them serve.


async def test_the_handshake_names_the_run(served: Served) -> None:
    """If this fails, a restarted service cannot be told from one that went on."""
    async with connected(served) as channel:
        stub: Any = plugin_pb2_grpc.PluginServiceStub(channel)
        request = plugin_pb2.GetPluginInfoRequest()
        answers = [await stub.GetPluginInfo(request, timeout=DEADLINE) for _ in range(2)]
    assert answers[0].instance
    assert answers[0] == answers[1]


async def test_health_is_served_for_the_whole_and_for_each_service(served: Served) -> None:
    """If this fails, Kubernetes restarts a service that is well, or never sees that it is not."""
    async with connected(served) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", *served.services):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=DEADLINE)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="trireme.v1.Nothing"), timeout=DEADLINE)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_reflection_shows_the_contract_itself(served: Served) -> None:
    """If this fails, grpcurl cannot ask the service; or it was built from protos that are not ours."""
    async with connected(served) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        requests += [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in served.services]
        call = stub.ServerReflectionInfo(iter(requests), timeout=DEADLINE)
        listed, *files = [answer async for answer in call]
    names = {service.name for service in listed.list_services_response.service}
    assert served.services <= names
    assert {name for name in names if name.startswith("trireme.")} == served.services
    found = set()
    for answer in files:
        for payload in answer.file_descriptor_response.file_descriptor_proto:
            theirs = descriptor_pb2.FileDescriptorProto.FromString(payload)
            found |= {f"{theirs.package}.{service.name}" for service in theirs.service}
            if theirs.package == "trireme.v1":
                assert methods(theirs) == methods(ours(theirs.name))
    assert served.services <= found


def ours(name: str) -> descriptor_pb2.FileDescriptorProto:
    """The file as our own code has it."""
    out = descriptor_pb2.FileDescriptorProto()
    module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    module.DESCRIPTOR.CopyToProto(out)
    return out


def methods(file: descriptor_pb2.FileDescriptorProto) -> set[tuple[str, str, str, str]]:
    """All RPCs, and all fields of messages, with what they are."""
    rpcs = {
        (service.name, method.name, method.input_type, method.output_type)
        for service in file.service
        for method in service.method
    }
    fields = {
        (message.name, field.name, str(field.number), f"{field.type} {field.type_name}")
        for message in file.message_type
        for field in message.field
    }
    return rpcs | fields


async def test_a_step_it_does_not_take_part_in_is_unimplemented(served: Served) -> None:
    """If this fails, a profile that names a plugin at a step it lacks is answered by silence."""
    async with connected(served) as channel:
        call: Any = channel.unary_unary("/trireme.v1.QueueService/PreEnqueue", None, None)
        with pytest.raises(aio.AioRpcError) as caught:
            await call(b"", timeout=DEADLINE)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("name", [*PLUGINS, *PHASES, *FOLLOWERS])
async def test_sigterm_ends_it_with_exit_code_0(name: str, tmp_path: Path) -> None:
    """If this fails, a rolling update kills the process after its grace period, with calls in flight."""
    served = start(name, tmp_path)
    async with connected(served) as channel:
        await channel.channel_ready()
    served.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(served.process.wait, DEADLINE) == 0
    served.process.communicate()


# The example plugins: the same plugin in several languages.


def view(name: str, **labels: str) -> filter_pb2.NodeView:
    """A node as a plugin with NODE_DATA_MESSAGES sees it."""
    node = core_pb2.Node()
    node.metadata.name = name
    node.metadata.labels.update(labels)
    return filter_pb2.NodeView(name=name, node=node)


MAINTENANCE = "example.com/maintenance"
PREFERENCE = "example.com/preference"


async def filtered(plugin: Served, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
    """The plugin's answer."""
    async with connected(plugin) as channel:
        stub: Any = filter_pb2_grpc.FilterPluginStub(channel)
        return await stub.Filter(request, timeout=DEADLINE)


async def scored(plugin: Served, *nodes: filter_pb2.NodeView) -> score_pb2.ScoreResponse:
    """The plugin's answer."""
    async with connected(plugin) as channel:
        stub: Any = score_pb2_grpc.ScorePluginStub(channel)
        request = score_pb2.ScoreRequest(cycle=CYCLE, nodes=filter_pb2.NodeSelection(nodes=nodes))
        return await stub.Score(request, timeout=DEADLINE)


def about(*nodes: filter_pb2.NodeView, **fields: Any) -> filter_pb2.FilterRequest:
    """A question about nodes."""
    return filter_pb2.FilterRequest(cycle=CYCLE, nodes=filter_pb2.NodeSelection(nodes=nodes), **fields)


async def test_plugins_describe_themselves_in_known_terms(plugin: Served) -> None:
    """If this fails, the scheduler refuses the plugin at the start."""
    info = await remote_client.handshake("Maintenance", plugin.address, deadline_seconds=DEADLINE)
    plugin_info_validation.check_plugin_info(info)
    assert set(info.extension_points) == {plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE}
    assert info.depends_on == plugin_pb2.DEPENDENCY_NODE
    assert info.node_data == plugin_pb2.NODE_DATA_MESSAGES
    (event,) = info.events_to_register
    assert (event.resource, list(event.actions)) == ("Node", ["Add", "UpdateNodeLabel"])


async def configured(plugin: Served, request: plugin_pb2.ConfigureRequest) -> list[str]:
    """What the plugin says is wrong."""
    async with connected(plugin) as channel:
        stub: Any = plugin_pb2_grpc.PluginServiceStub(channel)
        response = await stub.Configure(request, timeout=DEADLINE)
    return [f"{error.field}: {error.message}" for error in response.errors]


async def test_each_profile_and_configuration_has_its_own_arguments(plugin: Served) -> None:
    """If this fails, arguments are without effect, or those of another profile or scheduler hold."""
    assert not await configured(plugin, configuration(b'{"maintenanceLabel": "down"}', 11))
    assert not await configured(plugin, configuration(b'{"maintenanceLabel": "off"}', 11, "second"))
    nodes = (view("a", **{MAINTENANCE: ""}), view("b", down=""), view("c", off=""))
    found = {}
    for config_hash, profile in ((9, "default-scheduler"), (11, "default-scheduler"), (11, "second")):
        request = about(*nodes)
        request.cycle.config_hash, request.cycle.profile = config_hash, profile
        columns = (await filtered(plugin, request)).columns
        found[config_hash, profile] = check_columns(columns, 3).index.tolist()
    assert found == {
        (9, "default-scheduler"): [1, 0, 0],
        (11, "default-scheduler"): [0, 1, 0],
        (11, "second"): [0, 0, 1],
    }


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (b'{"maintenanceLabel": "no key"}', "args.maintenanceLabel: must be the key of a label"),
        (b'{"label": "down"}', "args.label: unknown field"),
        (b"[]", "args: must be an object"),
    ],
    ids=["no key", "unknown", "no object"],
)
async def test_wrong_arguments_are_refused_with_their_path(plugin: Served, args: bytes, problem: str) -> None:
    """If this fails, a mistake in the configuration is found by the pods."""
    (refused,) = await configured(plugin, configuration(args, 12))
    assert refused.startswith(problem)


async def test_a_call_under_an_unknown_configuration_is_refused_with_its_reason(plugin: Served) -> None:
    """If this fails, a plugin that was restarted decides by its defaults, though the profile has arguments."""
    request = about(view("a"))
    request.cycle.config_hash = 99
    with pytest.raises(aio.AioRpcError) as caught:
        await filtered(plugin, request)
    assert plugin_control.lacks_configuration(caught.value)


async def test_a_restarted_plugin_is_configured_by_the_next_caller(plugin: Served) -> None:
    """If this fails, a plugin that was restarted refuses every call until the scheduler is restarted, too."""
    config = snapshot_pb2.RemotePlugin(
        name="Maintenance",
        endpoints=[plugin.address],
        deadline_ms=20_000,
        configurations=[configuration(b'{"maintenanceLabel": "moved"}')],
    )
    client = remote_client.connect(config, lambda: cycle_pb2.Cycle(config_hash=13))
    request = about(view("a", moved=""), view("b"))
    request.cycle.config_hash = 13
    method = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)
    answer = await client.connection.call(method, request.SerializeToString(), lambda response: response)
    assert answer.columns.status_index == [1, 0]
    await client.connection.close()


async def test_another_name_is_not_found_there(plugin: Served) -> None:
    """If this fails, a mistyped name in the configuration asks a plugin for what it never heard of."""
    with pytest.raises(remote_client.HandshakeError) as caught:
        await remote_client.handshake("Other", plugin.address, deadline_seconds=DEADLINE)
    assert str(caught.value) == f"plugin Other at {plugin.address}: hosts Maintenance"


async def test_filter_refuses_with_words_and_reason(plugin: Served) -> None:
    """If this fails, people read nothing in the event, or explain has nothing to say."""
    response = await filtered(plugin, about(view("a"), view("b", **{MAINTENANCE: "disk"}), view("c", x="y")))
    verdicts = check_columns(response.columns, 3)
    assert verdicts.index.tolist() == [0, 1, 0]
    assert verdicts.capacity is not None
    assert verdicts.capacity.tolist() == [UNLIMITED, 0, UNLIMITED]
    (refusal,) = response.columns.statuses
    assert refusal.code == status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
    assert refusal.plugin == "Maintenance"
    assert list(refusal.messages) == ["node(s) were under maintenance"]
    (reason,) = refusal.reasons
    assert (reason.code, dict(reason.parameters)) == ("underMaintenance", {"label": MAINTENANCE})
    assert response.columns.generation == CYCLE.generation


async def test_the_same_question_has_the_same_answer(plugin: Served) -> None:
    """If this fails, an answer that is asked again elsewhere is another one."""
    request = about(view("a"), view("b", **{MAINTENANCE: ""}), count=7)
    answers = [await filtered(plugin, request) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


async def test_no_nodes_is_an_answer_too(plugin: Served) -> None:
    """If this fails, an empty cluster is an error."""
    response = await filtered(plugin, about())
    check_columns(response.columns, 0)
    assert not (await scored(plugin)).scores


async def test_two_thousand_nodes_with_many_labels_go_in_one_call(plugin: Served) -> None:
    """If this fails, the plugin's server refuses the messages that a large cluster makes."""
    labels = {f"example.com/label-{number}": "x" * 40 for number in range(25)}
    nodes = [view(f"node-{slot}", **labels, **({MAINTENANCE: ""} if slot % 3 == 0 else {})) for slot in range(2000)]
    response = await filtered(plugin, about(*nodes))
    verdicts = check_columns(response.columns, 2000)
    assert verdicts.index.tolist() == [1 if slot % 3 == 0 else 0 for slot in range(2000)]
    assert len(response.columns.statuses) == 1


async def test_a_node_without_its_object_does_no_harm(plugin: Served) -> None:
    """If this fails, one odd node ends the plugin's process."""
    response = await filtered(plugin, about(filter_pb2.NodeView(name="bare"), filter_pb2.NodeView()))
    assert check_columns(response.columns, 2).index.tolist() == [0, 0]


async def test_dry_runs_are_answered_in_their_order(plugin: Served) -> None:
    """If this fails, preemption evicts pods from nodes that refuse the pod anyway."""
    runs = [
        filter_pb2.DryRun(node=view("a", **{MAINTENANCE: ""}), removed_pods=[core_pb2.Pod()]),
        filter_pb2.DryRun(node=view("b"), slot=4, added_pods=[core_pb2.Pod(), core_pb2.Pod()]),
    ]
    async with connected(plugin) as channel:
        stub: Any = filter_pb2_grpc.FilterPluginStub(channel)
        response = await stub.FilterDryRun(filter_pb2.FilterDryRunRequest(cycle=CYCLE, runs=runs), timeout=DEADLINE)
    assert check_columns(response.columns, 2).index.tolist() == [1, 0]


async def test_scores_are_the_preferences(plugin: Served) -> None:
    """If this fails, the nodes that people want are not preferred; or what they write into labels is an error."""
    labels = {"7": 7, "0": 0, "100": 100, "101": 100, "-5": 0, "many": 0, "1.5": 0, "": 0}
    nodes = [view(f"n{at}", **{PREFERENCE: label}) for at, label in enumerate(labels)]
    response = await scored(plugin, *nodes, view("none"))
    scores = remote_response.read_score(response, "Maintenance", len(nodes) + 1, scorers.Normalization.NONE)
    assert isinstance(scores, np.ndarray)
    assert scores.tolist() == [*labels.values(), 0]


async def test_calls_are_taken_at_once(plugin: Served) -> None:
    """If this fails, one replica of a phase waits for another's question."""
    requests = [about(*(view(f"n{at}-{one}") for one in range(200))) for at in range(20)]
    answers = await asyncio.gather(*(filtered(plugin, request) for request in requests))
    assert [answer.columns.size for answer in answers] == [200] * 20


async def test_a_deposed_leader_is_refused_and_another_scheduler_is_not(plugin: Served) -> None:
    """If this fails, a plugin answers two leaders at once, or refuses the scheduler of the next cluster."""

    async def refusal(scheduler_id: str, epoch: int) -> str:
        request = about(view("a"))
        request.cycle.fence.CopyFrom(cycle_pb2.Fence(epoch=epoch, scheduler_id=scheduler_id))
        try:
            await filtered(plugin, request)
        except aio.AioRpcError as error:
            return f"{error.code().name} {dict(error.trailing_metadata() or ()).get('trireme-reason')}"
        return ""

    stale = "FAILED_PRECONDITION stale-epoch"
    assert await refusal("old", 1000) == ""
    assert await refusal("old", 999) == stale
    assert await refusal("new", 5) == ""
    assert await refusal("new", 4) == stale
    assert await refusal("new", 5) == ""
    assert await refusal("old", 999) == stale
