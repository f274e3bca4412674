"""PluginConnection: which endpoint is called, for how long, how often, and what a call that fails becomes."""

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import message
from grpc import aio

from tests.helpers.virtual_time import on_virtual_time
from trireme.remote import remote_breaker, remote_connection
from trireme.rpc import dialing, fencing
from trireme.v1 import filter_pb2, plugin_pb2, snapshot_pb2

Code = grpc.StatusCode
FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.ReserveResponse)
RESERVE = remote_connection.Method("/trireme.v1.FilterPlugin/Reserve", filter_pb2.ReserveResponse)
OPTIONAL = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.ReserveResponse, optional=True)
DEADLINE = 2.0
FIRST, SECOND = "127.0.0.1:1", "127.0.0.1:2"


def failing(code: grpc.StatusCode, details: str = "", reason: str = "") -> aio.AioRpcError:
    trailing = aio.Metadata((fencing.REASON_METADATA, reason)) if reason else aio.Metadata()
    return aio.AioRpcError(code, aio.Metadata(), trailing, details)


LACKS_CONFIGURATION = failing(Code.FAILED_PRECONDITION, reason=fencing.RefusalReason.CONFIG_MISMATCH)


def answering(generation: int) -> bytes:
    """An answer that the tests recognise."""
    return filter_pb2.ReserveResponse(evaluated_generation=generation).SerializeToString()


class Stream:
    """A call whose answers come one after the other, each after `seconds`."""

    def __init__(self, answers: list[Any], seconds: float) -> None:
        self._answers, self._seconds = answers, seconds
        self.cancelled = False

    async def read(self) -> Any:
        await asyncio.sleep(self._seconds)
        answer = self._answers.pop(0) if self._answers else aio.EOF
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        self.cancelled = True


class Replica:
    """One endpoint, which gives its answers in order, each after `seconds`."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.seconds = 0.25
        self.calls: list[tuple[str, float]] = []
        self.configured: list[plugin_pb2.ConfigureRequest] = []
        self.streams: list[Stream] = []
        self.renewals = 0
        self.channel = self

    def unary_unary(self, path: str, **_: object) -> Callable[..., Any]:
        async def call(request: Any, timeout: float) -> bytes:
            name = path.rpartition("/")[2]
            self.calls.append((name, round(timeout, 3)))
            if name == "Configure":
                self.configured.append(request)
            await asyncio.sleep(min(self.seconds, timeout))
            if self.seconds > timeout:
                raise failing(Code.DEADLINE_EXCEEDED)
            answer = self.answers.pop(0) if self.answers else answering(0)
            if isinstance(answer, Exception):
                raise answer
            content: bytes = answer
            return content

        return call

    def unary_stream(self, path: str, **_: object) -> Callable[..., Stream]:
        def call(request: bytes, timeout: float) -> Stream:
            self.calls.append((path.rpartition("/")[2], round(timeout, 3)))
            self.streams.append(Stream(self.answers.pop(0), self.seconds))
            return self.streams[-1]

        return call

    def renew(self) -> bool:
        self.renewals += 1
        return False

    def error_details(self, error: aio.AioRpcError) -> str:
        return error.details() or ""

    async def close(self) -> None:
        """Nothing is open."""


class Plugin:
    """A plugin of two endpoints, and the connection to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 1, **fields: Any) -> None:
        self.replicas = {target: Replica() for target in (FIRST, SECOND)[:count]}
        self.first = self.replicas[FIRST]
        replicas = self.replicas

        class Dialer:
            def __init__(self, *_: object) -> None: ...

            def open(self, target: str, *_: object) -> Replica:
                return replicas[target]

        monkeypatch.setattr(dialing, "Dialer", Dialer)
        config = snapshot_pb2.RemotePlugin(
            **{"name": "Quota", "endpoints": list(replicas), "deadline_ms": int(DEADLINE * 1000), **fields}
        )
        self.now = asyncio.get_running_loop().time
        self.connection = remote_connection.PluginConnection(config, self.now, lambda: 77)

    async def call(self, method: remote_connection.Method[Any] = FILTER) -> int:
        """The number in the answer."""
        answer: int = await self.connection.call(method, b"", lambda response: response.evaluated_generation)
        return answer

    async def failure(self, method: remote_connection.Method[Any] = FILTER) -> str:
        with pytest.raises(remote_connection.PluginError) as raised:
            await self.call(method)
        return str(raised.value)

    async def read(self, pause: float = 0.0) -> list[int]:
        """The numbers in the answers of a stream; each takes so long to be used."""
        found = []
        async for each in self.connection.call_stream(FILTER, b""):
            found.append(each.evaluated_generation)
            await asyncio.sleep(pause)
        return found


