"""Columns that a table shares with its forks, so that a fork takes memory only for what is different in it.

A fork of a table has no columns of its own at first: it reads those of a `ColumnVersion`, the table as it was when the
fork was made. Before the table changes entries, it saves them in its newest version; an older version reads through the
newer ones. So the table's own columns stay plain arrays, and a change costs more only while somebody has a fork.

A fork that is changed, or whose version has saved entries, copies the columns when they are next read or written. Only
one fork of a table has copies at a time (`Family`): when another one needs them, it keeps of them the entries that
differ from its version. A fork that differs in many entries keeps its copies.

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_shared_columns.py.
"""

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from trireme.snapshot import arrays

Column = npt.NDArray[Any]

# Where more than one entry in so many is saved or different, a whole copy is simpler and hardly larger.
COPIED_PART = 4


class Entries:
    """Some entries of all columns. Shapes: at (n,), each of the values (…, n)."""

    __slots__ = ("at", "values")

    def __init__(self, at: arrays.SlotArray, columns: Mapping[str, Column]) -> None:
        """Copy the entries of the columns."""
        self.at = at
        self.values = {name: column[..., at] for name, column in columns.items()}

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.at.nbytes + sum(each.nbytes for each in self.values.values())

    def write_to(self, columns: dict[str, Column], size: int) -> None:
        """Write those entries below `size` to the columns, which grow to as many rows (of resources) as they have."""
        within = slice(None) if not self.at.shape[0] or self.at.max() < size else self.at < size
        at = self.at[within]
        for name, of_column in self.values.items():
            column, values = columns[name], of_column[..., within]
            if column.ndim == 1:
                column[at] = values
                continue
            missing = values.shape[0] - column.shape[0]
            if missing > 0:
                more = np.zeros((missing, column.shape[1]), dtype=column.dtype)
                column = columns[name] = np.concatenate([column, more])
            column[: values.shape[0], at] = values
            column[values.shape[0] :, at] = 0


class ColumnVersion:
    """A table's columns as they were at some time, for the forks that were made of it then.

    It holds the entries that have changed since, up to the next version; all of them once these are many.

    Subclasses: trireme.snapshot.pod_names.PodTableVersion.
    """

    __slots__ = ("__weakref__", "_borrowers", "_copies", "_is_saved", "_saved", "_saved_count", "capacity", "family",
                 "newer", "size", "table")  # fmt: skip

    def __init__(self, table: "ForkableColumns", family: "Family") -> None:
        self.table = table
        self.family = family
        self.size, self.capacity = table.size, table.capacity
        self.newer: ColumnVersion | None = None
        self._is_saved: arrays.BoolArray | None = None
        self._saved: list[Entries] = []
        self._saved_count = 0
        self._copies: dict[str, Column] | None = None
        # The forks that hold views of the table's own columns.
        self._borrowers: weakref.WeakSet[ForkableColumns] = weakref.WeakSet()

    @property
    def nbytes(self) -> int:
        """Memory of its saved columns, in bytes."""
        whole = sum(each.nbytes for each in self._copies.values()) if self._copies is not None else 0
        return whole + sum(each.nbytes for each in self._saved)

    @property
    def is_unchanged(self) -> bool:
        """Whether the table's columns are still those of this version."""
        return self._is_saved is None

    def save(self, at: arrays.SlotArray) -> arrays.SlotArray:
        """Save these entries of the table, which are about to change; returns those that were not saved before.

        Shapes: (n,), in any order, perhaps with repetitions.
        """
        saved = self._is_saved
        if saved is None:
            for each in list(self._borrowers):
                each.return_views()
            saved = self._is_saved = np.zeros(self.size, dtype=np.bool_)
        at = at[at < self.size]
        at = at[~saved[at]]
        if at.shape[0] and self._copies is None:
            saved[at] = True
            self._saved.append(Entries(at, self.table.own_columns()))
            self._saved_count += at.shape[0]
            if self._saved_count * COPIED_PART > self.size:
                self.copy_all()
        return at

    def copy_all(self) -> None:
        """Hold copies of all columns in place of the changes."""
        self._copies = self.copies(self.size, self.capacity)
        self._saved.clear()

    def read_through(self, newer: "ColumnVersion") -> None:
        """The table saves entries in a newer version from now on."""
        self.newer = newer
        self._is_saved = np.zeros(0, dtype=np.bool_)

    def borrow(self, name: str, by: "ForkableColumns") -> Column:
        """A column of the table itself, read-only, while `is_unchanged`; `by` is notified when it ceases to be."""
        self._borrowers.add(by)
        view = self.table.own_columns()[name][..., : self.capacity]
        view.flags.writeable = False
        return view

    def copies(self, size: int, capacity: int) -> dict[str, Column]:
        """Copies of the first `size` entries of all columns, with room for `capacity`."""
        if self._copies is not None:
            return _copied(self._copies, size, capacity)
        if self.newer is None:
            out = _copied(self.table.own_columns(), size, capacity)
        else:
            out = self.newer.copies(size, capacity)
        # An entry that is saved twice was so at once, with the same values.
        for entries in self._saved:
            entries.write_to(out, size)
        return out


