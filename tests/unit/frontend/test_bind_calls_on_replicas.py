"""One call on the replicas of bind: on which one it is repeated, when the next one is made, and what is kept of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import bind_phase_client
from trireme.rpc import dialing, fencing
from trireme.v1 import bind_phase_pb2, cycle_pb2

Code = grpc.StatusCode
SILENCE = "silence"


def failed(code: grpc.StatusCode, reason: str = "") -> aio.AioRpcError:
    trailing = aio.Metadata((fencing.REASON_METADATA, reason)) if reason else aio.Metadata()
    return aio.AioRpcError(code, aio.Metadata(), trailing, "it failed")


class Link:
    """A replica that knows the leader until a call of it is stopped."""

    def __init__(self, name: str) -> None:
        self.stub = self.name = name
        self.is_usable = True
        self.in_flight = 0
        self.heard: list[str] = []
        self.connection = self
        self.closed = False

    def stop_calling(self, error: BaseException) -> None:
        self.is_usable = False
        self.heard.append("stopped")

    def log_call_failure(self, error: BaseException) -> None:
        self.heard.append("failed")

    def record_answer(self) -> None:
        self.heard.append("answered")

    def announce_again(self) -> None:
        self.heard.append("announced")

    async def close(self) -> None:
        self.closed = True


def client_of(*names: str) -> tuple[bind_phase_client.BindPhaseClient, list[Link]]:
    client = bind_phase_client.BindPhaseClient(
        cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 1.0, lambda: None
    )
    links = [Link(name) for name in names]
    made: Any = {link.name: link for link in links}
    client._links = made
    return client, links


def calling(*outcomes: grpc.StatusCode | None) -> tuple[list[str], Callable[[Any], Awaitable[str]]]:
    """The replicas that are called, and calls that end so; None: they are answered."""
    called: list[str] = []

    async def call(stub: Any) -> str:
        called.append(stub)
        outcome = outcomes[len(called) - 1]
        await asyncio.sleep(0.1)
        if outcome is not None:
            raise failed(outcome)
        return f"by {stub}"

    return called, call


@on_virtual_time
async def test_calls_go_round_the_replicas() -> None:
    client, links = client_of("a", "b")
    called, call = calling(None, None, None)
    for _ in range(3):
        await client._call_any_replica(call)
    assert sorted(called[:2]) == ["a", "b"]
    assert called[2] == called[0]
    assert [link.in_flight for link in links] == [0, 0]


@on_virtual_time
async def test_a_call_is_made_on_another_replica_where_one_is_away() -> None:
    client, links = client_of("a", "b", "c")
    called, call = calling(Code.UNAVAILABLE, None)
    running = asyncio.create_task(client._call_any_replica(call))
    await asyncio.sleep(0.05)
    assert sum(link.in_flight for link in links) == 1
    assert await running == f"by {called[1]}"
    assert len(set(called)) == 2
    assert {link.name: link.heard for link in links if link.heard} == {called[0]: ["stopped"]}
    assert [link.in_flight for link in links] == [0, 0, 0]


@on_virtual_time
async def test_a_call_that_is_refused_is_made_on_no_other_replica() -> None:
    """It is wrong, not the replica."""
    client, links = client_of("a", "b")
    called, call = calling(Code.INVALID_ARGUMENT)
    with pytest.raises(aio.AioRpcError):
        await client._call_any_replica(call)
    assert (len(called), [link.heard for link in links]) == (1, [[], []])
    assert [link.in_flight for link in links] == [0, 0]


@on_virtual_time
async def test_a_call_fails_where_every_replica_is_away() -> None:
    tries = bind_phase_client.UNARY_TRIES
    client, links = client_of(*(f"r{number}" for number in range(tries + 1)))
    called, call = calling(*[Code.UNAVAILABLE] * tries)
    with pytest.raises(aio.AioRpcError):
        await client._call_any_replica(call)
    assert len(set(called)) == len(called) == tries
    assert [link.in_flight for link in links] == [0] * (tries + 1)


class Answers:
    """The results of a streaming call: each a batch, a failure, None for its end, or silence."""

    def __init__(self, *parts: Sequence[int] | grpc.StatusCode | str | None) -> None:
        self._parts = list(parts)
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    async def read(self) -> Any:
        part = self._parts.pop(0)
        if part is None:
            return aio.EOF
        if part == SILENCE:
            await asyncio.Event().wait()
        if isinstance(part, grpc.StatusCode):
            raise failed(part)
        return SimpleNamespace(results=list(part))


@pytest.mark.parametrize(
    ("parts", "results", "pause", "heard"),
    [
        (([1, 2], [3], None), [1, 2, 3], 0.0, "answered"),
        ((None,), [], bind_phase_client.RETRY_SECONDS, "answered"),
        (([], None), [], bind_phase_client.RETRY_SECONDS, "answered"),
        (([1], Code.UNAVAILABLE), [1], bind_phase_client.RETRY_SECONDS, "stopped"),
        ((Code.RESOURCE_EXHAUSTED,), [], bind_phase_client.BUSY_SECONDS, "failed"),
        (([1], Code.RESOURCE_EXHAUSTED), [1], bind_phase_client.BUSY_SECONDS, "failed"),
        (([1], SILENCE), [1], bind_phase_client.SILENCE_SECONDS + bind_phase_client.RETRY_SECONDS, "stopped"),
    ],
    ids=["answered", "ended at once", "nothing in it", "broken off", "busy", "busy later", "silent"],
)
@on_virtual_time
async def test_a_call_whose_results_end_is_not_made_again_at_once_unless_all_was_well(
    parts: Any, results: list[int], pause: float, heard: str
) -> None:
    """A replica that ends without a word would be called as fast as it can."""
    client, (link,) = client_of("a")
    started = asyncio.get_running_loop().time()
    seen = []

    def call(stub: Any) -> Answers:
        assert (stub, link.in_flight) == ("a", 1)
        return Answers(*parts)

    async for result in client._stream_from_replica(call):
        seen.append(result)
        assert link.in_flight == 1
    assert (seen, link.heard, link.in_flight) == (results, [heard], 0)
    assert asyncio.get_running_loop().time() - started == pytest.approx(pause)


@on_virtual_time
async def test_a_call_whose_results_nobody_wants_any_more_is_ended() -> None:
    """The replica would go on for a leader that has gone."""
    client, (link,) = client_of("a")
    answers = Answers([1], SILENCE)
    results = client._stream_from_replica(lambda _: answers)
    assert await anext(results) == 1
    assert not answers.cancelled
    await results.aclose()
    assert (answers.cancelled, link.in_flight) == (True, 0)


@on_virtual_time
async def test_closing_ends_all_links_and_their_tasks() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    client, links = client_of("a", "b", "c")
    task = client.supervisor.keep("link", forever)
    await client.close()
    assert [link.closed for link in links] == [True] * 3
    assert task.cancelled()


@on_virtual_time
async def test_each_replica_is_told_of_another_configuration() -> None:
    client, links = client_of("a", "b", "c")
    client.announce_again()
    assert [link.heard for link in links] == [["announced"]] * 3


@pytest.mark.parametrize(("seconds", "announced", "warnings"), [(2.0, True, 1), (0.0, True, 0), (2.0, False, 0)])
@on_virtual_time
async def test_a_replica_that_is_found_late_with_work_of_an_earlier_leader_is_logged(
    seconds: float, announced: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = client_of()
    client._announced = announced
    client._note_older_work("b:1", 5.0 if not announced else seconds)
    client._note_older_work("b:2", 0.0)
    assert len(caplog.records) == warnings
    left = client._drained_at - asyncio.get_running_loop().time()
    assert left == pytest.approx(seconds if announced else 5.0), "the longest counts"


class Cancelled(Answers):
    """A streaming call that fails at the moment at which it is cancelled, as gRPC's do."""

    async def read(self) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise failed(Code.UNAVAILABLE) from None