@on_virtual_time
async def test_a_call_has_the_whole_deadline_and_its_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch)
    plugin.first.answers = [answering(4)]
    assert await plugin.call() == 4
    assert plugin.first.calls == [("Filter", DEADLINE)]
    found = plugin.connection.statistics()
    assert (found.answered, found.failed, found.in_flight, found.waiting, found.last_error) == (1, 0, 0, 0, "")
    assert (found.last_error_age, found.comparisons, sum(found.durations)) == (None, None, 1)
    assert plugin.connection.deadline_seconds == DEADLINE


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.CANCELLED, Code.RESOURCE_EXHAUSTED])
@on_virtual_time
async def test_another_endpoint_is_called_within_the_same_deadline(
    code: grpc.StatusCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that failed is left out for a while."""
    plugin = Plugin(monkeypatch, 2)
    first, second = plugin.replicas.values()
    first.answers = [failing(code)]
    second.answers = [answering(2)]
    assert await plugin.call() == 2
    assert (first.calls, second.calls) == ([("Filter", DEADLINE)], [("Filter", DEADLINE - 0.25)])
    assert first.renewals == 1
    assert plugin.connection.statistics().failed == 0
    await plugin.call()
    assert (len(first.calls), len(second.calls)) == (1, 2)
    await asyncio.sleep(remote_connection.AVOID_SECONDS)
    await plugin.call()
    assert (len(first.calls), len(second.calls)) == (2, 2)


@on_virtual_time
async def test_a_call_fails_if_no_endpoint_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch, 2)
    for each in plugin.replicas.values():
        each.answers = [failing(Code.UNAVAILABLE, "gone")]
    assert await plugin.failure() == f"{SECOND}: UNAVAILABLE: gone"
    found = plugin.connection.statistics()
    assert (found.failed, found.last_error) == (1, f"Filter: {SECOND}: UNAVAILABLE: gone")


@on_virtual_time
async def test_no_other_endpoint_is_called_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch, 2)
    first, second = plugin.replicas.values()
    first.seconds, first.answers = DEADLINE, [failing(Code.UNAVAILABLE)]
    assert (await plugin.failure()).startswith(f"{FIRST}: UNAVAILABLE")
    assert second.calls == []


@on_virtual_time
async def test_a_plugin_without_an_endpoint_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await Plugin(monkeypatch, endpoints=[]).failure() == "none of its endpoints is ready"


@pytest.mark.parametrize(
    ("answer", "text", "is_failure"),
    [
        (failing(Code.INTERNAL, "broken\n  down"), "INTERNAL: broken down", True),
        (failing(Code.INVALID_ARGUMENT, "no"), "INVALID_ARGUMENT: no", False),
        (failing(Code.NOT_FOUND, "no"), "NOT_FOUND: no", False),
        (failing(Code.OUT_OF_RANGE, "no"), "OUT_OF_RANGE: no", False),
        (failing(Code.FAILED_PRECONDITION, "no", "other"), "FAILED_PRECONDITION (other): no", False),
        (failing(Code.UNIMPLEMENTED, "no"), "UNIMPLEMENTED: no", True),
        (b"\xff", "the answer to Filter is wrong: ", True),
    ],
)
@on_virtual_time
async def test_a_rejected_request_is_no_failure_of_the_plugin(
    answer: Any, text: str, is_failure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says something about one request, and the plugin is called about others."""
    plugin = Plugin(monkeypatch, 2, breaker_failures=1, breaker_open_ms=60_000)
    plugin.first.answers = [answer]
    assert (await plugin.failure()).startswith(f"{FIRST}: {text}")
    found = plugin.connection.statistics()
    assert (found.failed, found.last_error_age) == (1, 0.0)
    assert found.breaker is (remote_breaker.State.OPEN if is_failure else remote_breaker.State.CLOSED)
    assert plugin.replicas[SECOND].calls == []


@on_virtual_time
async def test_an_answer_that_its_reader_refuses_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: message.Message) -> None:
        raise ValueError("statuses: has 3 entries")

    plugin = Plugin(monkeypatch)
    with pytest.raises(remote_connection.PluginError, match=f"{FIRST}: the answer to Filter is wrong: statuses"):
        await plugin.connection.call(FILTER, b"", refuse)
    assert plugin.connection.statistics().failed == 1


