"""Log lines of the start, before the process's own logging takes over.

A line is given as its severity letter, a space and the text; it is written in klog's text format, which is what a log
collector in front of kube-scheduler parses.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TextIO

_SOURCE = "commandline.py:1"


@dataclass(slots=True)
class StartLog:
    """Writes lines to a stream."""

    stream: TextIO
    clock: Callable[[], float] = time.time
    process: int = field(default_factory=os.getpid)

    def write(self, line: str) -> None:
        """Writes one line, such as `W something is odd`."""
        severity, _, text = line.partition(" ")
        moment = datetime.fromtimestamp(self.clock()).astimezone()
        header = f"{severity}{moment:%m%d %H:%M:%S.%f} {self.process:>7} {_SOURCE}"
        self.stream.write(f"{header}] {text}\n")
