"""How calls of a plugin show whether it is healthy: which RPCs are not called, since when, and why."""

import datetime
import logging
import re

import pytest

from tests.helpers.virtual_time import Clock
from trireme.remote import remote_breaker, remote_health


def _health(clock: Clock | None = None, failures: int = 2) -> remote_health.PluginHealth:
    return remote_health.PluginHealth("Far", failures, 10.0, clock or Clock(100.0))


def _fail(health: remote_health.PluginHealth, rpc: str, times: int, text: str = "down") -> None:
    for _ in range(times):
        period = health.admit(rpc)
        assert isinstance(period, int)
        health.record_failure(rpc, period, text)
        health.release(rpc, period)


def test_an_rpc_that_fails_is_not_called_and_the_others_are() -> None:
    health = _health()
    _fail(health, "Score", 2, "far:1: down")
    refused = health.admit("Score")
    assert isinstance(refused, str)
    assert refused.startswith("Score was not called: the circuit breaker of plugin Far is open since ")
    assert "the last 2 calls of Score failed" in refused
    since, until = (
        datetime.datetime.fromisoformat(f"2026-01-01T{text}+00:00")
        for text in re.findall(r"(?:since|until) (\d\d:\d\d:\d\d)", refused)
    )
    assert (until - since).seconds == 10
    assert refused.endswith("far:1: down")
    assert isinstance(health.admit("PreScore"), int)
    assert (health.answered, health.failed, health.not_called) == (0, 2, 1)
    assert health.last_error().startswith("Score is not called: far:1: down (until ")


@pytest.mark.parametrize("rejected", [False, True], ids=["answered", "rejected the request"])
def test_a_plugin_that_responds_is_there(rejected: bool) -> None:
    """Also if it says that the request is wrong: a breaker that opened for one pod would fail all others."""
    health = _health()
    for _ in range(5):
        _fail(health, "Score", 1)
        if rejected:
            health.record_rejected_request("Score", "no such class")
        else:
            health.record_answer("Score")
    assert health.breakers()["Score"] == remote_health.BreakerStatistics(remote_breaker.State.CLOSED, 0, 0)
    assert isinstance(health.admit("Score"), int)
    assert (health.answered, health.failed) == ((0, 10) if rejected else (5, 5))


@pytest.mark.parametrize("rejected", [False, True], ids=["answered", "rejected the request"])
def test_a_probe_that_is_answered_closes_the_breaker(rejected: bool) -> None:
    clock = Clock(100.0)
    health = _health(clock)
    _fail(health, "Score", 2)
    clock.now += 9.0
    assert health.last_error_age() == 9.0
    assert not health.is_probe_due("Score")
    assert "until" in health.last_error()
    clock.now += 1.0
    assert health.is_probe_due("Score")
    # Its time is over: nobody knows when the next call is.
    assert health.last_error() == "Score is not called: down"
    assert isinstance(health.admit("Score"), int)
    assert health.last_error() == "Score is not called: down"
    if rejected:
        health.record_rejected_request("Score", "no such class")
    else:
        health.record_answer("Score")
    assert " since " not in health.describe_failures("Score")
    assert health.last_error() == ("Score: no such class" if rejected else "Score: down")


def test_that_a_plugin_fails_and_answers_again_is_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    health = _health(failures=3)
    health.record_answer("Score")
    _fail(health, "Score", 2)
    health.record_answer("Score")
    health.record_answer("Score")
    assert [record.getMessage() for record in caplog.records] == [
        "plugin Far: Score failed: down; it is called again",
        "plugin Far answers Score again",
    ]


def test_a_probe_that_ends_without_a_result_leaves_its_place_to_the_next() -> None:
    """A caller that has gone says nothing of the plugin, which would not be called again."""
    clock = Clock(100.0)
    health = _health(clock)
    _fail(health, "Score", 2)
    clock.now += 10.0
    period = health.admit("Score")
    assert isinstance(period, int)
    assert isinstance(health.admit("Score"), str)
    health.release("Score", period)
    assert isinstance(health.admit("Score"), int)
