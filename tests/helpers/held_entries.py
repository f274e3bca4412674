"""What objects keep: how many entries each of their containers has, however deep they are in each other."""

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_CONTAINERS = (Mapping, set, frozenset, list, tuple, collections.deque)


def held_entries(*roots: object) -> collections.Counter[str]:
    """The number of entries by class and attribute, over all of the product's objects that can be reached.

    Methods are followed to their objects, functions are not. Arrays are left out: they grow in steps.
    """
    found: collections.Counter[str] = collections.Counter()
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [("", root) for root in roots]
    keep: list[Any] = []  # as long as ids are compared
    while left:
        name, value = left.pop()
        value = getattr(value, "__self__", value)
        if id(value) in seen or isinstance(value, (str, bytes, int, float, type, np.ndarray)) or value is None:
            continue
        seen.add(id(value))
        keep.append(value)
        if isinstance(value, _CONTAINERS):
            if name:
                found[name] += len(value)
            values = value.values() if isinstance(value, Mapping) else value
            left.extend((name, each) for each in list(values))
        elif type(value).__module__.startswith("trireme.") and "_pb2" not in type(value).__module__:
            left.extend((f"{type(value).__qualname__}.{attribute}", each) for attribute, each in _fields(value))
    return found


def _fields(value: object) -> Iterator[tuple[str, Any]]:
    names = {name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())}
    for name in sorted(names | set(getattr(value, "__dict__", ()))):
        if name not in ("__weakref__", "__dict__") and hasattr(value, name):
            yield name, getattr(value, name)
