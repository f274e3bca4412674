"""What no process may log: an error of the program itself, whatever it makes up for it.

A loop that is started again, a call that is repeated or an answer that is left out hides the mistake from every other
check, as soon as the next attempt succeeds.
"""

from __future__ import annotations

import logging
import pathlib
import traceback

from tests.simulation import simulated_process
from tests.simulation.observed_calls import observe
from trireme.queueing.transition_log import ImpossibleTransition

_OF_THE_PROGRAM = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ImpossibleTransition,
)


class ErrorChecks:
    """Observes what all processes log. `violations` are in the order in which they happened."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        observe(logging.Logger, "handle", self._on_record)

    def _on_record(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, _OF_THE_PROGRAM):
            process = simulated_process.current()
            place = traceback.extract_tb(error.__traceback__)[-1:]
            where = "".join(f" in {pathlib.Path(each.filename).name}:{each.lineno}" for each in place)
            name = "" if process is None else process.name
            self.violations.append(f"{name} logs {error!r}{where}: {record.getMessage()}")
