"""A plugin that follows the cluster and is behind: its caller calls again until it has come up."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.contract.plugin_servers import CONFIGURE, FILTER, ScriptedPlugin, remote, scripted
from trireme.remote import remote_connection
from trireme.v1 import filter_pb2, filter_phase_pb2, plugin_pb2

METHOD = remote_connection.Method(FILTER, filter_phase_pb2.FilterPhaseFilterResponse)
FOLLOWS = {"node_data": plugin_pb2.NODE_DATA_SNAPSHOT}
BEHIND = (grpc.StatusCode.FAILED_PRECONDITION, "cycle.generation: 4 is not reached")
UNCONFIGURED = (grpc.StatusCode.FAILED_PRECONDITION, "send it", (("trireme-reason", "config-mismatch"),))
STALE = (grpc.StatusCode.FAILED_PRECONDITION, "epoch 1 is over", (("trireme-reason", "stale-epoch"),))


async def _call(folder: Path, answers: list[Any], **fields: Any) -> tuple[str, int]:
    """What a call ended with, and how often the plugin was called; the last of the answers goes on forever."""
    target = f"unix:{folder}/plugin.sock"
    plugin = ScriptedPlugin({FILTER: lambda request: answers.pop(0) if len(answers) > 1 else answers[0]})
    connection = remote_connection.PluginConnection(remote(target, **fields))
    async with scripted(target, plugin):
        try:
            outcome = await connection.call(METHOD, b"", lambda response: "answered")
        except remote_connection.PluginError as error:
            outcome = str(error).removeprefix(f"{target}: ")
        finally:
            await connection.close()
    return outcome, len(plugin.requests)


async def test_a_plugin_that_is_a_moment_behind_is_called_again(tmp_path: Path) -> None:
    """If this fails, pods fail by error whenever a call overtakes the change that it is about."""
    answers = [BEHIND, BEHIND, filter_pb2.FilterResponse()]
    assert await _call(tmp_path, answers, info=FOLLOWS) == ("answered", 3)


async def test_a_plugin_that_stays_behind_fails_within_the_deadline(tmp_path: Path) -> None:
    """If this fails, one plugin that lost its stream holds up scheduling."""
    outcome, calls = await _call(tmp_path, [BEHIND], info=FOLLOWS, deadline_ms=300)
    assert outcome == "FAILED_PRECONDITION: cycle.generation: 4 is not reached"
    assert calls > 1


@pytest.mark.parametrize(
    ("answer", "info", "text"),
    [
        (STALE, FOLLOWS, "FAILED_PRECONDITION (stale-epoch): epoch 1 is over"),
        (BEHIND, {}, "FAILED_PRECONDITION: cycle.generation: 4 is not reached"),
    ],
    ids=["a deposed leader", "a plugin that does not follow"],
)
async def test_no_other_refusal_is_tried_again(tmp_path: Path, answer: Any, info: Any, text: str) -> None:
    """If this fails, a lasting refusal costs each pod the whole deadline, or nobody learns its reason."""
    outcome, calls = await _call(tmp_path, [answer], info=info)
    assert outcome == text
    assert calls == 1


async def test_the_time_that_a_configuration_takes_counts(tmp_path: Path) -> None:
    """If this fails, a plugin that is slow to take its configuration delays scheduling for twice the deadline."""
    now = [0.0]

    def configure(request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        now[0] += 30.0
        return plugin_pb2.ConfigureResponse()

    answers: list[Any] = [UNCONFIGURED, filter_pb2.FilterResponse()]
    target = f"unix:{tmp_path}/plugin.sock"
    configurations = [plugin_pb2.ConfigureRequest(plugin="P", profile="p")]
    config = remote(target, deadline_ms=20_000, configurations=configurations)
    connection = remote_connection.PluginConnection(config, lambda: now[0])
    plugin = ScriptedPlugin({FILTER: lambda request: answers.pop(0), CONFIGURE: configure})
    async with scripted(target, plugin):
        with pytest.raises(remote_connection.PluginError, match="no answer within 20000 ms"):
            await connection.call(METHOD, b"", lambda response: "answered")
        await connection.close()
    assert len(answers) == 1, "called though its time was over"


async def test_a_plugin_that_refuses_its_configuration_fails_the_call_with_its_reason(tmp_path: Path) -> None:
    """If this fails, a plugin that restarts with other rules crashes the phase, or nobody learns what it refuses."""
    refusal = plugin_pb2.ConfigureResponse(errors=[{"field": "args.a", "message": "unknown"}])
    target = f"unix:{tmp_path}/plugin.sock"
    config = remote(target, configurations=[plugin_pb2.ConfigureRequest(plugin="P", profile="p")])
    connection = remote_connection.PluginConnection(config)
    plugin = ScriptedPlugin({FILTER: lambda _: UNCONFIGURED, CONFIGURE: lambda _: refusal})
    async with scripted(target, plugin):
        with pytest.raises(remote_connection.PluginError) as caught:
            await connection.call(METHOD, b"", lambda response: "answered")
        statistics = connection.statistics()
        await connection.close()
    assert str(caught.value) == f"{target}: profile p: pluginConfig: args.a: unknown"
    assert (statistics.failed, statistics.breakers["Filter"].failures_in_a_row) == (1, 1)


async def test_an_endpoint_that_took_all_the_time_is_the_last(tmp_path: Path) -> None:
    """If this fails, the next endpoint is blamed for a deadline that was over before it was called."""
    now = [0.0]

    def fail(_: Any) -> Any:
        now[0] += 20.0
        return grpc.StatusCode.UNAVAILABLE, "going down"

    one, two = f"unix:{tmp_path}/one.sock", f"unix:{tmp_path}/two.sock"
    connection = remote_connection.PluginConnection(remote(one, two, deadline_ms=20_000), lambda: now[0])
    slow, untried = ScriptedPlugin({FILTER: fail}), ScriptedPlugin({FILTER: lambda _: filter_pb2.FilterResponse()})
    async with scripted(one, slow), scripted(two, untried):
        with pytest.raises(remote_connection.PluginError, match=r"one\.sock: UNAVAILABLE: going down"):
            await connection.call(METHOD, b"", lambda response: "answered")
        await connection.close()
    assert (len(slow.requests), untried.requests) == (1, [])
