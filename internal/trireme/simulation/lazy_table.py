"""LazyTable: a dict whose entries are made when they are first looked at.

A copy of the cluster has entries for each of its nodes, pods and objects, and a simulation looks at few of them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class LazyTable(dict[K, V], Generic[K, V]):
    """A dict that begins with `keys`, of which `make` makes the values; it changes as any other dict.

    The order is that of `keys`, then that of insertion.
    """

    def __init__(self, keys: Iterable[K], make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make
        self._unmade = dict.fromkeys(keys)

    def __missing__(self, key: K) -> V:
        if key not in self._unmade:
            raise KeyError(key)
        del self._unmade[key]
        value = self._make(key)
        super().__setitem__(key, value)
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._unmade

    def __setitem__(self, key: K, value: V) -> None:
        self._unmade.pop(key, None)
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        if key in self._unmade:
            del self._unmade[key]
        else:
            super().__delitem__(key)

    def __len__(self) -> int:
        return super().__len__() + len(self._unmade)

    def __iter__(self) -> Iterator[K]:
        yield from list(self._unmade)
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
        if key in self._unmade:
            del self._unmade[key]
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
