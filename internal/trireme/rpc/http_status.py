"""Which HTTP status answers a request whose RPC failed."""

from collections.abc import Mapping

import grpc

_OF_CODES: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 503,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


def of_code(code: grpc.StatusCode) -> int:
    """The status for the code of a failed call; 500 where the code says nothing about what the caller can do."""
    return _OF_CODES.get(code, 500)
