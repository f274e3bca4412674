"""The services around the frontend of a `frontend_world.World`: each call waits until the test answers it."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from tests.helpers import fake_binder
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2

Json = dict[str, Any]

# The test's answer to a call, by the name of its RPC and its request.
Respond = Callable[[str, Any], Coroutine[Any, Any, Any]]


class FakePhase:
    """Filter's or score's replicas: one that is in step, and answers later."""

    def __init__(self, respond: Respond, publish: Callable[[bytes], None]) -> None:
        self.available = self.followed = True
        self.deadline_seconds = 30.0
        self.channel = _Channel(respond)
        self.identity = ("fake", 1)
        self.capacities: dict[Any, int] = {}
        self._publish = publish
        self.restarts = 0

    def stub(self, make: Callable[[Any], Any]) -> Any:
        """For calls to the replica."""
        return make(self.channel)

    def restart(self) -> None:
        """The configuration changed."""
        self.restarts += 1

    def note_capacities(self, key: tuple[str, int], generation: int) -> None:
        """The replica has the capacities of this class now."""
        self.capacities[key] = generation

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


class FakeBinders(fake_binder.FakeBinder):
    """Bind's replicas: each pod is answered about when the test says so; a replica that is down is called again."""

    def __init__(self, respond: Respond) -> None:
        self.available = True
        self._respond = respond
        self.restarts = 0

    def announce_again(self) -> None:
        """The configuration changed."""
        self.restarts += 1

    def statistics(self) -> list[Any]:
        """No statistics."""
        return []

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Permit, by the guard, for all pods of the call at once."""
        response: bind_pb2.PermitResponse = await self._respond("Permit", request)
        return response

    async def check_pod(self, item: ports.PreBindItem) -> status_pb2.Status:
        """Whether the pod has to be prepared."""
        request = bind_pb2.PreBindPreFlightRequest(cycle=item.cycle, items=[item.item])
        response: bind_pb2.PreBindPreFlightResponse = await self._respond_until_up("PreBindPreFlight", request)
        return response.statuses[0]

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        """PreBind's answer."""
        request = bind_pb2.PreBindRequest(cycle=item.cycle, items=[item.item])
        response: bind_pb2.PreBindResponse = await self._respond_until_up("PreBind", request)
        return response.results[0]

    async def bind_pod(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        """Bind's answer."""
        answer: status_pb2.Status = await self._respond("Bind", item)
        return answer

    async def execute_action(self, action: bind_pb2.Action) -> status_pb2.Status:
        """Apply's answer."""
        answer: status_pb2.Status = await self._respond("Apply", action)
        return answer

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
        """Callers have names alone."""
        raise AssertionError("an extender without a cache of its own")
