"""BindPhaseClient: which replicas have links, when the leader counts as announced, and what a call is sent."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import bind_phase_client, endpoints
from trireme.rpc import dialing, message_sizes
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2

DEADLINE = 7.0


class Link:
    """A link whose replica confirms the leader when the test says; `stub` answers all calls."""

    def __init__(
        self, address: str, _: object, fence_request: object, changed: Callable[[], None], found: Callable[..., None]
    ) -> None:
        self.address, self.stub = address, self
        self.changed, self.found_older_work = changed, found
        self.connection = self
        self.channel = f"channel of {address}"
        self.callable, self.is_leaving, self.announced, self.fenced = True, False, False, False
        self.in_flight = 0
        self.heard: list[str] = []
        self.calls: list[tuple[str, Any, float]] = []
        self.answers: list[Any] = []

    @property
    def is_usable(self) -> bool:
        return self.fenced and self.callable

    async def keep_fenced(self) -> None:
        await asyncio.Event().wait()

    def confirm(self, drain_seconds: float = 0.0) -> None:
        self.announced = self.fenced = True
        self.found_older_work(self.address, drain_seconds)
        self.changed()

    def announce_again(self) -> None:
        self.heard.append("announced again")

    def stop_calling(self, error: BaseException) -> None:
        self.heard.append("stopped")

    def record_answer(self) -> None:
        self.heard.append("answered")

    def statistics(self) -> str:
        return f"state of {self.address}"

    async def drain(self) -> None:
        self.heard.append("drained")

    async def close(self) -> None:
        self.heard.append("closed")

    # The stub

    def __getattr__(self, rpc: str) -> Callable[..., Any]:
        def call(request: Any, timeout: float) -> Any:
            copy = type(request)()
            copy.CopyFrom(request)
            self.calls.append((rpc, copy, timeout))
            return _Answering(self.answers.pop(0))

        return call


class _Answering:
    """A call: a message or an error for a plain one, the results for one that streams."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        if isinstance(self._answer, grpc.StatusCode):
            raise aio.AioRpcError(self._answer, aio.Metadata(), aio.Metadata(), "it failed")
        return self._answer

    async def read(self) -> Any:
        answer, self._answer = self._answer, None
        return aio.EOF if answer is None else answer

    def cancel(self) -> None:
        """It has ended."""


class Binders:
    """The client, and what it notifies of."""

    def __init__(self, *addresses: str) -> None:
        self.changes = 0
        self.client = bind_phase_client.BindPhaseClient(
            lambda: cycle_pb2.Fence(epoch=4),
            bind_phase_pb2.FenceRequest,
            dialing.Dialer(),
            DEADLINE,
            self._note_change,
            lambda: 77,
        )
        self.client.set_endpoints(addresses)

    def _note_change(self) -> None:
        self.changes += 1

    @property
    def links(self) -> dict[str, Any]:
        return dict(self.client._links)

    def observe(self, *uncallable: str, complete: bool = True) -> None:
        self.client.observe(endpoints.Discovery(complete, uncallable))


@pytest.fixture(autouse=True)
def _fake_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind_phase_client, "BindLink", Link)


async def _announced(binders: Binders) -> None:
    for link in binders.links.values():
        link.confirm()
    await binders.client.wait_until_announced(0.0)


@on_virtual_time
async def test_replicas_that_get_no_calls_matter_until_the_leader_is_announced() -> None:
    """They may still bind for an earlier leader; afterwards they have nothing to say."""
    binders = Binders("a", "b")
    binders.observe("old", "b")
    assert {address: link.callable for address, link in binders.links.items()} == {"a": True, "b": True, "old": False}
    binders.client.set_endpoints(["a"])
    links = binders.links
    assert [links[each].callable for each in ("a", "b", "old")] == [True, False, False]
    for link in links.values():
        link.confirm()
    assert binders.client.answering() == ["a"]
    await _announced(binders)
    assert list(binders.links) == ["a"]
    assert (links["a"].is_leaving, links["b"].is_leaving, links["old"].is_leaving) == (False, True, True)
    await asyncio.sleep(1.0)
    assert [links[each].heard for each in ("a", "b", "old")] == [[], ["drained", "closed"], ["drained", "closed"]]
    binders.observe("late")
    assert list(binders.links) == ["a"]
    await binders.client.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@on_virtual_time
