"""UIDs and names of placed pods by row, as a fork of the pod table has them.

A fork has those of rows that it changed. All others it reads from its version of the table, which saves what the table
changes, or from the table itself.

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_shared_columns.py.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, overload

from trireme.snapshot import arrays, forkable_columns, uid_index

# UID and name of a pod; both empty where there is none.
Names = tuple[str, str]

_UID, _NAME = 0, 1


class NamedPods(Protocol):
    """A pod table, as far as it is about UIDs and names.

    Implementers: trireme.snapshot.pods.PodTable.
    """

    @property
    def uids(self) -> Sequence[str]:
        """The UIDs by row."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names by row."""
        ...

    def names_at(self, row: int) -> Names:
        """UID and name of the pod in the row."""
        ...

    def row_of(self, uid: str) -> int | None:
        """The row of the pod with this UID."""
        ...


class PodTableVersion(forkable_columns.ColumnVersion):
    """A pod table as it was when it was forked: its columns, UIDs and names."""

    __slots__ = ("_all", "_changed", "_index", "_pods", "_row_of_uid")

    def __init__(
        self, table: forkable_columns.ForkableColumns, named: NamedPods, family: forkable_columns.Family
    ) -> None:
        """`named` is the table too."""
        super().__init__(table, family)
        self._pods = named
        # What has changed since, as it was.
        self._changed: dict[int, Names] = {}
        self._row_of_uid: dict[str, int] = {}
        # UIDs and names of all rows, once many have changed.
        self._all: tuple[list[str], list[str]] | None = None
        self._index: uid_index.UidIndex | None = None

    def save(self, at: arrays.SlotArray) -> arrays.SlotArray:
        """Save these rows, which are about to change; see `ColumnVersion.save`."""
        saved = super().save(at)
        if self._all is None:
            for row in saved.tolist():
                found = self._changed[row] = self._pods.names_at(row)
                self._row_of_uid[found[_UID]] = row
        return saved

    def copy_all(self) -> None:
        """Hold copies of all columns, UIDs and names, instead of what has changed of them."""
        super().copy_all()
        self._all = self.texts(_UID, self.size), self.texts(_NAME, self.size)
        self._index = uid_index.UidIndex(self._all[_UID])
        self._row_of_uid, self._changed = {}, {}

    def at(self, row: int) -> Names:
        """UID and name of the pod in the row."""
        if self._all is not None:
            return self._all[_UID][row], self._all[_NAME][row]
        found = self._changed.get(row)
        if found is not None:
            return found
        if isinstance(self.newer, PodTableVersion):
            return self.newer.at(row)
        return self._pods.names_at(row)

    def rows_with(self, uid: str) -> Iterator[int]:
        """The rows that may hold the pod with this UID."""
        if self._index is not None:
            yield from self._index.rows_with(uid)
            return
        row = self._row_of_uid.get(uid)
        if row is not None:
            yield row
        if isinstance(self.newer, PodTableVersion):
            yield from self.newer.rows_with(uid)
            return
        row = self._pods.row_of(uid)
        if row is not None:
            yield row

    def texts(self, which: int, size: int) -> list[str]:
        """The UIDs (0) or names (1) of the first `size` rows."""
        if self._all is not None:
            return self._all[which][:size]
        if isinstance(self.newer, PodTableVersion):
            out = self.newer.texts(which, size)
        else:
            out = list((self._pods.uids, self._pods.names)[which][:size])
        for row, names in self._changed.items():
            if row < size:
                out[row] = names[which]
        return out


class ForkedNames:
    """UIDs and names of a fork's pods."""

    __slots__ = ("_own", "_row_of_uid", "size", "version")

    def __init__(self, version: PodTableVersion) -> None:
        self.version = version
        self.size = version.size
        self._own: dict[int, Names] = {}
        self._row_of_uid: dict[str, int] = {}

    def at(self, row: int) -> Names:
        """UID and name of the pod in the row. Raises: IndexError."""
        if not 0 <= row < self.size:
            raise IndexError(f"there is no row {row}")
        found = self._own.get(row)
        if found is not None:
            return found
        return self.version.at(row) if row < self.version.size else ("", "")

    def write(self, row: int, uid: str, name: str) -> None:
        """Write UID and name of a row. Raises: IndexError."""
        if not 0 <= row < self.size:
            raise IndexError(f"there is no row {row}")
        self._own[row] = uid, name
        self._row_of_uid[uid] = row

    def row_of(self, uid: str) -> int | None:
        """The row of the pod with this UID; None if there is none."""
        if not uid:
            return None
        own = self._row_of_uid.get(uid)
        if own is not None and self._own[own][_UID] == uid:
            return own
        rows = self.version.rows_with(uid)
        return next((row for row in rows if row < self.size and self.at(row)[_UID] == uid), None)

    def texts(self, which: int) -> list[str]:
        """The UIDs (0) or names (1) of all rows."""
        out = self.version.texts(which, self.version.size)
        out.extend([""] * (self.size - len(out)))
        for row, names in self._own.items():
            out[row] = names[which]
        return out

    def copy(self) -> "ForkedNames":
        """The same, to be changed by itself."""
        out = ForkedNames(self.version)
        out.size, out._own, out._row_of_uid = self.size, self._own.copy(), self._row_of_uid.copy()
        return out


class NameColumn(Sequence[str]):
    """The UIDs or the names of a fork's pods by row, to read."""

    __slots__ = ("_names", "_which")

    def __init__(self, names: ForkedNames, which: int) -> None:
        """`which`: 0 for UIDs, 1 for names."""
        self._names = names
        self._which = which

    def __len__(self) -> int:
        return self._names.size

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """The text of a row, or of several. Raises: IndexError."""
        return self._names.texts(self._which)[row] if isinstance(row, slice) else self._names.at(row)[self._which]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names.texts(self._which))

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """The first row with the text. Raises: ValueError if there is none."""
        return self._names.texts(self._which).index(value, start, self._names.size if stop is None else stop)
