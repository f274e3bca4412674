"""Up a tree of groups: who is above a group, as far as those are there.

A group names its parent, and nothing keeps parents from being missing or from going round in a circle. Everybody who
looks for a root, or for what those above have decided, has to end in such cases, and ends in the same way here.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from trireme.v1 import scheduling_pb2

_Key = TypeVar("_Key")

Group = scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup


def upwards(
    key: _Key, get: Callable[[_Key], Group | None], parent_of: Callable[[_Key, Group], _Key | None]
) -> Iterator[tuple[_Key, Group | None]]:
    """The group and those above it, one after the other. The last one has no parent; or it comes without a group, as
    it is not there, or was met before. `get` finds a group by its key, `parent_of` the key of its parent.
    """
    seen: set[_Key] = set()
    ahead: _Key | None = key
    while ahead is not None:
        group = None if ahead in seen else get(ahead)
        seen.add(ahead)
        yield ahead, group
        ahead = None if group is None else parent_of(ahead, group)


def topmost(
    key: _Key, get: Callable[[_Key], Group | None], parent_of: Callable[[_Key, Group], _Key | None]
) -> tuple[_Key, Group | None]:
    """The last one on the way `upwards`: the root, if it comes with a group."""
    *_, last = upwards(key, get, parent_of)
    return last