async def test_the_links_are_listed_and_all_are_announced_to_again() -> None:
    binders = Binders("b", "a")
    assert binders.changes == 1
    client = binders.client
    assert (client.available, client.answering()) == (False, [])
    assert client.statistics() == ["state of a", "state of b"]
    assert client.channels() == [("a", "channel of a"), ("b", "channel of b")]
    client.announce_again()
    assert [link.heard for link in binders.links.values()] == [["announced again"]] * 2
    binders.links["b"].confirm()
    assert (client.available, client.answering(), binders.changes) == (True, ["b"], 2)
    binders.observe()
    assert binders.changes == 3
    await client.close()


@pytest.mark.parametrize(
    ("confirmed", "complete", "waits"),
    [("", True, "forever"), ("a", True, "with patience"), ("ab", False, "with patience"), ("ab", True, "not")],
)
@on_virtual_time
async def test_a_leader_waits_for_one_replica_and_with_patience_for_the_others(
    confirmed: str, complete: bool, waits: str, caplog: pytest.LogCaptureFixture
) -> None:
    binders = Binders("a", "b")
    binders.observe(complete=complete)
    loop = asyncio.get_running_loop()
    waiting = asyncio.create_task(binders.client.wait_until_announced(3.0))
    await asyncio.sleep(1.0)
    for address in confirmed:
        binders.links[address].confirm()
    started = loop.time()
    await asyncio.wait({waiting}, timeout=60.0)
    assert waiting.done() == (waits != "forever")
    if waits == "forever":
        binders.links["a"].confirm()
        binders.links["b"].confirm()
        assert await waiting == 0.0
    assert loop.time() - started == pytest.approx({"not": 0.0, "with patience": 3.0, "forever": 60.0}[waits])
    texts = [record.getMessage() for record in caplog.records]
    assert any("cannot be read" in text for text in texts) == (not complete)
    unreached = [text.partition(";")[0] for text in texts if "bind cannot be reached" in text]
    assert unreached == (["bind cannot be reached: b"] if confirmed == "a" else [])
    await binders.client.close()


@pytest.mark.parametrize("last", ["a replica confirms", "all addresses are read", "a replica goes"])
@on_virtual_time
async def test_a_leader_is_announced_as_soon_as_nothing_more_is_waited_for(last: str) -> None:
    """If a wake-up is missing, a takeover lasts as long as its patience."""
    binders = Binders("a", "b")
    binders.observe(complete=last != "all addresses are read")
    waiting = asyncio.create_task(binders.client.wait_until_announced(3600.0))
    binders.links["a"].confirm()
    if last == "all addresses are read":
        binders.links["b"].confirm()
    await asyncio.sleep(1.0)
    assert not waiting.done()
    if last == "a replica confirms":
        binders.links["b"].confirm()
    elif last == "a replica goes":
        binders.client.set_endpoints(["a"])
    else:
        binders.observe()
    await asyncio.sleep(0.1)
    assert waiting.done()
    await binders.client.close()


@on_virtual_time
async def test_a_leader_learns_how_long_work_of_an_earlier_one_may_take_effect() -> None:
    binders = Binders("a", "b", "c")
    for address, seconds in (("a", 2.0), ("b", 9.0), ("c", 4.0)):
        binders.links[address].confirm(seconds)
    await asyncio.sleep(3.0)
    assert await binders.client.wait_until_announced(0.0) == pytest.approx(6.0)
    await asyncio.sleep(30.0)
    assert await binders.client.wait_until_announced(0.0) == 0.0
    await binders.client.close()


@on_virtual_time
async def test_a_call_waits_for_a_replica_that_knows_the_leader() -> None:
    binders = Binders("a")
    link = binders.links["a"]
    link.answers = [bind_pb2.PermitResponse()]
    running = asyncio.create_task(binders.client.permit(bind_pb2.PermitRequest()))
    await asyncio.sleep(60.0)
    assert not running.done()
    link.confirm()
    await asyncio.sleep(0.1)
    assert running.done()
    await binders.client.close()


def _cycle(number: int = 0) -> cycle_pb2.Cycle:
    return cycle_pb2.Cycle(pod_class=number)


def _item(uid: str) -> bind_pb2.BindItem:
    return bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(uid=uid))


