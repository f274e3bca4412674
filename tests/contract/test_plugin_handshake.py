"""The handshake with remote plugins, their arguments and addresses; wrong ones name the plugin and the field."""

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import message
from grpc import aio

from tests.contract.plugin_bench import PROFILE, Bench
from tests.contract.plugin_servers import CONFIGURE, GET_PLUGIN_INFO, ScriptedPlugin, on_the_sdk, remote
from trireme import sdk
from trireme.remote import plugin_control, remote_client, remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2, plugin_pb2_grpc

# The handshake.


async def test_the_handshake_waits_for_a_plugin_that_starts(bench: Bench, tmp_path: Path) -> None:
    """If this fails, a frontend that is started beside its plugins ends because it was faster."""
    info = plugin_pb2.PluginInfo(name="P", extension_points=[plugin_pb2.EXTENSION_POINT_FILTER])
    greeting = asyncio.create_task(remote_client.handshake("P", f"unix:{tmp_path}/late.sock", deadline_seconds=20))
    await asyncio.sleep(0.2)
    answer = plugin_pb2.GetPluginInfoResponse(plugins=[info])
    await bench.serve(ScriptedPlugin({GET_PLUGIN_INFO: lambda _: answer}), "late.sock")
    assert await greeting == info


def _until_it_fails(words: str) -> float:
    """The deadline of a call that fails so: short where it is waited for, beyond any delay where there is an answer."""
    return 0.4 if "UNAVAILABLE" in words or "DEADLINE" in words else 20.0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "UNAVAILABLE: "),
        (lambda _: None, "DEADLINE_EXCEEDED: "),
        (lambda _: plugin_pb2.GetPluginInfoResponse(), "hosts no plugin"),
        (lambda _: plugin_pb2.GetPluginInfoResponse(plugins=[{"name": "B"}, {"name": "A"}]), "hosts A, B"),
        (lambda _: plugin_pb2.GetPluginInfoResponse(plugins=[{"name": "P"}]), "extension_points: there is none"),
        (
            lambda _: plugin_pb2.GetPluginInfoResponse(
                plugins=[{"name": "P", "extension_points": [4], "pod_fields": ["spec.nope"]}]
            ),
            "pod_fields: spec.nope: a pod as schedulers see it has no field nope there",
        ),
        (
            lambda _: plugin_pb2.GetPluginInfoResponse(plugins=[{"name": "P", "extension_points": [99]}]),
            "extension_points[0]: 99 is not known here; allowed: PRE_ENQUEUE (1), ",
        ),
        (lambda _: (grpc.StatusCode.UNIMPLEMENTED, "what?"), "UNIMPLEMENTED: what?"),
        (lambda _: b"\xff\xff", "Error parsing message"),
    ],
    ids=["nobody", "silent", "none", "others", "no step", "no field", "unknown step", "no plugin at all", "no message"],
)
async def test_a_failed_handshake_names_plugin_and_address(
    bench: Bench, tmp_path: Path, answer: Any, words: str
) -> None:
    """If this fails, the administrator is not told which plugin is wrong, or what is wrong with it."""
    target = f"unix:{tmp_path}/p.sock"
    if answer is not None:
        await bench.serve(ScriptedPlugin({GET_PLUGIN_INFO: answer}))
    with pytest.raises(remote_client.HandshakeError) as caught:
        await remote_client.handshake("P", target, deadline_seconds=_until_it_fails(words))
    assert str(caught.value).startswith(f"plugin P at {target}: {words}")
    assert "\n" not in str(caught.value)


async def test_an_invalid_address_is_reported_at_once() -> None:
    """If this fails, a mistyped address is looked up for ten seconds."""
    with pytest.raises(remote_client.HandshakeError) as caught:
        await remote_client.handshake("P", "nowhere", deadline_seconds=10)
    assert str(caught.value).startswith("plugin P at nowhere: address: 'nowhere' is neither host:port")


# Configuration.


async def _configure(target: str, args_json: bytes, seconds: float) -> None:
    arguments = plugin_pb2.ConfigureRequest(plugin="P", profile="p", args_json=args_json)
    connection = dialing.Dialer(None).open(target, remote_endpoint.OPTIONS)
    try:
        await plugin_control.configure(connection.channel, [arguments], 7, seconds)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("answer", "args_json", "kind", "words"),
    [
        (
            lambda _: plugin_pb2.ConfigureResponse(
                errors=[{"field": "args.a[0]", "message": "must be\nset"}, {"field": "args.b", "message": "unknown"}]
            ),
            b"{}",
            plugin_control.ConfigurationRefused,
            "profile p: pluginConfig: args.a[0]: must be set, args.b: unknown",
        ),
        (
            lambda _: (grpc.StatusCode.UNIMPLEMENTED, "what?"),
            b'{"a":1}',
            plugin_control.ConfigurationRefused,
            "profile p: pluginConfig: args: the plugin takes none: it does not serve Configure",
        ),
        (lambda _: (grpc.StatusCode.INTERNAL, "KeyError: 'a'"), b"{}", aio.AioRpcError, "KeyError: 'a'"),
        (lambda _: None, b"{}", aio.AioRpcError, "DEADLINE_EXCEEDED"),
        (lambda _: b"\xff\xff", b"{}", message.DecodeError, "Error parsing message"),
    ],
    ids=["refused", "arguments for a plugin without any", "failed", "silent", "no message"],
)
async def test_a_configuration_that_is_not_accepted_names_the_field(
    bench: Bench, answer: Any, args_json: bytes, kind: type[Exception], words: str
) -> None:
    """If this fails, the scheduler starts with arguments that have no effect."""
    target = await bench.serve(ScriptedPlugin({CONFIGURE: answer}))
    with pytest.raises(kind, match=re.escape(words)) as caught:
        await _configure(target, args_json, _until_it_fails(words))
    assert kind is not plugin_control.ConfigurationRefused or str(caught.value) == words


