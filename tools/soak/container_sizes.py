"""Counts what an object holds: the entries of all containers, and the bytes of all arrays, by what has them."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# Types of objects that contain no others.
_LEAVES = frozenset((str, int, float, bool, bytes, type(None)))
_CONTAINERS = (dict, set, frozenset, list, tuple, collections.deque)


def sizes(root: Any, package: str = "trireme") -> Mapping[str, int]:
    """The number of entries, or bytes of arrays, by the type and the attribute that have them, as in `Cache._pods`.

    All containers of one attribute are added up, those within containers apart from it, as in `Cache._pods[]`. Looked
    into are containers, and objects of types of a package, or of several that begin alike.
    """
    found: collections.Counter[str] = collections.Counter()
    seen: set[int] = set()
    waiting: collections.deque[tuple[str, Any]] = collections.deque([("", root)])
    while waiting:
        name, each = waiting.popleft()
        if id(each) in seen or type(each) in _LEAVES:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            found[f"{name}, bytes"] += each.nbytes
        elif isinstance(each, _CONTAINERS):
            found[name] += len(each)
            values = each.values() if isinstance(each, dict) else each
            waiting.extend((f"{name}[]", value) for value in values)
        elif type(each).__module__.startswith(package):
            waiting.extend((f"{type(each).__qualname__}.{field}", value) for field, value in _fields(each))
    return found


def _fields(each: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(each, "__dict__", {}).items()
    for owner in type(each).__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(each, name):
                yield name, getattr(each, name)