@on_virtual_time
async def test_a_replica_is_not_given_up_because_a_call_of_it_is_cancelled() -> None:
    client, (link,) = client_of("a")

    async def read_all() -> None:
        async for _ in client._stream_from_replica(lambda _: Cancelled()):
            raise AssertionError("there is no result")

    reading = asyncio.create_task(read_all())
    await asyncio.sleep(0.1)
    reading.cancel()
    await asyncio.wait({reading}, timeout=bind_phase_client.SILENCE_SECONDS)
    assert (reading.cancelled(), link.heard, link.in_flight) == (True, [], 0)


@pytest.mark.parametrize("reason", [fencing.RefusalReason.CONFIG_MISMATCH, ""])
@on_virtual_time
async def test_a_replica_with_another_configuration_is_called_again_once_it_has_ours(reason: str) -> None:
    client, links = client_of("a", "b")
    called: list[str] = []

    async def call(stub: Any) -> str:
        called.append(stub)
        if len(called) == 1:
            raise failed(Code.FAILED_PRECONDITION, reason)
        return f"by {stub}"

    if reason:
        assert await client._call_any_replica(call) == f"by {called[1]}"
        assert [link.heard for link in links if link.name == called[0]] == [["stopped"]]
        assert called[0] != called[1]
    else:
        with pytest.raises(aio.AioRpcError):
            await client._call_any_replica(call)
        assert [link.heard for link in links] == [[], []]
