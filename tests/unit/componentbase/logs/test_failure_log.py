"""Failures that repeat are one line in the log."""

import logging

import pytest

from trireme_kube.componentbase.logs.failure_log import FailureLog


def test_a_failure_is_logged_when_it_begins_or_changes(caplog: pytest.LogCaptureFixture) -> None:
    """A fallback of an hour would write a line for each replica and retry."""
    caplog.set_level(logging.INFO)
    failures = FailureLog(logging.getLogger("phase"))
    for port in range(3):
        failures.log_failure("UNAVAILABLE", f"refused by port {port}")
    failures.log_failure("UNAVAILABLE", "certificate has expired")
    failures.log_failure("DEADLINE_EXCEEDED", "slow")
    failures.log_failure("UNAVAILABLE", "refused")
    failures.clear()
    failures.log_failure("UNAVAILABLE", "refused")
    assert [record.getMessage() for record in caplog.records] == [
        "refused by port 0",
        "certificate has expired",
        "slow",
        "refused",
        "refused",
    ]
