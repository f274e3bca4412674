"""A pytest plugin: a test that hangs ends at its timeout, whatever its event loop does with the exception.

pytest-timeout raises `Failed` once, wherever the signal finds the program. asyncio keeps that exception in the task, or
gives it to the handler of the loop's exceptions, if it was raised in a task or a callback: the test goes on to wait for
ever. So here a loop is left by an exception that asyncio lets through; and the timer goes on until the test's teardown
is over, which waits for tasks that need not end either.
"""

import asyncio
import signal
import threading
from typing import Any

import pytest

# How soon a test that does not end is interrupted again.
AGAIN_SECONDS = 2.0


# Whether a phase of the test runs, whose exceptions pytest reports.
_RUNS = pytest.StashKey[bool]()


class TimedOut(SystemExit):
    """Ends the loop: asyncio keeps all exceptions but this kind and KeyboardInterrupt."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Interrupt the test until it ends; in another thread than the main one pytest-timeout ends the process."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None
    item.stash[_RUNS] = False
    text = f"Timeout (>{settings.timeout}s) from pytest-timeout."

    def interrupt(signal_number: int, frame: object) -> None:
        if not item.stash[_RUNS]:
            return  # pytest itself is at work: it reports, which may take its time
        if asyncio._get_running_loop() is not None:
            raise TimedOut(text)
        pytest.fail(text)

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_SECONDS)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Let the timer go on: pytest-timeout would stop it at the first failure, and the teardown may hang too."""
    return None if item.config.getoption("usepdb") else True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Stop the timer at the very end."""
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _while_running(item: pytest.Item) -> Any:
    item.stash[_RUNS] = True
    try:
        return (yield)
    finally:
        item.stash[_RUNS] = False


pytest_runtest_setup = pytest.hookimpl(wrapper=True, tryfirst=True)(_while_running)
pytest_runtest_call = pytest.hookimpl(wrapper=True, tryfirst=True)(_while_running)
pytest_runtest_teardown = pytest.hookimpl(wrapper=True, tryfirst=True)(_while_running)
