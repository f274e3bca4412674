"""Plugins that deal wrongly with leaders, deadlines, concurrent calls and odd requests."""

import asyncio
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tests.contract.broken.reference_plugin import ReferencePlugin, Refused
from trireme.plugin_verification import rpcs
from trireme.v1 import filter_pb2


class _Filters(ReferencePlugin):
    points = (rpcs.FILTER_POINT,)


class AnyEpoch(_Filters):
    """Answers deposed leaders."""

    violates = "P030"

    def admit(self, request: Any) -> None:
        self.epochs.clear()
        super().admit(request)


class StaleEpochWithoutReason(_Filters):
    """Refuses a deposed leader without the reason."""

    violates = "P031"

    def admit(self, request: Any) -> None:
        try:
            super().admit(request)
        except Refused as refused:
            if "epoch" in refused.details:
                raise Refused(refused.code, refused.details) from refused
            raise


class OneEpochForAll(_Filters):
    """Compares the epochs of two schedulers."""

    violates = "P032"

    def admit(self, request: Any) -> None:
        # As if all schedulers were one, as many as are verified one after the other.
        fence = request.cycle.fence
        if fence.scheduler_id.startswith("verify-low"):
            fence.scheduler_id = "verify-high"
            self.epochs["verify-high"] = max(self.epochs.values())
        super().admit(request)


class OneEpochForever(_Filters):
    """Refuses the next leader."""

    violates = "P033"

    def admit(self, request: Any) -> None:
        fence = request.cycle.fence
        if fence.epoch > self.epochs.get(fence.scheduler_id, fence.epoch):
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "the epoch is another one", "stale-epoch")
        super().admit(request)


class HangingFilter(_Filters):
    """Does not answer Filter."""

    violates = "P190"
    deadline_seconds = 0.3

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if rpc is rpcs.FILTER:
            await asyncio.sleep(60)
        return await super().answer(rpc, payload)


class FailsAfterCancellation(_Filters):
    """Fails after a call that was given up."""

    violates = "P191"
    poisoned = False

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if self.poisoned:
            raise Refused(grpc.StatusCode.INTERNAL, "the lock is held")
        try:
            # Calls with a short deadline are those that are given up.
            await asyncio.sleep(0.3 if (self.seconds_left or 1) < 0.5 else 0)
        except asyncio.CancelledError:
            self.poisoned = True
            raise
        return await super().answer(rpc, payload)


class SharedRequest(_Filters):
    """Has one request for all calls."""

    violates = "P192"
    request: filter_pb2.FilterRequest

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if rpc is not rpcs.FILTER:
            return await super().answer(rpc, payload)
        self.request = filter_pb2.FilterRequest.FromString(payload)
        self.admit(self.request)
        await asyncio.sleep(0.005)
        return self.Filter(self.request)


class StrictFields(_Filters):
    """Refuses fields that it does not know."""

    violates = "P193"

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if payload.endswith(b"new"):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "unknown field")
        return await super().answer(rpc, payload)


class SmallRequests(_Filters):
    """Has gRPC's own limit of a request."""

    violates = "P194"
    max_request_bytes = 4 << 20


class AnswersGarbage(_Filters):
    """Answers bytes that are no message."""

    violates = "P195"

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        try:
            return await super().answer(rpc, payload)
        except DecodeError:
            return rpc.response()


class NamedSchedulersOnly(_Filters):
    """Refuses schedulers without an identity."""

    violates = "P196"

    def admit(self, request: Any) -> None:
        if not request.cycle.fence.scheduler_id:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "fence.scheduler_id is not set")
        super().admit(request)
