"""How filter and score answer calls: what an engine says of a question that it cannot answer ends the call."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
from grpc import aio

from trireme.evaluation import request_errors
from trireme.snapshot import snapshot

Answer = TypeVar("Answer")


async def answer(asked: Awaitable[Answer], context: aio.ServicerContext[Any, Any]) -> Answer:
    """The engine's answer. Ends the call with FAILED_PRECONDITION where the snapshot was replaced meanwhile or the
    question builds on what is not known here, with INVALID_ARGUMENT where it makes no sense.
    """
    try:
        return await asked
    except snapshot.OutOfStepError as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"cycle.generation: {error}")
    except request_errors.StaleRequestError as error:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    except request_errors.InvalidRequestError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    raise AssertionError("abort does not return")