@on_virtual_time
async def test_a_plugin_that_hangs_is_named_with_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch)
    plugin.first.seconds = DEADLINE + 1.0
    assert await plugin.failure() == f"{FIRST}: no answer within 2000 ms (remotePlugins[].deadline)"


@on_virtual_time
async def test_a_method_that_need_not_be_served_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch)
    plugin.first.answers = [failing(Code.UNIMPLEMENTED), failing(Code.INTERNAL)]
    with pytest.raises(remote_connection.NotServed):
        await plugin.call(OPTIONAL)
    assert (plugin.connection.statistics().answered, plugin.connection.statistics().failed) == (1, 0)
    assert (await plugin.failure(OPTIONAL)).startswith(f"{FIRST}: INTERNAL")


_CONFIGURATION = plugin_pb2.ConfigureRequest(profile="p", args_json=b'{"a":1}')


@pytest.mark.parametrize("streams", [False, True], ids=["answer", "stream"])
@on_virtual_time
async def test_a_plugin_that_lacks_its_configuration_gets_it_and_is_called_again(
    streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All within one deadline."""
    plugin = Plugin(monkeypatch, configurations=[_CONFIGURATION])
    if streams:
        plugin.first.answers = [[LACKS_CONFIGURATION], b"", [answering(5), answering(6)]]
        assert await plugin.read() == [5, 6]
    else:
        plugin.first.answers = [LACKS_CONFIGURATION, b"", answering(5)]
        assert await plugin.call() == 5
    assert plugin.first.calls == [("Filter", 2.0), ("Configure", 1.75), ("Filter", 1.5)]
    assert [(each.profile, each.config_hash) for each in plugin.first.configured] == [("p", 77)]
    found = plugin.connection.statistics()
    assert (found.answered, found.failed, sum(found.durations)) == (1, 0, 1)


@pytest.mark.parametrize("streams", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize("how", ["refuses", "has none", "other reason", "late"])
@on_virtual_time
async def test_a_plugin_that_cannot_be_configured_is_not_called_again(
    how: str, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(monkeypatch, configurations=[] if how == "has none" else [_CONFIGURATION])
    refusing = plugin_pb2.ConfigureResponse(errors=[plugin_pb2.FieldError(field="a", message="is wrong")])
    error = failing(Code.FAILED_PRECONDITION, "no", "other") if how == "other reason" else LACKS_CONFIGURATION
    if how == "late":
        plugin.first.seconds = DEADLINE
    plugin.first.answers = [[error] if streams else error, refusing.SerializeToString()]
    if streams:
        with pytest.raises(remote_connection.PluginError) as raised:
            await plugin.read()
        text = str(raised.value)
    else:
        text = await plugin.failure()
    refused = "profile p: pluginConfig: a: is wrong"
    assert text.startswith(f"{FIRST}: {refused if how == 'refuses' else 'FAILED_PRECONDITION'}")
    assert [name for name, _ in plugin.first.calls] == ["Filter", *(["Configure"] if how == "refuses" else [])]
    assert plugin.connection.statistics().failed == 1


@pytest.mark.parametrize(
    ("follows", "error", "calls"),
    [
        (True, failing(Code.FAILED_PRECONDITION), 3),
        (True, failing(Code.FAILED_PRECONDITION, reason="other"), 1),
        (True, failing(Code.INTERNAL), 1),
        (False, failing(Code.FAILED_PRECONDITION), 1),
    ],
)
@on_virtual_time
async def test_a_plugin_that_is_behind_the_cluster_is_called_again_soon(
    follows: bool, error: aio.AioRpcError, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = plugin_pb2.NODE_DATA_SNAPSHOT if follows else plugin_pb2.NODE_DATA_NAMES
    plugin = Plugin(monkeypatch, info=plugin_pb2.PluginInfo(node_data=data))
    plugin.first.answers = [error, error, answering(6)]
    if calls == 3:
        assert await plugin.call() == 6
        assert plugin.first.calls == [("Filter", 2.0), ("Filter", 1.73), ("Filter", 1.46)]
    else:
        await plugin.failure()
        assert len(plugin.first.calls) == 1


@on_virtual_time
async def test_a_plugin_that_stays_behind_the_cluster_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch, info=plugin_pb2.PluginInfo(node_data=plugin_pb2.NODE_DATA_SNAPSHOT))
    plugin.first.seconds = 0.01
    plugin.first.answers = [failing(Code.FAILED_PRECONDITION, "behind")] * 100
    started = plugin.now()
    assert await plugin.failure() == f"{FIRST}: FAILED_PRECONDITION: behind"
    assert DEADLINE - 0.07 < plugin.now() - started <= DEADLINE


# --- streams ---------------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_answers_of_a_stream_come_in_order_and_waiting_for_the_caller_is_no_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = Plugin(monkeypatch)
    plugin.first.answers = [[answering(1), answering(2)]]
    assert await plugin.read(pause=100.0) == [1, 2]
    found = plugin.connection.statistics()
    assert (found.answered, found.in_flight) == (1, 0)
    plugin.first.answers = [answering(3)]
    plugin.first.seconds = 0.75
    await plugin.call()
    assert max(plugin.connection.statistics().durations) == 2, "both took as long for the plugin"


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([answering(1), failing(Code.UNAVAILABLE, "gone")], "UNAVAILABLE: gone"),
        ([answering(1), b"\xff"], "the answer to Filter is wrong: "),
    ],
)
@on_virtual_time
async def test_a_stream_that_fails_is_not_tried_elsewhere(
    answers: list[Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part of its work may be done."""
    plugin = Plugin(monkeypatch, 2)
    plugin.first.answers = [answers]
    with pytest.raises(remote_connection.PluginError, match=f"{FIRST}: {text}"):
        await plugin.read()
    assert plugin.replicas[SECOND].calls == []
    found = plugin.connection.statistics()
    assert (found.answered, found.failed, found.in_flight) == (0, 1, 0)
    assert plugin.first.streams[0].cancelled is ("wrong" in text)


@on_virtual_time
async def test_a_stream_that_its_caller_leaves_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch)
    plugin.first.answers = [[answering(1), answering(2)]]
    responses = plugin.connection.call_stream(FILTER, b"")
    assert inspect.isasyncgen(responses)
    async with contextlib.aclosing(responses):
        assert (await anext(responses)).evaluated_generation == 1
        assert plugin.connection.statistics().in_flight == 1
    assert plugin.first.streams[0].cancelled
    found = plugin.connection.statistics()
    assert (found.answered, found.failed, found.in_flight) == (0, 0, 0)