@pytest.mark.parametrize("rpc", ["Permit", "PostBind"])
@on_virtual_time
async def test_a_call_with_one_response_has_the_leader_and_its_deadline_and_fails_with_the_code(rpc: str) -> None:
    binders = Binders("a")
    (link,) = binders.links.values()
    link.confirm()
    response = bind_pb2.PermitResponse() if rpc == "Permit" else bind_pb2.PostBindResponse()
    link.answers = [response, grpc.StatusCode.INTERNAL]
    client: Any = binders.client
    call, request = {
        "Permit": (client.permit, bind_pb2.PermitRequest(cycle=_cycle())),
        "PostBind": (client.post_bind, bind_pb2.PostBindRequest(cycle=_cycle())),
    }[rpc]
    assert await call(request) == (response if rpc == "Permit" else None)
    ((name, sent, seconds),) = link.calls
    assert (name, seconds, sent.cycle.fence.epoch, sent.cycle.config_hash) == (rpc, DEADLINE, 4, 77)
    with pytest.raises(ports.PhaseFault, match="INTERNAL: it failed"):
        await call(request)
    await binders.client.close()


@on_virtual_time
async def test_a_call_goes_to_the_replica_that_it_is_meant_for_while_that_may_be_called() -> None:
    binders = Binders("a", "b", "c")
    for link in binders.links.values():
        link.confirm()
    actions = [bind_pb2.Action(pod=cycle_pb2.PodIdentity(uid="u"))]
    results = [bind_pb2.BindResult(index=index) for index in (1, 0)]
    response = bind_phase_pb2.ApplyResponse(results=results)  # the first is of no action

    async def applied(address: str) -> str:
        for link in binders.links.values():
            link.calls.clear()
            link.answers = [response]
        await binders.client.apply(actions, address=address)
        (called,) = [link for link in binders.links.values() if link.calls]
        ((rpc, sent, seconds),) = called.calls
        assert (rpc, sent.fence.epoch, seconds) == ("Apply", 4, bind_phase_client.STREAM_SECONDS)
        return str(called.address)

    assert [await applied("b") for _ in range(3)] == ["b", "b", "b"]
    assert {await applied("") for _ in range(3)} == {"a", "b", "c"}
    binders.links["b"].fenced = False
    assert {await applied("b") for _ in range(2)} == {"a", "c"}
    assert await applied("gone") in ("a", "c")
    await binders.client.close()


@pytest.mark.parametrize("pre_flight", [True, False])
@on_virtual_time
async def test_items_share_a_cycle_with_their_neighbours_and_each_is_answered_once(pre_flight: bool) -> None:
    """An answer about an item that was not sent, or again, is none."""
    binders = Binders("a")
    (link,) = binders.links.values()
    link.confirm()
    cycles = [_cycle(number) for number in (1, 2)]
    items = [ports.PreBindItem(cycles[which], _item(uid)) for uid, which in (("a", 0), ("b", 0), ("c", 1), ("d", 0))]
    kind = bind_phase_pb2.BindPhasePreBindPreFlightResponse if pre_flight else bind_phase_pb2.BindPhasePreBindResponse
    link.answers = [kind(results=[{"index": index} for index in each]) for each in ((0, 2, 0, 4, 9), (1, 2, 0))]  # type: ignore[misc]
    answered: list[int] = []
    client: Any = binders.client
    call = client.pre_bind_pre_flight if pre_flight else client.pre_bind
    await call(items, lambda index, _: answered.append(index))
    assert answered == [0, 2, 3, 1]
    rpc, first, seconds = link.calls[0]
    assert (rpc, seconds) == ("PreBindPreFlight" if pre_flight else "PreBind", bind_phase_client.STREAM_SECONDS)
    assert first.timeout_ms == DEADLINE * 1000
    sent = [(part.cycle.pod_class, [each.pod.uid for each in part.items]) for part in first.requests]
    assert sent == [(1, ["a", "b"]), (2, ["c"]), (1, ["d"])]
    assert {(part.cycle.fence.epoch, part.cycle.config_hash) for part in first.requests} == {(4, 77)}
    (_, second, _) = link.calls[1]
    assert [[each.pod.uid for each in part.items] for part in second.requests] == [["b", "d"]]
    await binders.client.close()


