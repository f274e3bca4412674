"""Walks up a tree of groups.

A group names its parent, and nothing prevents missing parents or cycles. Every search for a root, or for a decision of
an ancestor, must end in such cases, and in the same way everywhere.

Tests: tests/unit/queueing/test_pod_group_forest.py.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from trireme.v1 import scheduling_pb2

#: How many levels a tree of groups may have, the PodGroups included.
MAX_LEVELS = 4

_Key = TypeVar("_Key")

Group = scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup


def ancestors_of(
    key: _Key, get: Callable[[_Key], Group | None], parent_of: Callable[[_Key, Group], _Key | None]
) -> Iterator[tuple[_Key, Group | None]]:
    """Yield the group and its ancestors, one after the other.

    The last one has no parent, or comes as None because it does not exist or was visited before. `get` finds a group by
    its key, `parent_of` the key of its parent.
    """
    visited: set[_Key] = set()
    next_key: _Key | None = key
    while next_key is not None:
        group = None if next_key in visited else get(next_key)
        visited.add(next_key)
        yield next_key, group
        next_key = None if group is None else parent_of(next_key, group)


def root_of(
    key: _Key, get: Callable[[_Key], Group | None], parent_of: Callable[[_Key, Group], _Key | None]
) -> tuple[_Key, Group | None]:
    """The last one of `ancestors_of`: the root, unless its group is None."""
    *_, last = ancestors_of(key, get, parent_of)
    return last