class Family:
    """The forks of one table; one at a time has copies of the columns."""

    __slots__ = ("_holder",)

    def __init__(self) -> None:
        self._holder: weakref.ref[ForkableColumns] | None = None

    def hold(self, fork: "ForkableColumns") -> None:
        """Note that the fork has copies now; the one before gives up its own."""
        before = None if self._holder is None else self._holder()
        self._holder = weakref.ref(fork)
        if before is not None and before is not fork:
            before.compact()


class ForkableColumns:
    """The base of tables with columns: `before_change` is called before each change, `share` by forks.

    It is a base class because a column that a fork has not got is made when the attribute is read.

    Subclasses: trireme.snapshot.nodes.NodeTable, trireme.snapshot.pods.PodTable.
    """

    #: The names of the columns, whose last axis has `capacity` entries, `size` of them in use.
    COLUMNS: ClassVar[tuple[str, ...]]
    size: int
    capacity: int

    def __init__(self) -> None:
        self._newest: weakref.ref[ColumnVersion] | None = None
        self._source: ColumnVersion | None = None
        self._differences: Entries | None = None
        # Whether the columns are the table's own: always, but in a fork.
        self._owns = True

    if not TYPE_CHECKING:  # else any attribute would do

        def __getattr__(self, name: str) -> Column:
            """A column that a fork has not got: borrowed while that is possible, else copied."""
            source = self.__dict__.get("_source")
            if source is None or name not in self.COLUMNS:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}")
            if self._differences is not None or not source.is_unchanged:
                return self.own_columns()[name]
            view = source.borrow(name, self)
            setattr(self, name, view)
            return view

    @property
    def differing_nbytes(self) -> int:
        """Memory of columns of its own, or of what they differ by from those of the table that was forked, in bytes."""
        own = sum(each.nbytes for each in self.own_columns().values()) if self._owns else 0
        return own + (0 if self._differences is None else self._differences.nbytes)

    def own_columns(self) -> dict[str, Column]:
        """The columns as they are, the table's own from now on."""
        source = self._source
        if source is not None and not self._owns:
            source.family.hold(self)
            made = source.copies(source.size, self.capacity)
            if self._differences is not None:
                self._differences.write_to(made, self.size)
                self._differences = None
            for name, column in made.items():
                setattr(self, name, column)
            self._owns = True
        return {name: self.__dict__[name] for name in self.COLUMNS}

    def before_change(self, at: arrays.SlotArray) -> arrays.SlotArray:
        """Save these entries for the forks, and make the columns the table's own; to be called before each change.

        Returns the entries that were saved. Shapes: (n,).
        """
        if not self._owns:
            self.own_columns()
        version = self.newest_version()
        return arrays.no_slots() if version is None else version.save(at)

    def make_version(self, family: Family) -> ColumnVersion:
        """The table as it is now, for forks."""
        return ColumnVersion(self, family)

    def newest_version(self) -> ColumnVersion | None:
        """The newest version that somebody needs."""
        return None if self._newest is None else self._newest()

    def share(self, out: "ForkableColumns") -> None:
        """Have `out`, a new table, begin with the columns of this one."""
        out.size, out.capacity = self.size, self.capacity
        for name in self.COLUMNS:
            out.__dict__.pop(name, None)
        out._owns = False
        if self._source is not None and not self._owns and self._differences is None:
            out._source = self._source
            return
        self.own_columns()
        newest = self.newest_version()
        if newest is None or not newest.is_unchanged:
            if newest is not None:
                family = newest.family
            else:
                family = Family() if self._source is None else self._source.family
            version = self.make_version(family)
            if newest is not None:
                newest.read_through(version)
            self._newest = weakref.ref(version)
            newest = version
        out._source = newest

    def make_independent(self) -> None:
        """Copy all columns that a fork shares with what changes, which saves nothing for it any more."""
        self.own_columns()
        self._source = None

    def return_views(self) -> None:
        """Drop views of another table's columns, which are about to change."""
        if not self._owns:
            for name in self.COLUMNS:
                self.__dict__.pop(name, None)

    def compact(self) -> None:
        """Keep of copied columns the entries that differ from the version, unless these are many or there are forks."""
        source = self._source
        if source is None or not self._owns or self.newest_version() is not None:
            return
        columns = self.own_columns()
        before = source.copies(source.size, source.capacity)
        at = _differing(columns, before, source.size)
        at = np.concatenate([at, np.arange(source.size, self.size)])
        if at.shape[0] * COPIED_PART > self.size:
            return
        self._differences = Entries(at, columns) if at.shape[0] else None
        self._owns = False
        self.return_views()


def _copied(columns: Mapping[str, Column], size: int, capacity: int) -> dict[str, Column]:
    """The first `size` entries of the columns, with room for `capacity`."""
    out = {}
    for name, column in columns.items():
        made = out[name] = np.zeros((*column.shape[:-1], capacity), dtype=column.dtype)
        made[..., :size] = column[..., :size]
    return out


def _differing(one: Mapping[str, Column], other: Mapping[str, Column], size: int) -> arrays.SlotArray:
    """Which of the first `size` entries differ in some column. Shape: (n,), ascending."""
    out = np.zeros(size, dtype=np.bool_)
    for name, column in one.items():
        left, right = column[..., :size], other[name][..., :size]
        if left.ndim == 1:
            out |= left != right
            continue
        both = min(left.shape[0], right.shape[0])
        out |= (left[:both] != right[:both]).any(axis=0)
        out |= left[both:].any(axis=0) | right[both:].any(axis=0)
    return np.flatnonzero(out)
