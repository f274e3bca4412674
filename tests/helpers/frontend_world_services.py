"""The services around the frontend of a `frontend_world.World`: each call waits until the test answers it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import orjson

from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2

Json = dict[str, Any]

# The test's answer to a call, by the name of its RPC and its request.
Respond = Callable[[str, Any], Coroutine[Any, Any, Any]]


class FakePhase:
    """Filter's or score's replicas: one that is in step, and answers by and by."""

    def __init__(self, respond: Respond, publish: Callable[[bytes], None]) -> None:
        self.available = self.followed = True
        self.deadline_seconds = 30.0
        self.channel = _Channel(respond)
        self.identity = ("fake", 1)
        self.capacities: dict[Any, int] = {}
        self._publish = publish

    def statistics(self) -> list[Any]:
        """No statistics."""
        return []

    def publish(self, request: bytes, generation: int) -> None:
        """The replica gets a delta."""
        self._publish(request)

    def preferred(self, profile: str, class_id: int) -> list[Any]:
        """Nobody prepares anything."""
        return []

    async def call(self, profile: str, class_id: int, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        """As Replicas.ask."""
        return await call(self)


class _Channel:
    """What a stub needs of a channel."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    def unary_unary(self, path: str, *_: Any, **__: Any) -> Callable[..., Any]:
        """One call."""
        rpc = path.rpartition("/")[2]
        return lambda request, timeout: self._respond(rpc, request)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class FakeBinders:
    """Bind's replicas."""

    def __init__(self, respond: Respond) -> None:
        self.available = True
        self._respond = respond

    def statistics(self) -> list[Any]:
        """No statistics."""
        return []

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items, each when the test says so."""
        items = [asyncio.ensure_future(self._respond("Bind", item)) for item in request.items]
        try:
            for index, item in enumerate(items):
                yield bind_pb2.BindResult(index=index, status=await item)
        finally:
            for item in items:
                item.cancel()

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Carry out actions."""

        async def one(index: int, action: bind_pb2.Action) -> bind_pb2.BindResult:
            result = bind_pb2.BindResult(index=index, status=await self._respond("Apply", action))
            if on_result is not None:
                on_result(index, result)
            return result

        return await asyncio.gather(*(one(index, action) for index, action in enumerate(actions)))

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Permit, by the guard."""
        response: bind_pb2.PermitResponse = await self._respond("Permit", request)
        return response

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """No plugin has to be notified."""

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Whether each pod has to be prepared; a replica that is down is called again."""

        async def one(index: int, item: ports.PreBindItem) -> None:
            request = bind_pb2.PreBindPreFlightRequest(cycle=item.cycle, items=[item.item])
            on_result(index, (await self._respond_until_up("PreBindPreFlight", request)).statuses[0])

        await asyncio.gather(*(one(index, item) for index, item in enumerate(items)))

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """Prepare pods, each on its own; a replica that is down is called again."""

        async def one(index: int, item: ports.PreBindItem) -> None:
            on_start(index, "bind")
            request = bind_pb2.PreBindRequest(cycle=item.cycle, items=[item.item])
            on_result(index, (await self._respond_until_up("PreBind", request)).results[0])

        await asyncio.gather(*(one(index, item) for index, item in enumerate(items)))

    async def _respond_until_up(self, rpc: str, request: Any) -> Any:
        while True:
            with contextlib.suppress(ports.PhaseFault):
                return await self._respond(rpc, request)


class FakeExtender:
    """An HTTP extender."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    async def send(self, verb: str, body: bytes) -> Any:
        """As an extender's client."""
        return await self._respond(f"Extender{verb.capitalize()}", orjson.loads(body))


class ObjectsOfPods:
    """Pods as the API server has them, by UID, for extenders."""

    def __init__(self, find: Callable[[str], Json | None]) -> None:
        self._find = find

    def pod(self, uid: str, node_name: str = "") -> bytes | None:
        """A pod that was delivered."""
        raw = self._find(uid)
        return None if raw is None else orjson.dumps(raw)

    def node(self, name: str) -> bytes | None:
        """Whoever asks has names alone."""
        raise AssertionError("an extender without a cache of its own")
