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
