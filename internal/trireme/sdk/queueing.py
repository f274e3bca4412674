"""Serves QueueService with a plugin's pre_enqueue, sort_key and queueing_hint.

Also change: sdk/go/queueing.go, sdk/java/src/main/java/dev/trireme/sdk/QueueHandlers.java,
sdk/rust/src/services/queueing.rs, sdk/typescript/src/services/queue_service.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/queue.proto (the messages).

Tests: tests/contract/test_plugin_sdk_queue.py.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from grpc import aio

from trireme.framework import sort_key
from trireme.sdk import result_checks, results
from trireme.sdk.invoker import Invoker
from trireme.v1 import queue_pb2, queue_pb2_grpc, status_pb2

METHODS = ("pre_enqueue", "sort_key", "queueing_hint")

_SORT_KEY = "a whole number of 64 bits, a tuple of 1 to 16 such, or a SortKey of these"


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

    async def QueueSort(
        self, request: queue_pb2.QueueSortRequest, context: aio.ServicerContext[Any, Any]
    ) -> queue_pb2.QueueSortResponse:
        """Call sort_key for each pod; where that fails about a pod, its status says so, and the others have keys."""
        await self._invoker.require(context, "sort_key")
        response = queue_pb2.QueueSortResponse()
        async with self._invoker.turn(context, "QueueSort", "sort_key"):
            await self._invoker.require_configuration(request.config_hash, context)
            config = self._invoker.configurations.get(request.config_hash, request.profile)
            named = self._invoker.config_argument("sort_key", config)
            for pod in request.pods:
                try:
                    answer = await self._invoker.call("sort_key", pod, request.profile, **named)
                    key, failure = _sort_key_message(answer), None
                except Exception as error:
                    key, failure = queue_pb2.SortKey(), self._invoker.failure("QueueSort", "sort_key", error)
                response.keys.append(key)
                response.statuses.append(self._invoker.status_message(failure and results.error(failure)))
        if all(each.code == status_pb2.CODE_SUCCESS for each in response.statuses):
            del response.statuses[:]
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


def _sort_key_message(answer: object) -> queue_pb2.SortKey:
    """The key of one pod. Raises: result_checks.InvalidResult."""
    level, rest = (answer.level, answer.rest) if isinstance(answer, results.SortKey) else (answer, ())
    levels, others = _numbers(level), _numbers(rest)
    if not levels or others is None:
        raise result_checks.reject(answer, _SORT_KEY)
    return queue_pb2.SortKey(level=levels, rest=others)


def _numbers(part: object) -> Sequence[int] | None:
    """The numbers of one part of a key; None: it is something else."""
    numbers = part if isinstance(part, (tuple, list)) else (part,)
    valid = all(type(number) is int and -(1 << 63) <= number < 1 << 63 for number in numbers)
    return numbers if valid and len(numbers) <= sort_key.MAX_NUMBERS else None
