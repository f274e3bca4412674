"""Turns tracing on for a process, if the environment says so.

Tests: tests/contract/test_otlp_export.py.
"""

import contextlib
from collections.abc import Iterator

from trireme.tracing import environment, spans


@contextlib.contextmanager
def exporting(service: str) -> Iterator[None]:
    """Export the spans of the block, if an endpoint is configured; at its end those that are left.

    Not before a fork: the exporter has a thread.
    """
    settings = environment.read(service)
    if settings is None:
        yield
        return
    # Imported only where it is used: it takes an eighth of a second, and 17 MB.
    from trireme.tracing import otlp

    spans.recorder = recorder = otlp.OtlpRecorder(settings)
    try:
        yield
    finally:
        spans.recorder = None
        recorder.close()
