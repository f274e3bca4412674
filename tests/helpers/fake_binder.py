"""Bind without a process: a `ports.Binder` that answers about each pod on its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2

SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)


class FakeBinder:
    """Answers with success, unless a subclass overrides what it answers about a pod. It answers about all at once."""

    def receive(self, items: Sequence[Any], size: int) -> None:
        """A call with these items, in so many bytes, begins. May raise PhaseFault. Items: BindItem or Action."""

    async def permit_pod(self, item: bind_pb2.BindItem) -> bind_pb2.PermitResult:
        """Permit's answer."""
        return bind_pb2.PermitResult(status=SUCCESS)

    async def check_pod(self, item: ports.PreBindItem) -> status_pb2.Status:
        """PreBindPreFlight's answer."""
        return SUCCESS

    def address_for(self, item: ports.PreBindItem) -> str:
        """The replica that runs PreBind for the pod."""
        return "bind"

    async def prepare_pod(self, item: ports.PreBindItem) -> bind_pb2.PreBindResult:
        """PreBind's answer."""
        return bind_pb2.PreBindResult(status=SUCCESS)

    async def bind_pod(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        """Bind's answer."""
        return SUCCESS

    async def execute_action(self, action: bind_pb2.Action) -> status_pb2.Status:
        """Apply's answer."""
        return SUCCESS

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """As in `ports.Binder`."""
        self.receive(request.items, request.ByteSize())
        return bind_pb2.PermitResponse(results=await asyncio.gather(*map(self.permit_pod, request.items)))

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """As in `ports.Binder`."""
        self._receive_items(items)

        async def check(index: int, item: ports.PreBindItem) -> None:
            on_result(index, await self.check_pod(item))

        await asyncio.gather(*(check(index, item) for index, item in enumerate(items)))

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """As in `ports.Binder`."""
        self._receive_items(items)

        async def prepare(index: int, item: ports.PreBindItem) -> None:
            on_start(index, self.address_for(item))
            on_result(index, await self.prepare_pod(item))

        await asyncio.gather(*(prepare(index, item) for index, item in enumerate(items)))

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """As in `ports.Binder`; the results come in the order of the items."""
        self.receive(request.items, request.ByteSize())
        answers = [asyncio.ensure_future(self.bind_pod(item)) for item in request.items]
        try:
            for index, answer in enumerate(answers):
                yield bind_pb2.BindResult(index=index, status=await answer)
        finally:
            for answer in answers:
                answer.cancel()

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """As in `ports.Binder`; no plugin has to be notified."""
        self.receive(request.items, request.ByteSize())

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """As in `ports.Binder`."""
        self.receive(actions, sum(action.ByteSize() for action in actions))

        async def execute(index: int, action: bind_pb2.Action) -> bind_pb2.BindResult:
            result = bind_pb2.BindResult(index=index, status=await self.execute_action(action))
            if on_result is not None:
                on_result(index, result)
            return result

        return await asyncio.gather(*(execute(index, action) for index, action in enumerate(actions)))

    def _receive_items(self, items: Sequence[ports.PreBindItem]) -> None:
        size = sum(item.item.ByteSize() + item.cycle.ByteSize() for item in items)
        self.receive([item.item for item in items], size)