# --- breaker, budget, turns ------------------------------------------------------------------------------------------


async def _broken(plugin: Plugin, method: remote_connection.Method[Any]) -> None:
    """A failure opens the breaker, and its time goes by."""
    plugin.first.answers = [failing(Code.INTERNAL, "broken")]
    await plugin.failure(method)
    assert "the circuit breaker of plugin Quota is open" in await plugin.failure(method)
    assert plugin.connection.statistics().not_called == 1
    await asyncio.sleep(10.0)


@pytest.mark.parametrize("hangs", [False, True])
@on_virtual_time
async def test_a_call_that_tries_whether_a_plugin_is_back_holds_its_caller_up_for_a_moment(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call goes on, and its answer closes the breaker."""
    plugin = Plugin(monkeypatch, breaker_failures=1, breaker_open_ms=10_000)
    await _broken(plugin, FILTER)
    plugin.first.seconds = 1.0 if hangs else 0.01
    plugin.first.answers = [answering(8)]
    started = plugin.now()
    if hangs:
        assert (await plugin.failure()).startswith("a test call is under way; the circuit breaker of plugin Quota is")
        assert plugin.now() - started == pytest.approx(remote_connection.PROBE_SECONDS)
        await asyncio.sleep(1.0)
    else:
        assert await plugin.call() == 8
    assert plugin.connection.statistics().breaker is remote_breaker.State.CLOSED
    plugin.first.answers = [answering(9)]
    assert await plugin.call() == 9


@on_virtual_time
async def test_a_call_that_changes_something_is_waited_for_also_if_it_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(monkeypatch, breaker_failures=1, breaker_open_ms=10_000)
    await _broken(plugin, RESERVE)
    plugin.first.seconds = 1.0
    await plugin.connection.call(RESERVE, b"", lambda response: None)
    assert plugin.connection.statistics().answered == 1


@pytest.mark.parametrize("how", ["close", "cancel"])
@on_virtual_time
async def test_a_call_that_tries_ends_with_its_caller_or_the_connection(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(monkeypatch, breaker_failures=1, breaker_open_ms=10_000)
    await _broken(plugin, FILTER)
    plugin.first.seconds = 1.5
    trying = asyncio.create_task(plugin.failure())
    await asyncio.sleep(0.05)
    if how == "cancel":
        trying.cancel()
        await asyncio.wait({trying})
        assert trying.cancelled()
    else:
        await trying
        assert plugin.connection.statistics().in_flight == 1
        await plugin.connection.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    found = plugin.connection.statistics()
    assert (found.in_flight, found.answered) == (0, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("ignores", [False, True])
@on_virtual_time
async def test_only_a_plugin_that_may_be_left_out_has_a_budget(ignores: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignores else snapshot_pb2.FAILURE_POLICY_FAIL
    plugin = Plugin(monkeypatch, budget_ms_per_second=100, failure_policy=policy)
    plugin.first.seconds = 1.5
    await plugin.call()
    found = plugin.connection.statistics()
    assert (found.over_budget, found.bypassed) == (ignores, 0)
    if ignores:
        with pytest.raises(remote_connection.NotCalled, match="Filter was not called: the plugin is bypassed"):
            await plugin.call()
        assert plugin.connection.statistics().bypassed == 1
        await asyncio.sleep(6.0)
    await plugin.call()


@on_virtual_time
async def test_more_calls_than_a_plugin_takes_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline of a call begins with its turn; one that is cancelled waits no more."""
    plugin = Plugin(monkeypatch, info=plugin_pb2.PluginInfo(max_concurrent_calls=2))
    calls = [asyncio.create_task(plugin.call()) for _ in range(4)]
    await asyncio.sleep(0.1)
    found = plugin.connection.statistics()
    assert (found.in_flight, found.waiting) == (2, 2)
    calls[3].cancel()
    await asyncio.wait({calls[3]})
    assert plugin.connection.statistics().waiting == 1
    started = plugin.now()
    await asyncio.gather(*calls[:3])
    assert plugin.now() - started == pytest.approx(0.4)
    assert plugin.first.calls == [("Filter", DEADLINE)] * 3
    found = plugin.connection.statistics()
    assert (found.in_flight, found.waiting, found.answered) == (0, 0, 3)


@on_virtual_time
async def test_a_call_is_announced_when_its_turn_comes_and_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def during() -> Any:
        seen.append(f"{len(plugin.first.calls) + len(plugin.replicas[SECOND].calls)} before")
        try:
            yield
        except aio.AioRpcError:
            seen.append("failed")
            raise
        seen.append("answered")

    plugin = Plugin(monkeypatch, 2)
    plugin.first.answers = [failing(Code.UNAVAILABLE)]
    await plugin.connection.call(RESERVE, b"", lambda response: None, during)
    assert seen == ["0 before", "failed", "1 before", "answered"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": ""}, "remote_plugins: a plugin has no name"),
        ({"deadline_ms": 0}, "plugin Quota: deadline_ms: must be above 0"),
        ({"endpoints": ["nonsense"]}, "plugin Quota: endpoints: 'nonsense' is neither"),
    ],
)
async def test_a_wrong_configuration_names_the_field(
    fields: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=text):
        Plugin(monkeypatch, **fields)


@on_virtual_time
async def test_only_a_plugin_in_shadow_has_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Plugin(monkeypatch, shadow=True).connection.statistics().comparisons
    assert found is not None
    assert found.compared == 0
