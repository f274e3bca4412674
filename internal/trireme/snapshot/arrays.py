"""Array types of the snapshot, and functions to grow and index arrays.

Axes: `slot` is a node's number, `resource` a resource's number, `row` a placed pod's number, `class` the index of a
class (`PodClass.index`, not its number).

Tests: tests/unit/snapshot/test_arrays.py, tests/unit/snapshot/test_columns.py, tests/unit/filter/test_service.py.
"""

import functools
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Int64Array: TypeAlias = npt.NDArray[np.int64]
Float64Array: TypeAlias = npt.NDArray[np.float64]
Int32Array: TypeAlias = npt.NDArray[np.int32]
Int16Array: TypeAlias = npt.NDArray[np.int16]
UInt8Array: TypeAlias = npt.NDArray[np.uint8]
SlotArray: TypeAlias = npt.NDArray[np.intp]
RowArray: TypeAlias = npt.NDArray[np.intp]

MIN_CAPACITY = 64

INT64_MAX = np.iinfo(np.int64).max

# Up to this many entries a Python loop is faster than array operations.
FEW = 16


# Empty arrays, where columns begin: nothing can be written to them, so all may share them.
EMPTY_BOOL: BoolArray = np.zeros(0, dtype=np.bool_)
EMPTY_INT16: Int16Array = np.zeros(0, dtype=np.int16)
EMPTY_INT32: Int32Array = np.zeros(0, dtype=np.int32)
EMPTY_INT64: Int64Array = np.zeros(0, dtype=np.int64)
EMPTY_SLOTS: SlotArray = np.zeros(0, dtype=np.intp)


def no_slots() -> SlotArray:
    """An empty array of slots."""
    return np.zeros(0, dtype=np.intp)


def no_numbers() -> Int32Array:
    """An empty array of class numbers or slots, as columns have them."""
    return np.zeros(0, dtype=np.int32)


def grown_capacity(needed: int, current: int) -> int:
    """The capacity to grow to: an eighth more than needed, so that growing is rare and wastes little."""
    return max(MIN_CAPACITY, needed, current + current // 8)


def grow_last_axis(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """Copy `array` with a last axis of `capacity` entries, the new ones zero."""
    shape = (*array.shape[:-1], capacity)
    out = np.zeros(shape, dtype=array.dtype)
    if array.size:
        out[..., : array.shape[-1]] = array
    return out


@functools.lru_cache(maxsize=4)
def first_slots(size: int) -> SlotArray:
    """The slots below `size`, ascending; read-only, as it is shared. Shape: (size,)."""
    out = np.arange(size)
    out.flags.writeable = False
    return out


def slot_index(slots: SlotArray) -> SlotArray | slice:
    """An index of the same entries: a slice if `slots` have no gap, else `slots` themselves.

    The slots are ascending, or a rotation of ascending slots.

    In a large cluster most classes fit almost everywhere, and the slice avoids the copy, the largest remaining cost.
    """
    size = slots.shape[0]
    if not size:
        return slots
    first, last = int(slots[0]), int(slots[-1])
    return slice(first, last + 1) if last - first == size - 1 else slots


def entries_at(column: npt.NDArray[Any], slots: SlotArray) -> npt.NDArray[Any]:
    """Return the entries at the slots; read-only, since it may be a view of the column. Shape: as `slots`."""
    out: npt.NDArray[Any] = column[slot_index(slots)]
    return out


def saturated(sums: Int64Array) -> Int64Array:
    """Sums of amounts, each at most what 64 bits hold: those that wrapped around once are as large as can be.

    A column keeps them wrapped, so that subtracting an amount gives the exact sum again. Shape: as `sums`.
    """
    out: Int64Array = np.minimum(sums.view(np.uint64), np.uint64(INT64_MAX)).view(np.int64)
    return out
