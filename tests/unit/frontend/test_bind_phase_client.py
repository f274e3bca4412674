"""How the frontend asks bind again for what it did not hear of."""

import abc
import asyncio
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
from grpc import aio

from tests.helpers import fake_binder
from trireme.cache import object_waits
from trireme.frontend.phase_clients import bind_phase_client
from trireme.rpc import dialing
from trireme.scheduling import item_batches, ports, pre_binding
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, status_pb2


class Stub:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[bind_pb2.BindRequest] = []
        self.applied: list[list[str]] = []

    def Bind(self, request: bind_pb2.BindRequest, timeout: float) -> None:
        kept = bind_pb2.BindRequest()
        kept.CopyFrom(request)
        self.asked.append(kept)

    def Apply(self, request: bind_phase_pb2.ApplyRequest, timeout: float) -> None:
        self.applied.append([action.pod.uid for action in request.actions])


class AnsweringClient(bind_phase_client.BindPhaseClient, abc.ABC):
    """The frontend's side of a replica whose every call has the results that a test chooses."""

    def __init__(self) -> None:
        super().__init__(cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 1.0, lambda: None)
        self.stub = Stub()

    async def _stream_from_replica(
        self, call: Callable[[Any], Any], choose: object = None
    ) -> AsyncIterator[bind_pb2.BindResult]:
        call(self.stub)
        for result in self.results():
            yield result

    @abc.abstractmethod
    def results(self) -> Iterator[bind_pb2.BindResult]:
        """Those of the call that has just been made."""


class Replicas(AnsweringClient):
    """Replicas whose first call answers about the first item alone, and about one that was not asked for."""

    def results(self) -> Iterator[bind_pb2.BindResult]:
        items = self.stub.asked[-1].items
        for index in range(len(items)) if len(self.stub.asked) > 1 else (0, 2):
            yield bind_pb2.BindResult(index=index)


async def test_a_repeated_bind_request_is_marked_as_repeated() -> None:
    replicas = Replicas()
    items = [bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(uid=uid), node_name="n") for uid in ("a", "b")]
    results = [result.index async for result in replicas.bind(bind_pb2.BindRequest(items=items))]
    assert results == [0, 1]
    first, second = replicas.stub.asked
    assert [item.outcome_unknown for item in first.items] == [False, False]
    assert [(item.pod.uid, item.outcome_unknown) for item in second.items] == [("b", True)]


class Repeating(AnsweringClient):
    """A replica that answers about the first action twice and then ends; called again it answers about the rest.

    Each time it also answers about an action that it was not sent.
    """

    def results(self) -> Iterator[bind_pb2.BindResult]:
        first = len(self.stub.applied) == 1
        yield bind_pb2.BindResult(index=2, status=status_pb2.Status(messages=["about none"]))
        for text in ("first", "again") if first else ("rest",):
            yield bind_pb2.BindResult(index=0, status=status_pb2.Status(messages=[text]))


async def test_a_result_that_apply_repeats_is_reported_once() -> None:
    replicas = Repeating()
    actions = [bind_pb2.Action(pod=cycle_pb2.PodIdentity(uid=uid)) for uid in ("a", "b")]
    reported: list[tuple[int, str]] = []
    results = await replicas.apply(actions, lambda index, result: reported.append((index, result.status.messages[0])))
    assert reported == [(0, "first"), (1, "rest")]
    assert [result.status.messages[0] for result in results] == ["first", "rest"]
    assert replicas.stub.applied == [["a", "b"], ["b"]]


class Dying(bind_phase_client.BindPhaseClient):
    """Replicas each of which ends without an answer; while the first one works, `meanwhile` happens."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 1.0, lambda: None)
        self.asked: list[list[str]] = []
        self._meanwhile = meanwhile

    def _next_fenced_replica(self) -> Any:
        return types.SimpleNamespace(address=f"bind-{len(self.asked)}")

    async def _stream_from_replica(self, call: Callable[[Any], Any], choose: Any = None) -> AsyncIterator[Any]:
        choose()
        call(self)
        if len(self.asked) == 1:
            self._meanwhile()
            return
        for index in range(len(self.asked[-1])):
            yield types.SimpleNamespace(index=index, result=bind_pb2.PreBindResult())

    def PreBind(self, request: bind_phase_pb2.BindPhasePreBindRequest, timeout: float) -> None:
        self.asked.append([item.pod.uid for each in request.requests for item in each.items])


async def test_a_pod_that_nobody_waits_for_is_not_prepared_again() -> None:
    """What was written for a deleted pod was undone, and then written again when the replica had died."""
    items = [
        ports.PreBindItem(cycle_pb2.Cycle(), bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(uid=uid)))
        for uid in ("gone", "stays")
    ]
    replicas = Dying(lambda: setattr(items[0], "cancelled", True))
    answered: list[int] = []
    started: list[tuple[int, str]] = []
    await replicas.pre_bind(
        items, lambda index, _: answered.append(index), lambda index, address: started.append((index, address))
    )
    assert replicas.asked == [["gone", "stays"], ["stays"]]
    assert answered == [1]
    assert started == [(0, "bind-0"), (1, "bind-0"), (1, "bind-1")]


async def test_pre_bind_that_is_cancelled_is_not_sent_again() -> None:
    """As above, from the side of the pod."""
    seen: list[ports.PreBindItem] = []

    class Binder(fake_binder.FakeBinder):
        async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
            seen.append(item)
            await asyncio.Event().wait()
            raise AssertionError("it is cancelled")

    binding = pre_binding.PreBinding(Binder(), object_waits.ObjectWaits(), lambda: 0.0, nominating=False)
    item = bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(uid="u"))
    run = asyncio.create_task(
        binding.run(cycle_pb2.Cycle(), item, item_batches.FIRST, lambda *_: None, lambda name: True)
    )
    while not seen:
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert seen[0].cancelled
    await binding.close()


class Hanging(bind_phase_client.BindPhaseClient):
    """Replicas that answer nothing; a call that is cancelled fails at that moment."""

    def __init__(self) -> None:
        super().__init__(cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 1.0, lambda: None)
        self.called = 0

    async def _wait_for_replica(self) -> Any:
        return types.SimpleNamespace(stub=self, in_flight=0, stop_calling=lambda error: None)

    async def PostBind(self, request: bind_pb2.PostBindRequest, timeout: float) -> None:
        self.called += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata()) from None


async def test_a_call_that_fails_because_it_is_cancelled_is_not_made_elsewhere() -> None:
    """The frontend would not end."""
    client = Hanging()
    calling = asyncio.create_task(client.post_bind(bind_pb2.PostBindRequest()))
    while not client.called:
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait({calling}, timeout=5.0)
    assert (calling.cancelled(), client.called) == (True, 1)
