"""Array types of the snapshot, and growing them.

Axes: `slot` is a node's number, `resource` a resource's number, `row` a placed pod's number.
"""

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

MIN_CAPACITY = 64

# So many entries are quicker gone through one after the other: arrays cost more than they save.
FEW = 16


def grown_capacity(needed: int, current: int) -> int:
    """The capacity to grow to: an eighth more than needed, so that growing is rare and little is wasted."""
    return max(MIN_CAPACITY, needed, current + current // 8)


def grow_last_axis(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """A copy of `array` whose last axis has `capacity` entries, the new ones zero."""
    shape = (*array.shape[:-1], capacity)
    out = np.zeros(shape, dtype=array.dtype)
    out[..., : array.shape[-1]] = array
    return out


def region(slots: SlotArray) -> SlotArray | slice:
    """An index of the same entries: a slice if `slots` are the first ones without a gap, else `slots` themselves.

    The slots are ascending, or were and have been rolled.

    In a large cluster most classes can run almost everywhere, and copies are what is left to pay.
    """
    size = slots.shape[0]
    return slice(0, size) if size and not slots[0] and slots[-1] == size - 1 else slots


def at(column: npt.NDArray[Any], slots: SlotArray) -> npt.NDArray[Any]:
    """The entries of slots as `region` takes them; not to be written to, as it may be the column itself.

    Shape: as `slots`.
    """
    out: npt.NDArray[Any] = column[region(slots)]
    return out
