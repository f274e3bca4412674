"""What nodes see of devices: nodes that see the same share one numbered view, and so whatever is found out for it.

Each view has a version, which grows whenever one of its devices is taken or given back.

Tests: tests/unit/plugins/dynamic_resources/test_inventory.py.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from trireme.plugins.dynamic_resources import devices, pools
from trireme.snapshot import arrays

NO_VIEW = -1


@dataclass(slots=True, eq=False)
class NodeView:
    """What some nodes see alike: slices, and of those that say so device by device, the devices within reach."""

    number: int
    slices: tuple[devices.DeviceSlice, ...]
    reachable: frozenset[devices.DeviceId]
    pool_ids: frozenset[devices.PoolId]
    # Whether the nodes support slices that skip steps on the node.
    skips_operations: bool = False
    # Why it is unknown which slices the nodes see; empty: it is known.
    problem: str = ""
    pools: "tuple[pools.Pool, ...] | None" = field(default=None)

    def reaches(self, device: devices.Device) -> bool:
        """Whether the nodes reach a device of a slice that says so device by device."""
        return device.id in self.reachable


# The names of the slices that are seen, and the rest of a view.
ViewKey = tuple[tuple[str, ...], frozenset[devices.DeviceId], bool, str]


class NodeViews:
    """The views that there are, by number and by slot.

    Shapes: of_slot (slot,), NO_VIEW where no node was looked at; versions (view,). A number that is free again is given
    to the next view, so what is known of a view is dropped with it.
    """

    def __init__(self) -> None:
        self.of_slot: arrays.Int32Array = arrays.no_numbers()
        self.versions: arrays.Int64Array = arrays.EMPTY_INT64
        self._by_number: list[NodeView | None] = []
        self._by_key: dict[ViewKey, NodeView] = {}
        self._free: list[int] = []
        self._of_pool: dict[devices.PoolId, set[int]] = {}

    def at(self, slot: int) -> NodeView:
        """What the node at the slot sees."""
        number = int(self.of_slot[slot]) if slot < self.of_slot.shape[0] else NO_VIEW
        view = None if number == NO_VIEW else self._by_number[number]
        assert view is not None, f"slot {slot} holds no node"
        return view

    def version(self, view: NodeView) -> int:
        """A number that grows whenever a device of the view is allocated or freed, or device classes change."""
        return int(self.versions[view.number])

    def assign(
        self, slot: int, key: ViewKey, make: Callable[[int], NodeView], version_of: Callable[[NodeView], int]
    ) -> None:
        """Note what the node at the slot sees. Where there is no such view yet, `make` makes the one of a number."""
        view = self._by_key.get(key)
        if view is None:
            view = self._by_key[key] = make(self._free.pop() if self._free else self._add_number())
            self._by_number[view.number] = view
            self.versions[view.number] = version_of(view)
            for pool in view.pool_ids:
                self._of_pool.setdefault(pool, set()).add(view.number)
        self.of_slot[slot] = view.number

    def _add_number(self) -> int:
        number = len(self._by_number)
        self._by_number.append(None)
        if number >= self.versions.shape[0]:
            capacity = arrays.grown_capacity(number + 1, self.versions.shape[0])
            self.versions = arrays.grow_last_axis(self.versions, capacity)
        return number

    def ensure_slots(self, size: int) -> None:
        """Make room for so many slots."""
        have = self.of_slot.shape[0]
        if size > have:
            self.of_slot = arrays.grow_last_axis(self.of_slot, arrays.grown_capacity(size, have))
            self.of_slot[have:] = NO_VIEW

    def drop_views_of(self, changed: Collection[devices.PoolId]) -> list[int]:
        """Drop the views that see one of these pools; returns their numbers. Their slots need a view again."""
        numbers = set[int]().union(*(self._of_pool.get(pool, ()) for pool in changed))
        for key in [key for key, view in self._by_key.items() if view.number in numbers] if numbers else ():
            view = self._by_key.pop(key)
            self._by_number[view.number] = None
            for pool in view.pool_ids:
                self._of_pool[pool].discard(view.number)
                if not self._of_pool[pool]:
                    del self._of_pool[pool]
        self._free.extend(numbers)
        return sorted(numbers)

    def touch(self, pool: devices.PoolId, generation: int) -> None:
        """A device of the pool was taken or given back: views of it have this version."""
        numbers = self._of_pool.get(pool)
        if numbers:
            self.versions[np.fromiter(numbers, np.intp, len(numbers))] = generation

    def touch_all(self, generation: int) -> None:
        """All views have at least this version."""
        np.maximum(self.versions, generation, out=self.versions)
