"""Serves QueueService with a plugin's pre_enqueue and queueing_hint."""

from typing import Any

import orjson
from grpc import aio

from trireme.sdk import result_checks
from trireme.sdk.invoker import Invoker
from trireme.v1 import queue_pb2, queue_pb2_grpc

METHODS = ("pre_enqueue", "queueing_hint")


class QueueServicer(queue_pb2_grpc.QueueServiceServicer):
    """One plugin's QueueService."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def PreEnqueue(
        self, request: queue_pb2.PreEnqueueRequest, context: aio.ServicerContext[Any, Any]
    ) -> queue_pb2.PreEnqueueResponse:
        """Call pre_enqueue for each pod."""
        await self._invoker.require(context, "pre_enqueue")
        response = queue_pb2.PreEnqueueResponse()
        async with self._invoker.turn(context, "PreEnqueue", "pre_enqueue"):
            await self._invoker.require_configuration(request.config_hash, context)
            config = self._invoker.configurations.get(request.config_hash, request.profile)
            named = self._invoker.config_argument("pre_enqueue", config)
            for pod in request.pods:
                answer = await self._invoker.call("pre_enqueue", pod, request.profile, **named)
                response.statuses.append(self._invoker.status_message(answer))
        return response

    async def QueueingHint(
        self, request: queue_pb2.QueueingHintRequest, context: aio.ServicerContext[Any, Any]
    ) -> queue_pb2.QueueingHintResponse:
        """Call queueing_hint for each pod."""
        await self._invoker.require(context, "queueing_hint")
        response = queue_pb2.QueueingHintResponse()
        async with self._invoker.turn(context, "QueueingHint", "queueing_hint"):
            await self._invoker.require_configuration(request.config_hash, context)
            old = orjson.loads(request.old_json) if request.old_json else None
            new = orjson.loads(request.new_json) if request.new_json else None
            for pod in request.pods:
                config = self._invoker.configurations.get_any(request.config_hash, pod.spec.scheduler_name)
                named = self._invoker.config_argument("queueing_hint", config)
                helps = await self._invoker.call("queueing_hint", pod, request.event, old, new, **named)
                helps = result_checks.check_bool(helps)
                response.hints.append(queue_pb2.HINT_QUEUE if helps else queue_pb2.HINT_QUEUE_SKIP)
        return response
