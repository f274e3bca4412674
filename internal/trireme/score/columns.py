"""One class's raw scores and capacities about all slots, kept between calls.

Raw scores are this replica's own, brought up to date by what changed. Capacities are what filter answered: the frontend
passes them on, whole or as a patch to the ones of a generation that this replica has.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trireme.snapshot import arrays


@dataclass(slots=True)
class ScoreColumn:
    """One plugin's raw scores. Shape: (slot,). State None: the plugin has nothing to say about the class."""

    state: Any
    state_generation: int
    generation: int = -1
    raw: arrays.Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def write(self, slots: arrays.SlotArray, raw: arrays.Int64Array, size: int) -> None:
        """Raw scores of these slots from now on; `size` is how many slots there may be."""
        if self.raw.shape[0] < size:
            self.raw = arrays.grow_last_axis(self.raw, size)
        self.raw[slots] = raw


@dataclass(slots=True)
class ClassColumns:
    """All that is kept of one class under one profile. Shapes: (slot,).

    `capacity` is how many more copies each node takes by itself; `refused` marks nodes that filter refused, which keep
    a capacity where a domain constraint alone refuses them. `capacity_generation` −1: not known.
    """

    plugins: dict[str, ScoreColumn] = field(default_factory=dict)
    capacity_generation: int = -1
    capacity: arrays.Int32Array = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    refused: arrays.BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    # Held while remote plugins are asked about the class.
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        return self.capacity.nbytes + self.refused.nbytes + sum(column.raw.nbytes for column in self.plugins.values())

    def take_capacities(
        self,
        slots: arrays.SlotArray | None,
        size: int,
        refused: arrays.BoolArray,
        capacity: arrays.Int32Array,
        generation: int,
    ) -> None:
        """Filter's answer of this generation: complete where `slots` is None, else a patch. Shapes: (size,) or as
        slots.
        """
        if slots is None:
            self.refused = refused
            self.capacity = capacity
        else:
            if self.capacity.shape[0] < size:
                self.refused = arrays.grow_last_axis(self.refused, size)
                self.capacity = arrays.grow_last_axis(self.capacity, size)
            self.refused[slots] = refused
            self.capacity[slots] = capacity
        self.capacity_generation = generation
