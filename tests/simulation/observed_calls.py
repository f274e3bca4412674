"""Watches calls of the product's methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def observe(owner: type, name: str, observer: Callable[..., None]) -> None:
    """Have `observer` called with the arguments of each call of a method, before it."""
    original = getattr(owner, name)

    def method(*arguments: Any, **named: Any) -> Any:
        observer(*arguments, **named)
        return original(*arguments, **named)

    setattr(owner, name, method)
