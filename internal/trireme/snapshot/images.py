"""Which node has which container image: an inverted index, image name to slots.

A node lists up to fifty images, so the index keeps a set of slots for an image that few nodes have, and a bit per slot
for one that many have. The size of an image is the one that the node which reported it first gave. Source:
ImageLocality.
"""

from collections.abc import Iterable

import numpy as np

from trireme.snapshot import arrays
from trireme.v1 import core_pb2

# Above so many slots a set of ints takes more than a bitmap over a few thousand nodes.
_SET_LIMIT = 32


class _Image:
    """The slots that have one image."""

    __slots__ = ("_bits", "_few", "count", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self._few: set[int] | None = set()
        self._bits = np.zeros(0, dtype=np.uint8)  # eight slots a byte

    def add(self, slot: int) -> None:
        self.count += 1
        if self._few is not None:
            self._few.add(slot)
            if len(self._few) > _SET_LIMIT:
                members, self._few = self._few, None
                for member in members:
                    self._set(member)
            return
        self._set(slot)

    def discard(self, slot: int) -> None:
        self.count -= 1
        if self._few is not None:
            self._few.discard(slot)
        else:
            self._bits[slot >> 3] &= 0xFF ^ (1 << (slot & 7))

    def has(self, slots: arrays.SlotArray) -> arrays.BoolArray:
        """Whether each of the slots has the image. Shape: as `slots`."""
        if self._few is not None:
            return np.isin(slots, np.fromiter(self._few, dtype=np.intp, count=len(self._few)))
        byte = slots >> 3
        inside = byte < self._bits.shape[0]
        bits = self._bits[np.where(inside, byte, 0)] >> (slots & 7).astype(np.uint8)
        return inside & ((bits & 1) != 0)

    def _set(self, slot: int) -> None:
        byte = slot >> 3
        if byte >= self._bits.shape[0]:
            self._bits = arrays.grow_last_axis(self._bits, arrays.grown_capacity(byte + 1, self._bits.shape[0]))
        self._bits[byte] |= 1 << (slot & 7)


class ImageIndex:
    """Image name to the slots that have it. `generation` is when any node's images last changed."""

    __slots__ = ("_by_name", "_by_slot", "_sets", "generation")

    def __init__(self) -> None:
        self._by_name: dict[str, _Image] = {}
        self._by_slot: dict[int, tuple[str, ...]] = {}
        self._sets: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.generation = 0

    def replace(self, slot: int, images: Iterable[core_pb2.ContainerImage], generation: int) -> None:
        """The slot has these images and no others."""
        sizes = {name: image.size_bytes for image in images for name in image.names}
        names = tuple(sorted(sizes))
        old = self._by_slot.get(slot, ())
        if names == old:
            return
        self.generation = generation
        for name in set(names).difference(old):
            entry = self._by_name.get(name)
            if entry is None:
                entry = self._by_name[name] = _Image(sizes[name])
            entry.add(slot)
        for name in set(old).difference(names):
            entry = self._by_name[name]
            entry.discard(slot)
            if entry.count == 0:
                del self._by_name[name]
        if names:
            # Nodes of one image share one tuple.
            self._by_slot[slot] = self._sets.setdefault(names, names)
        else:
            self._by_slot.pop(slot, None)

    def find(self, name: str) -> _Image | None:
        """The image by its exact name, None where no node has it."""
        return self._by_name.get(name)
