"""An error of the program is found in what it logs."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.error_checks import ErrorChecks


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ErrorChecks:
    """They observe all loggers, which are restored after the test."""
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    return ErrorChecks()


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (KeyError("uid-7"), [" logs KeyError('uid-7') in test_error_checks.py"]),
        (AttributeError("no such field"), [" logs AttributeError('no such field') in test_error_checks.py"]),
        (ConnectionError("reset"), []),
        (TimeoutError(), []),
    ],
)
def test_errors_of_the_program_are_found(checks: ErrorChecks, error: Exception, found: list[str]) -> None:
    """If this fails, a task that is started again after each mistake looks sound."""
    try:
        raise error
    except Exception:
        logging.getLogger("trireme.simulated").exception("a task ended")
    logging.getLogger("trireme.simulated").warning("all is well")
    assert [text.partition(":")[0] for text in checks.violations] == found