async def test_a_plugin_without_arguments_need_not_serve_configure(bench: Bench) -> None:
    """If this fails, older plugins do not start any more."""
    target = await bench.serve(ScriptedPlugin({GET_PLUGIN_INFO: lambda _: plugin_pb2.GetPluginInfoResponse()}))
    await _configure(target, b"{}", 20)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"endpoints": ["nowhere"]}, "plugin P: endpoints: 'nowhere' is neither host:port"),
        ({"endpoints": ["host:99999"]}, "plugin P: endpoints: 'host:99999' is neither host:port"),
        ({"deadline_ms": 0}, "plugin P: deadline_ms: must be above 0"),
        ({"info": {"pod_fields": ["spec.nope"]}}, "plugin P: info: pod_fields: spec.nope: "),
        ({"info": {"depends_on": 99}}, "plugin P: info: depends_on: 99 is not known here"),
        ({"info": {"extension_points": []}}, "plugin P: info: extension_points: there is none"),
    ],
    ids=["no address", "no port", "no deadline", "no field", "no dependency", "no step"],
)
async def test_a_wrong_configuration_names_its_field(bench: Bench, fields: dict[str, Any], words: str) -> None:
    """If this fails, a mistyped address shows as a pod that is never scheduled."""
    endpoints = fields.pop("endpoints", ["127.0.0.1:1"])
    with pytest.raises(ValueError, match="plugin P: ") as caught:
        bench.plugins.make_filter_plugin(remote(*endpoints, **fields), PROFILE)
    assert words in str(caught.value)


@pytest.mark.parametrize("target", ["h:1", "[::1]:80", "dns:///h:1", "dns://1.1.1.1/h:1", "unix:/p", "unix:p"])
async def test_grpc_targets_are_taken(bench: Bench, target: str) -> None:
    """If this fails, a good address is refused at the start."""
    assert bench.plugins.make_filter_plugin(remote(target), PROFILE).name == "P"


async def test_an_old_configurations_connection_goes_with_it(bench: Bench) -> None:
    """If this fails, each new configuration leaves a connection behind."""
    plugin = bench.plugins.make_filter_plugin(remote("127.0.0.1:1"), PROFILE)
    assert set(bench.plugins.connections.statistics()) == {plugin.name}
    del plugin
    assert bench.plugins.connections.statistics() == {}


class _Newer:
    """A plugin that cannot work without an addition to the contract."""

    def __init__(self, *features: str) -> None:
        self.info = sdk.Info("Newer", required_features=features)

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        return None


async def test_a_plugin_that_requires_a_known_feature_takes_part(tmp_path: Path) -> None:
    """If this fails, no plugin can require anything."""
    async with on_the_sdk(_Newer("required-features"), tmp_path) as address:
        info = await remote_client.handshake("Newer", address, deadline_seconds=20)
    assert info.required_features == ["required-features"]


async def test_a_scheduler_without_the_feature_is_refused_and_told_why(tmp_path: Path) -> None:
    """If this fails, a newer plugin works by half with a scheduler that does not know the field, either."""
    async with on_the_sdk(_Newer("required-features"), tmp_path) as address, aio.insecure_channel(address) as channel:
        stub: Any = plugin_pb2_grpc.PluginServiceStub(channel)
        with pytest.raises(aio.AioRpcError) as caught:
            await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=20)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "the caller does not know required-features" in str(caught.value.details())


async def test_a_plugin_from_a_newer_contract_is_rejected_by_the_name_of_the_feature(
    bench: Bench, tmp_path: Path
) -> None:
    """If this fails, a plugin that this scheduler cannot serve takes part."""
    plugin = {"name": "P", "extension_points": [4], "required_features": ["time-travel"]}
    await bench.serve(
        ScriptedPlugin({GET_PLUGIN_INFO: lambda _: plugin_pb2.GetPluginInfoResponse(plugins=[plugin])}), "newer.sock"
    )
    with pytest.raises(remote_client.HandshakeError, match=r"required_features\[0\]: time-travel is not known"):
        await remote_client.handshake("P", f"unix:{tmp_path}/newer.sock", deadline_seconds=20)
