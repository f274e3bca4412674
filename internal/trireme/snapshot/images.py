"""An inverted index of container images: image name to slots.

A node lists up to fifty images, so the index has a set of slots for an image on few nodes, and a bitmap for one on many
nodes.

Nodes may report different sizes for an image. kube-scheduler uses the first that it saw; replicas must not depend on
their order of events, so here it is the size that most nodes report, and the smallest of equally frequent ones.
Source: pkg/scheduler/backend/cache (image states).

Tests: tests/unit/snapshot/test_tables_against_models.py, tests/unit/snapshot/test_columns.py.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from trireme.snapshot import arrays
from trireme.v1 import core_pb2

# Above this many slots a set of ints takes more memory than a bitmap over a few thousand nodes.
_SET_LIMIT = 32

_Listed = tuple[str, int]  # name, size
_List = tuple[_Listed, ...]  # sorted


class _SharedImageList:
    """A list of images, and the number of nodes with exactly that list."""

    __slots__ = ("listed", "nodes")

    def __init__(self, listed: _List) -> None:
        self.listed = listed
        self.nodes = 0


class _SlotsWithImage:
    """The slots that have one image."""

    __slots__ = ("_bits", "_few", "_sizes", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sizes: dict[int, int] = {}  # size to how many nodes report it
        self._few: set[int] | None = set()
        self._bits = np.zeros(0, dtype=np.uint8)  # eight slots per byte

    def copy(self) -> "_SlotsWithImage":
        """The same slots, in an object of its own."""
        out = _SlotsWithImage()
        out.count, out._sizes, out._bits = self.count, self._sizes.copy(), self._bits.copy()
        out._few = None if self._few is None else self._few.copy()
        return out

    @property
    def size(self) -> int:
        """The size in bytes that counts: the one that most nodes report, of several the smallest."""
        return min(self._sizes, key=lambda size: (-self._sizes[size], size))

    def has_size(self, size: int) -> bool:
        """Whether a node reports this size."""
        return size in self._sizes

    def add(self, slot: int, size: int) -> None:
        """Add a slot whose node reports this size; many slots become a bitmap."""
        self.count += 1
        self._sizes[size] = self._sizes.get(size, 0) + 1
        if self._few is not None:
            self._few.add(slot)
            if len(self._few) > _SET_LIMIT:
                members, self._few = self._few, None
                for member in members:
                    self._mark_in_bitmap(member)
            return
        self._mark_in_bitmap(slot)

    def discard(self, slot: int, size: int) -> None:
        """Remove a slot whose node reported this size."""
        self.count -= 1
        self._sizes[size] -= 1
        if self._sizes[size] == 0:
            del self._sizes[size]
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

    def _mark_in_bitmap(self, slot: int) -> None:
        byte = slot >> 3
        if byte >= self._bits.shape[0]:
            self._bits = arrays.grow_last_axis(self._bits, arrays.grown_capacity(byte + 1, self._bits.shape[0]))
        self._bits[byte] |= 1 << (slot & 7)


class ImageIndex:
    """Maps image names to slots. `generation` is the last change of any node's images."""

    __slots__ = ("_by_name", "_by_slot", "_images", "_lists", "_shared", "generation")

    def __init__(self) -> None:
        # Whether all of it is that of a fork too, or of what was forked: copied before a change.
        self._shared = False
        self._by_name: dict[str, _SlotsWithImage] = {}
        self._by_slot: dict[int, _List] = {}
        # Nodes with equal lists share one tuple, and lists share their entries.
        self._lists: dict[_List, _SharedImageList] = {}
        self._images: dict[_Listed, _Listed] = {}
        self.generation = 0

    def fork(self) -> "ImageIndex":
        """The same images, which are not changed by changes of this index, nor this by theirs."""
        out = ImageIndex()
        out._by_name, out._by_slot, out._lists, out._images = self._by_name, self._by_slot, self._lists, self._images
        out._shared = self._shared = True
        out.generation = self.generation
        return out

    def _own(self) -> None:
        """Copy what is shared, before a change."""
        if not self._shared:
            return
        self._by_name = {name: image.copy() for name, image in self._by_name.items()}
        self._by_slot, self._images = self._by_slot.copy(), self._images.copy()
        lists, self._lists = self._lists, {}
        for listed, shared in lists.items():
            own = self._lists[listed] = _SharedImageList(listed)
            own.nodes = shared.nodes
        self._shared = False

    def replace(self, slot: int, images: Iterable[core_pb2.ContainerImage], generation: int) -> None:
        """Set the images of a slot, in place of those before; the same list as before changes nothing.

        Of a name that is listed twice the first size counts.
        """
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        listed = tuple(sorted(self._images.get(entry, entry) for entry in sizes.items()))
        old = self._by_slot.get(slot, ())
        if listed == old:
            return
        self._own()
        self.generation = generation
        self._forget_list_of_slot(slot, old)
        for entry in set(old).difference(listed):
            self._remove_image_from_slot(slot, entry)
        for entry in set(listed).difference(old):
            self._images.setdefault(entry, entry)
            if entry[0] not in self._by_name:
                self._by_name[entry[0]] = _SlotsWithImage()
            self._by_name[entry[0]].add(slot, entry[1])
        self._remember_list_of_slot(slot, listed)

    def find(self, name: str) -> _SlotsWithImage | None:
        """The image of that exact name; None if no node has it."""
        return self._by_name.get(name)

    def images_of(self, slot: int) -> Sequence[tuple[str, int]]:
        """Name and size of each image that the slot's node lists, by name."""
        return self._by_slot.get(slot, ())

    def _remember_list_of_slot(self, slot: int, listed: _List) -> None:
        """Remember the slot's list of images, shared with other nodes that have the same."""
        if listed:
            shared = self._lists.setdefault(listed, _SharedImageList(listed))
            shared.nodes += 1
            self._by_slot[slot] = shared.listed

    def _forget_list_of_slot(self, slot: int, listed: _List) -> None:
        """Forget the slot's list of images."""
        if listed:
            del self._by_slot[slot]
            shared = self._lists[listed]
            shared.nodes -= 1
            if shared.nodes == 0:
                del self._lists[listed]

    def _remove_image_from_slot(self, slot: int, entry: _Listed) -> None:
        """Remove an image from a slot, and forget it if no node has it any more."""
        name, size = entry
        image = self._by_name[name]
        image.discard(slot, size)
        if not image.has_size(size):
            del self._images[entry]
        if image.count == 0:
            del self._by_name[name]
