"""Coroutines that wait for nothing, run without an event loop: making one costs more than what these tests ask."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def answer(asked: Coroutine[Any, Any, T]) -> T:
    """What it returns; fails where it waits."""
    try:
        asked.send(None)
    except StopIteration as done:
        returned: T = done.value
        return returned
    asked.close()
    raise AssertionError("it waits for something")
