"""Faults on demand, so that a test can observe clients of an API server that misbehaves.

A fault matches requests by method and path and strikes a given number of times: it returns an error instead of acting,
waits, drops the connection before acting, or acts and *then* drops the connection, so that the client cannot know
whether its write happened. Without faults the list is empty and costs nothing.

Tests: tests/unit/embedded/test_parts.py.
"""

import enum
import re
from dataclasses import dataclass, field
from typing import Any


class FaultAction(enum.StrEnum):
    """The effect of a fault on a request."""

    STATUS = "status"
    """Answer the status code, do nothing."""
    DELAY = "delay"
    """Wait, then act as if nothing were wrong."""
    HANG = "hang"
    """Wait, then drop the connection without having acted."""
    DROP_BEFORE = "drop-before"
    """Drop the connection without having acted."""
    DROP_AFTER = "drop-after"
    """Act, then drop the connection instead of replying."""
    DELAY_REPLY = "delay-reply"
    """Act, wait, then reply."""


@dataclass(slots=True)
class Fault:
    """A fault that a test arms: which requests it strikes, how often, and what it does to them."""

    action: FaultAction
    method: str = ".*"
    """Regular expression that the whole method matches; WATCH for watches, LIST for lists."""
    path: str = ".*"
    """Regular expression found in the path with its query."""
    times: int = 1
    """How many requests it strikes; -1 for all."""
    code: int = 500
    """HTTP status code, for `status`."""
    seconds: float = 0.0
    """How long to wait, for `delay`, `hang` and `delay-reply`."""
    retry_after: int = 0
    """Seconds for a Retry-After header, for `status`; 0 for none."""
    struck: int = field(default=0, init=False)
    """How many requests it has struck so far."""

    def __post_init__(self) -> None:
        self.action = FaultAction(self.action)
        try:
            for pattern in (self.method, self.path):
                re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{error.pattern!r} is no regular expression: {error}") from error

    def matches(self, methods: tuple[str, ...], path: str) -> bool:
        """Whether it strikes a request with one of these methods (such as GET and LIST) and that path."""
        if self.times == 0:
            return False
        return any(re.fullmatch(self.method, method) for method in methods) and bool(re.search(self.path, path))


class Faults:
    """The faults of one server, in the order in which they were added; the first that matches strikes."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self._faults)

    def add(self, fault: Fault) -> Fault:
        """Arm a fault and return it, so that its `struck` can be watched."""
        self._faults.append(fault)
        return fault

    def add_from(self, description: dict[str, Any]) -> Fault:
        """Arm the fault that a JSON object describes; raises TypeError or ValueError if it is invalid."""
        return self.add(Fault(**description))

    def clear(self) -> None:
        """Disarm all."""
        self._faults.clear()

    def strike(self, methods: tuple[str, ...], path: str) -> Fault | None:
        """The fault that strikes this request, if any."""
        for fault in self._faults:
            if fault.matches(methods, path):
                fault.struck += 1
                if fault.times > 0:
                    fault.times -= 1
                return fault
        return None

    def describe(self) -> list[dict[str, Any]]:
        """The armed faults, and how often each has struck."""
        return [
            {
                "action": one.action.value,
                "method": one.method,
                "path": one.path,
                "times": one.times,
                "struck": one.struck,
            }
            for one in self._faults
        ]
