"""One log line a change: a failure that repeats is logged when it begins, not at each retry.

A phase that is away for an hour is called again every few seconds; a line for each would bury the rest of the log.
"""

import logging
import re

_NUMBER = re.compile(r"\d+")


class FailureLog:
    """Logs failures of one thing that is tried again and again."""

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._kind = ""

    def log_failure(self, kind: str, text: str, level: int | None = None) -> None:
        """Log the failure, unless it repeats the last one.

        It does if it is of the same `kind`, the `text` is the same but for numbers (ports, times), and there was no
        success since. `level` replaces the level of other failures.
        """
        kind = f"{kind} {_NUMBER.sub('', text)}"
        level = logging.DEBUG if kind == self._kind else self._level if level is None else level
        self._kind = kind
        self._log.log(level, text, stacklevel=2)

    def clear(self) -> None:
        """Forget the last failure, after a success: the next one is logged again."""
        self._kind = ""
