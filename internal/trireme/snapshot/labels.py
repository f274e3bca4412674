"""Node labels as dictionary-encoded columns, one per label key.

A key on many nodes is a dense int32 column; a key on few nodes (for example one that contains the node's name)
is a small dict, so that rare labels cost no memory per node.

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_columns.py.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trireme.framework import selectors
from trireme.snapshot import arrays
from trireme.snapshot.dictionary import ABSENT, Dictionary

# A key becomes dense once one slot in this many has it: a dict entry takes about as much as 25 int32.
_SPARSENESS = 25

# So many different sets of keys are looked for among those of other nodes.
_KEY_SETS = 1024

_NO_KEYS: frozenset[str] = frozenset()

_NOT_A_NUMBER = np.iinfo(np.int64).min
# Of ABSENT alone.
_NO_NUMBERS: arrays.Int64Array = np.full(1, _NOT_A_NUMBER, dtype=np.int64)


class LabelColumn:
    """The values of one label key on all slots."""

    __slots__ = ("_dense", "_numbers", "_sparse", "_spread", "dictionary")

    def __init__(self) -> None:
        self.dictionary: Dictionary[str] = Dictionary()
        self._dense: arrays.Int32Array | None = None
        self._sparse: dict[int, int] = {}
        # The sparse values as a column, cached until the next change.
        self._spread: arrays.Int32Array | None = None
        self._numbers = _NO_NUMBERS

    def copy(self) -> "LabelColumn":
        """The same values, in a column of its own; the dictionary, in which no number changes, is shared."""
        out = LabelColumn()
        out.dictionary, out._numbers, out._spread = self.dictionary, self._numbers, self._spread
        out._dense = None if self._dense is None else self._dense.copy()
        out._sparse = self._sparse.copy()
        return out

    def set(self, slot: int, value: str | None, capacity: int) -> None:
        """Set the slot's value, or remove it (None); `capacity` is the number of slots.

        A column begins sparse, and becomes an array when many slots have a value; it never becomes sparse again.
        """
        number = ABSENT
        if value is not None:
            if self.dictionary.is_crowded:
                self._drop_unused_values()
            number = self.dictionary.intern(value)
        self._spread = None
        if self._dense is not None:
            if self._dense.shape[0] < capacity:
                self._dense = arrays.grow_last_axis(self._dense, capacity)
            self._dense[slot] = number
            return
        if number == ABSENT:
            self._sparse.pop(slot, None)
            return
        self._sparse[slot] = number
        if len(self._sparse) * _SPARSENESS > capacity:
            self._dense = np.zeros(capacity, dtype=np.int32)
            self._dense[list(self._sparse)] = list(self._sparse.values())
            self._sparse = {}

    def values(self, size: int) -> arrays.Int32Array:
        """Value numbers of the first `size` slots; read-only. Shape: (size,)."""
        column = self._dense
        if column is None:
            column = self._spread
            if column is None or column.shape[0] < size:
                column = np.zeros(max(size, *self._sparse, 0) + 1, dtype=np.int32)
                column[list(self._sparse)] = list(self._sparse.values())
                self._spread = column
        elif column.shape[0] < size:
            column = self._dense = arrays.grow_last_axis(column, size)
        return column[:size]

    def at(self, slots: arrays.SlotArray) -> arrays.Int32Array:
        """Value numbers of the slots; ABSENT where the label is missing. Shape: as `slots`."""
        if self._dense is not None:
            if self._dense.shape[0] <= (int(slots.max()) if slots.size else 0):
                self._dense = arrays.grow_last_axis(self._dense, int(slots.max()) + 1)
            return self._dense[slots]
        if not self._sparse:
            return np.zeros(slots.shape[0], dtype=np.int32)
        get = self._sparse.get
        return np.fromiter((get(slot, ABSENT) for slot in slots.tolist()), dtype=np.int32, count=slots.shape[0])

    def numbers_of(self, values: Iterable[str]) -> list[int]:
        """The numbers of those of the values that have one; all that some slot has do."""
        numbers = (self.dictionary.find(value) for value in values)
        return [number for number in numbers if number != ABSENT]

    def value_at(self, slot: int) -> str | None:
        """The value of one slot; None if it lacks the key."""
        if self._dense is None:
            number = self._sparse.get(slot, ABSENT)
        else:
            number = int(self._dense[slot]) if slot < self._dense.shape[0] else ABSENT
        return None if number == ABSENT else self.dictionary.value(number)

    def integers(self) -> tuple[arrays.Int64Array, arrays.BoolArray]:
        """The integer of each value number, and whether it parses (strconv.ParseInt, base 10). Shape: (value,)."""
        parsed_count = self._numbers.shape[0]
        if parsed_count < len(self.dictionary):
            new = [_integer_or_sentinel(value) for value in self.dictionary.values_from(parsed_count)]
            self._numbers = np.concatenate([self._numbers, np.array(new, dtype=np.int64)])
        return self._numbers, self._numbers != _NOT_A_NUMBER

    def _drop_unused_values(self) -> None:
        """Number the values that some slot has anew, in a dictionary of their own."""
        if self._dense is None:
            in_use = np.fromiter(self._sparse.values(), dtype=np.int32, count=len(self._sparse))
            self.dictionary, renumbering = self.dictionary.without_unused(in_use)
            self._sparse = dict(zip(self._sparse, renumbering[in_use].tolist(), strict=True))
        else:
            self.dictionary, renumbering = self.dictionary.without_unused(self._dense)
            self._dense = renumbering[self._dense]
        self._numbers = _NO_NUMBERS


def _integer_or_sentinel(text: str) -> int:
    """The integer that the label value is, or a number that stands for none."""
    number = selectors.parse_int64(text)
    return _NOT_A_NUMBER if number is None else number


class LabelColumns:
    """All label keys of all slots."""

    __slots__ = ("_columns", "_keys", "_same_keys", "_shared", "_shares_keys")

    def __init__(self) -> None:
        # The keys whose columns are those of a fork too, or of what was forked: copied before a change.
        self._shared: frozenset[str] = frozenset()
        self._shares_keys = False
        self._columns: dict[str, LabelColumn] = {}
        self._keys: dict[int, frozenset[str]] = {}  # by slot
        self._same_keys: dict[frozenset[str], frozenset[str]] = {}  # most nodes have the keys of another

    def column(self, key: str) -> LabelColumn:
        """The key's column, to read only; an empty one if no node has had the key.

        That one is not stored: pods may name any key, and would fill the memory with columns of nothing.
        """
        return self._columns.get(key) or LabelColumn()

    @property
    def keys(self) -> Sequence[str]:
        """The keys that some node has, or has had."""
        return tuple(self._columns)

    def fork(self) -> "LabelColumns":
        """The same labels, which are not changed by changes of these, nor these by them; dictionaries are shared."""
        out = LabelColumns()
        out._columns = self._columns.copy()
        out._shared = self._shared = frozenset(self._columns)
        out._keys, out._same_keys = self._keys, self._same_keys
        out._shares_keys = self._shares_keys = True
        return out

    def _own_column(self, key: str) -> LabelColumn:
        """The key's column, to be changed; made if there is none."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn()
        elif key in self._shared:
            column = self._columns[key] = column.copy()
            self._shared -= {key}
        return column

    def replace(self, slot: int, new: Mapping[str, str], capacity: int) -> None:
        """Set the slot's labels to `new`; `capacity` is the number of slots."""
        old = self._keys.get(slot, _NO_KEYS)
        if old != new.keys():
            for key in old - new.keys():
                self._own_column(key).set(slot, None, capacity)
            self._remember_key_set(slot, frozenset(new))
        for key, value in new.items():
            column = self._columns.get(key)
            if column is None or column.value_at(slot) != value:
                self._own_column(key).set(slot, value, capacity)

    def labels_of(self, slot: int) -> dict[str, str]:
        """All labels of one slot."""
        pairs = ((key, self._columns[key].value_at(slot)) for key in self._keys.get(slot, _NO_KEYS))
        return {key: value for key, value in pairs if value is not None}

    def _remember_key_set(self, slot: int, keys: frozenset[str]) -> None:
        """Remember which label keys the slot has; nodes with the same keys share one set."""
        if self._shares_keys:
            self._keys, self._same_keys = self._keys.copy(), self._same_keys.copy()
            self._shares_keys = False
        if not keys:
            self._keys.pop(slot, None)
            return
        if len(self._same_keys) >= _KEY_SETS:
            self._same_keys.clear()
        self._keys[slot] = self._same_keys.setdefault(keys, keys)
