"""Has the spans that a plugin makes with OpenTelemetry join the trace of the pod that it is called for.

Tests: tests/contract/test_trace_propagation.py.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from grpc import aio


@contextlib.contextmanager
def caller_as_parent(context: aio.ServicerContext[Any, Any]) -> Iterator[None]:
    """Make spans that begin in the block children of the caller's, if the plugin has imported OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    # By name, so that plugins without it need not install it.
    contexts, propagate = (importlib.import_module(f"opentelemetry.{name}") for name in ("context", "propagate"))
    token = contexts.attach(propagate.extract(dict(context.invocation_metadata() or ())))
    try:
        yield
    finally:
        contexts.detach(token)
