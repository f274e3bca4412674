"""PluginClient: what a plugin gets of pods and cycles, its failure policy, and which description is the plugin's."""

from typing import Any

import grpc
import pytest
from google.protobuf import message
from grpc import aio

from tests.helpers.called_plugin import HASH, CalledPlugin
from trireme.plugin_api import interfaces, scorers
from trireme.remote import remote_client
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2

FILTER, SCORE = plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE


def described(*names: str) -> plugin_pb2.GetPluginInfoResponse:
    return plugin_pb2.GetPluginInfoResponse(
        plugins=[plugin_pb2.PluginInfo(name=name, version=f"v-{name}", extension_points=[SCORE]) for name in names]
    )


def test_the_description_is_that_of_the_plugins_name() -> None:
    assert remote_client.select_info("b", described("a", "b", "c")).version == "v-b"


@pytest.mark.parametrize(
    ("names", "text"),
    [((), "hosts no plugin"), (("",), "hosts no plugin"), (("c", "", "a"), "hosts a, c"), (("b", "b"), "hosts b, b")],
)
def test_a_service_that_does_not_host_the_plugin_once_is_refused(names: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        remote_client.select_info("b", described(*names))


def test_a_description_that_is_wrong_is_refused() -> None:
    response = described("b")
    unknown: Any = 42
    response.plugins[0].node_data = unknown
    with pytest.raises(ValueError, match="node_data"):
        remote_client.select_info("b", response)
    config = snapshot_pb2.RemotePlugin(name="b", info=response.plugins[0])
    unused: Any = None
    with pytest.raises(ValueError, match="plugin b: info: node_data"):
        remote_client.PluginClient(config, cycle_pb2.Cycle, unused)


def test_a_plugin_without_a_description_serves_all_and_depends_on_all() -> None:
    unused: Any = None
    client = remote_client.PluginClient(snapshot_pb2.RemotePlugin(name="b"), cycle_pb2.Cycle, unused)
    assert client.serves(FILTER)
    assert client.serves(SCORE)
    assert (client.depends_on, client.normalization) == (interfaces.Dependency.CLUSTER, scorers.Normalization.NONE)
    assert not client.shares_answers
    described = CalledPlugin().client(SCORE, depends_on=plugin_pb2.DEPENDENCY_NODE)
    assert (described.serves(SCORE), described.serves(FILTER), described.config_hash) == (True, False, HASH)


@pytest.mark.parametrize("shadow", [False, True])
def test_a_plugin_in_shadow_shares_no_answers_and_no_failure_of_it_is_ignored(shadow: bool) -> None:
    client = CalledPlugin().client(SCORE, ignore=True, shadow=shadow, depends_on=plugin_pb2.DEPENDENCY_NODE)
    assert client.shares_answers is not shadow
    assert (client.apply_failure_policy("running", "away") is None) is not shadow


def test_a_plugin_gets_what_it_reads_of_a_pod_and_its_names_where_the_answer_is_about_it() -> None:
    pod = core_pb2.Pod()
    metadata = pod.metadata
    metadata.namespace, metadata.name, metadata.uid, metadata.labels["app"] = "ns", "p", "uid-p", "web"
    pod.spec.node_name = "n0"
    client = CalledPlugin().client(FILTER, pod_fields=["metadata.labels"])
    (projected,) = client.project_pods([pod])
    assert (projected.metadata.name, dict(projected.metadata.labels), projected.spec.node_name) == (
        "",
        {"app": "web"},
        "",
    )
    named = client.project_named_pod(pod)
    assert (named.metadata.namespace, named.metadata.name, named.metadata.uid) == ("ns", "p", "uid-p")
    assert (dict(named.metadata.labels), named.spec.node_name) == ({"app": "web"}, "")
    assert metadata.name == "p"
    cycle = cycle_pb2.Cycle(profile="q", state=b"of another", wants_remote_answers=True)
    own = client.project_cycle(cycle, pod)
    assert (own.profile, own.state, own.wants_remote_answers, dict(own.pod.metadata.labels)) == (
        "q",
        b"",
        False,
        {"app": "web"},
    )
    assert (cycle.state, cycle.HasField("pod")) == (b"of another", False)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), "away"), "UNAVAILABLE: "),
        (message.DecodeError("cut off"), "cut off"),
        (None, "hosts a"),
    ],
)
async def test_a_plugin_that_does_not_describe_itself_is_named_with_the_reason(
    failure: Exception | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def request(*_: object) -> plugin_pb2.GetPluginInfoResponse:
        if failure is not None:
            raise failure
        return described("a")

    monkeypatch.setattr(remote_client.plugin_control, "get_plugin_info", request)
    with pytest.raises(remote_client.HandshakeError, match=f"^plugin b at 127.0.0.1:1: {text}"):
        await remote_client.handshake("b", "127.0.0.1:1", deadline_seconds=0.0)


async def test_a_handshake_with_what_is_no_address_calls_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_client.plugin_control, "get_plugin_info", None)
    with pytest.raises(remote_client.HandshakeError, match=r"^plugin b at nonsense: address: 'nonsense' is neither"):
        await remote_client.handshake("b", "nonsense", deadline_seconds=0.0)
