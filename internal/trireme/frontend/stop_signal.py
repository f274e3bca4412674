"""Handles SIGTERM and SIGINT from the first moment of the process.

Importing the frontend's modules takes a while. A signal that arrives meanwhile has the same effect as a later one: the
process exits with code 0 and releases the Lease if it holds one. A second signal exits at once. This module imports
next to nothing, so that it can be loaded before everything else.

Tests: tests/contract/test_frontend_stop_signal.py.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType


class StopSignal:
    """Whether the process has received a signal to stop."""

    def __init__(self) -> None:
        self._received = False
        self._action: Callable[[], object] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def stop(self) -> None:
        """Stop as at a signal."""
        self._on_signal(signal.SIGTERM, None)

    def call_on_stop(self, action: Callable[[], object]) -> None:
        """Call `action` when a signal to stop arrives; at once if one has."""
        self._action = action
        if self._received:
            action()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Stop at the first signal; at the second exit at once with 1."""
        if self._received:
            os._exit(1)
        self._received = True
        if self._action is not None:
            self._action()
