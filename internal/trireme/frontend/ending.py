"""Handles SIGTERM and SIGINT from the first moment of the process.

Importing the frontend's modules takes a while. A signal that arrives meanwhile has the same effect as a later one: the
process exits with code 0 and releases the Lease if it holds one. A second signal exits at once. This module imports
next to nothing, so that it can be loaded before everything else.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType


class Ending:
    """Whether the process has received a signal to stop."""

    def __init__(self) -> None:
        self._told = False
        self._then: Callable[[], object] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def then(self, act: Callable[[], object]) -> None:
        """Call `act` when a signal to stop arrives; at once if one has."""
        self._then = act
        if self._told:
            act()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._told:
            os._exit(1)
        self._told = True
        if self._then is not None:
            self._then()
