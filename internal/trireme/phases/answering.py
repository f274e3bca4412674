"""How filter and score answer calls: what an engine raises becomes the code that ends the call.

Tests: tests/unit/filter/test_service.py.
"""

from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
from grpc import aio

from trireme.evaluation import request_errors
from trireme.rpc import grpc_server
from trireme.snapshot import snapshot

Answer = TypeVar("Answer")


async def answer_or_abort(answering: Awaitable[Answer], context: aio.ServicerContext[Any, Any]) -> Answer:
    """The engine's answer; where it raises, the call ends with the code that tells the caller what to do.

    FAILED_PRECONDITION where the snapshot was replaced meanwhile or the request builds on what is not known here,
    INVALID_ARGUMENT where it makes no sense.
    """
    try:
        return await answering
    except snapshot.OutOfStepError as error:
        await grpc_server.abort(context, grpc.StatusCode.FAILED_PRECONDITION, f"cycle.generation: {error}")
    except request_errors.StaleRequestError as error:
        await grpc_server.abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
    except request_errors.InvalidRequestError as error:
        await grpc_server.abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
