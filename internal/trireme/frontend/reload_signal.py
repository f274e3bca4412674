"""Handles SIGHUP from the first moment of the process: it asks for the configuration to be read again.

A process whose terminal is closed gets the same signal. It must not live on unseen then, so that is a signal to stop.
This module imports next to nothing, so that it can be loaded before everything else.

Tests: tests/contract/test_frontend_reload_signal.py.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType


class ReloadSignal:
    """Whether the process was told to read its configuration again."""

    def __init__(self, stop: Callable[[], object]) -> None:
        """`stop` stops the process: its terminal is gone."""
        self._stop = stop
        self._received = False
        self._action: Callable[[], object] | None = None
        self._has_terminal = _is_on_terminal()
        signal.signal(signal.SIGHUP, self._on_signal)

    def call_on_reload(self, action: Callable[[], object]) -> None:
        """Call `action` at each signal; at once if there has been one."""
        self._action = action
        if self._received:
            action()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Reload, or stop if the terminal on which the process was started is gone."""
        if self._has_terminal and not _is_on_terminal():
            self._stop()
            return
        self._received = True
        if self._action is not None:
            self._action()


def _is_on_terminal() -> bool:
    """Whether the standard input is a terminal that is still open."""
    try:
        return os.isatty(sys.stdin.fileno())
    except (AttributeError, OSError, ValueError):
        return False
