"""A table whose entries are made when they are first looked at, and a set without a copy of its elements.

A copy of the cluster has entries for each of its nodes, pods and objects, and a simulation looks at few of them. The
keys with which a table begins are not copied either: it notes which of them it has looked at.

Tests: tests/unit/simulation/test_scenarios.py.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class LazyTable(dict[K, V], Generic[K, V]):
    """A dict that begins with `keys`, whose values `make` makes; it changes as any other dict.

    Keys at which nobody has looked have to stay in `keys` as long as the table is used; others may come and go there.
    The order is that of `keys`, then that of insertion.
    """

    def __init__(self, keys: Collection[K], make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make
        self._keys = keys
        # Keys that were looked at, set or deleted, and how many of `keys` were not.
        self._taken: set[K] = set()
        self._left = len(keys)

    def _take(self, key: K) -> bool:
        """Note that the key is none of those to be made any more; return whether it was one."""
        if key in self._taken:
            return False
        self._taken.add(key)
        if key not in self._keys:
            return False
        self._left -= 1
        return True

    def __missing__(self, key: K) -> V:
        if key in self._taken or key not in self._keys:
            raise KeyError(key)
        self._take(key)
        value = self._make(key)
        super().__setitem__(key, value)
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._taken and key in self._keys)

    def __setitem__(self, key: K, value: V) -> None:
        self._take(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        if not self._take(key):
            super().__delitem__(key)

    def __len__(self) -> int:
        return super().__len__() + self._left

    def __iter__(self) -> Iterator[K]:
        if self._left:
            yield from [key for key in self._keys if key not in self._taken]
        yield from super().__iter__()

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V, /) -> V: ...
    @overload
    def get(self, key: K, default: T, /) -> V | T: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        """The value of the key, made if necessary; `default` if there is none."""
        return self[key] if key in self else default  # noqa: SIM401  # dict.get does not make values

    @overload
    def pop(self, key: K, /) -> V: ...
    @overload
    def pop(self, key: K, default: V, /) -> V: ...
    @overload
    def pop(self, key: K, default: T, /) -> V | T: ...
    def pop(self, key: K, *default: Any) -> Any:
        """Remove the key and return its value; `default` if there is none. Raises: KeyError without a default."""
        if self._take(key):
            return self._make(key)
        return super().pop(key, *default)

    def setdefault(self, key: K, default: Any = None, /) -> Any:
        """The value of the key, which becomes `default` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def keys(self) -> Any:
        """All keys."""
        return list(self)

    def values(self) -> Any:
        """All values, made now."""
        return [self[key] for key in list(self)]

    def items(self) -> Any:
        """All keys and values, made now."""
        return [(key, self[key]) for key in list(self)]


class LazySet(set[K], Generic[K]):
    """A set that begins with `keys`, without a copy of them, to be asked for single elements.

    Elements that were neither added nor discarded are looked up in `keys`.
    """

    def __init__(self, keys: Collection[K]) -> None:
        super().__init__()
        self._keys = keys
        self._discarded: set[K] = set()

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._discarded and key in self._keys)

    def add(self, key: K, /) -> None:
        """Add an element."""
        self._discarded.discard(key)
        super().add(key)

    def discard(self, key: object, /) -> None:
        """Remove an element if it is there."""
        self._discarded.add(cast(K, key))
        super().discard(cast(K, key))
