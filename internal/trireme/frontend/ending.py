"""Being told to end, from the first moment on.

Loading what the frontend is made of takes a while; who tells it to end meanwhile is heard as later: it ends as it does
at work, with exit code 0 and the Lease, if there is one by then, given back. A second signal ends it at once. Imports
next to nothing, so that it is there before all else.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType


class Ending:
    """Whether the process was told to end."""

    def __init__(self) -> None:
        self._told = False
        self._then: Callable[[], object] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def then(self, act: Callable[[], object]) -> None:
        """Do this once the process is told to end; at once if it was."""
        self._then = act
        if self._told:
            act()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._told:
            os._exit(1)
        self._told = True
        if self._then is not None:
            self._then()