@pytest.mark.parametrize("rpc", ["Bind", "Permit", "PostBind", "PreBind", "PreBindPreFlight", "Apply"])
@on_virtual_time
async def test_what_is_too_large_for_a_call_is_divided_and_what_is_too_large_for_any_is_an_error(
    rpc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bind refuses such a message, and it would be sent again without end."""
    monkeypatch.setattr(message_sizes, "CALL_BYTES", 300)
    monkeypatch.setattr(message_sizes, "MAX_ITEM_BYTES", 250)
    binders = Binders("a")
    (link,) = binders.links.values()
    link.confirm()
    uids = ["a" * 200, "b" * 200, "c" * 251]
    items = [_item(uid) for uid in uids]
    answered: list[tuple[int, int]] = []
    client: Any = binders.client

    def note(index: int, result: Any) -> None:
        found = getattr(result, "status", result)
        answered.append((index, found.code))

    streamed: dict[str, Any] = {
        "Bind": bind_pb2.BindResponse,
        "Apply": bind_phase_pb2.ApplyResponse,
        "PreBind": bind_phase_pb2.BindPhasePreBindResponse,
        "PreBindPreFlight": bind_phase_pb2.BindPhasePreBindPreFlightResponse,
    }
    if rpc in streamed:
        link.answers = [streamed[rpc](results=[{"index": 0}]) for _ in range(2)]
    if rpc == "Permit":
        link.answers = [bind_pb2.PermitResponse(results=[bind_pb2.PermitResult()]) for _ in range(2)]
        for index, result in enumerate((await client.permit(bind_pb2.PermitRequest(items=items))).results):
            note(index, result)
    elif rpc == "PostBind":
        link.answers = [bind_pb2.PostBindResponse()] * 2
        with pytest.raises(ports.PhaseFault, match="too large for a call to bind"):
            await client.post_bind(bind_pb2.PostBindRequest(items=items))
    elif rpc == "Bind":
        async for result in client.bind(bind_pb2.BindRequest(items=items)):
            note(result.index, result)
    elif rpc == "Apply":
        await client.apply([bind_pb2.Action(pod=each.pod) for each in items], note)
    else:
        call = client.pre_bind if rpc == "PreBind" else client.pre_bind_pre_flight
        await call([ports.PreBindItem(_cycle(), each) for each in items], note)
    if rpc != "PostBind":
        error = status_pb2.CODE_ERROR
        assert sorted(answered) == [(0, 0), (1, 0), (2, error)]
    assert [name for name, *_ in link.calls] == [rpc] * 2
    await binders.client.close()


@on_virtual_time
async def test_a_call_to_bind_has_the_leader_and_repeats_what_has_no_answer() -> None:
    binders = Binders("a")
    (link,) = binders.links.values()
    link.confirm()
    link.answers = [bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=index)]) for index in (1, 0)]
    request = bind_pb2.BindRequest(cycle=_cycle(), items=[_item("a"), _item("b")])
    assert [result.index async for result in binders.client.bind(request)] == [1, 0]
    for rpc, sent, seconds in link.calls:
        assert (rpc, seconds) == ("Bind", bind_phase_client.STREAM_SECONDS)
        assert (sent.cycle.fence.epoch, sent.cycle.config_hash) == (4, 77)
    assert [[item.pod.uid for item in sent.items] for _, sent, _ in link.calls] == [["a", "b"], ["a"]]
    await binders.client.close()


@on_virtual_time
async def test_a_streaming_call_waits_for_a_replica_that_knows_the_leader() -> None:
    binders = Binders("a")
    link = binders.links["a"]
    result = bind_phase_pb2.IndexedPreBindResult(index=0)
    link.answers = [bind_phase_pb2.BindPhasePreBindResponse(results=[result])]
    started: list[tuple[int, str]] = []
    running = asyncio.create_task(
        binders.client.pre_bind(
            [ports.PreBindItem(_cycle(), _item("u"))],
            lambda index, result: None,
            lambda index, address: started.append((index, address)),
        )
    )
    await asyncio.sleep(60.0)
    assert (running.done(), started) == (False, [])
    link.confirm()
    await asyncio.sleep(0.1)
    assert (running.done(), started) == (True, [(0, "a")])
    await binders.client.close()


@on_virtual_time
async def test_where_nobody_looks_addresses_up_those_that_are_set_are_all() -> None:
    binders = Binders("a")
    waiting = asyncio.create_task(binders.client.wait_until_announced(3600.0))
    binders.links["a"].confirm()
    await asyncio.sleep(0.1)
    assert waiting.done()
    await binders.client.close()
