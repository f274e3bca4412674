"""How many devices stand for an extended resource on nodes, and how many of these are allocated.

That is what the resource scorers look at where a node's device plugin has none of the resource. All slices count,
complete or not, of whatever generation.

Source: pkg/scheduler/framework/plugins/noderesources/resource_allocation.go (calculateDRAResourceTotals).

Tests: tests/unit/plugins/dynamic_resources/test_counts.py.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trireme.plugins.dynamic_resources import devices, expressions, features, inventory
from trireme.snapshot import arrays, node_selection, snapshot
from trireme.v1 import resource_pb2


class DeviceCounter:
    """Counts devices as they are at the snapshot's generation."""

    def __init__(self, on: features.Features) -> None:
        self._on = on

    def count(
        self, snap: snapshot.Snapshot, resource: str, slots: arrays.SlotArray
    ) -> tuple[arrays.Int64Array, arrays.Int64Array]:
        """Count the devices that stand for the extended resource on each slot, and those that claims hold.

        Both are 0 without a device class for it, on slots of a device for which a selector of the class fails, and on
        all slots if the node selector of any slice or device cannot be read. Shapes: (slot,).
        """
        known = inventory.inventory_of(snap, self._on)
        device_class = known.class_of_resource.get(resource)
        counts = np.zeros((2, slots.shape[0]), dtype=np.int64)
        if device_class is None:
            return counts[0], counts[1]
        failed = np.zeros(slots.shape[0], dtype=np.bool_)
        for entry in (entry for of_pool in known.by_pool.values() for entry in of_pool):
            if not entry.per_device:
                _count_devices(
                    known,
                    device_class,
                    entry.devices,
                    _slots_with_devices(snap, entry, entry.placement, slots),
                    counts,
                    failed,
                )
                # A node selector that cannot be read makes the counts of all slots 0.
                failed |= bool(entry.placement.problem)
                continue
            for device in entry.devices:
                _count_devices(
                    known,
                    device_class,
                    [device],
                    _slots_with_devices(snap, None, device.placement, slots),
                    counts,
                    failed,
                )
                failed |= bool(device.placement.problem)
        counts[:, failed] = 0
        return counts[0], counts[1]


def _slots_with_devices(
    snap: snapshot.Snapshot,
    entry: devices.DeviceSlice | None,
    placement: devices.DevicePlacement,
    slots: arrays.SlotArray,
) -> arrays.BoolArray:
    """Which of the slots have the devices; all of them where a slice (`entry`) states nothing. Shape: (slot,)."""
    if placement.all_nodes or (entry is not None and not placement.is_set):
        return np.ones(slots.shape[0], dtype=np.bool_)
    out = np.zeros(slots.shape[0], dtype=np.bool_)
    if placement.node_name:
        out |= slots == snap.nodes.slot_of_name.get(placement.node_name, -1)
    elif placement.terms:
        out |= node_selection.matches_any(snap.nodes, placement.terms, slots)
    return out


def _count_devices(
    known: inventory.DeviceInventory,
    device_class: resource_pb2.DeviceClass,
    there: Sequence[devices.Device],
    at: arrays.BoolArray,
    counts: arrays.Int64Array,
    failed: arrays.BoolArray,
) -> None:
    """Add these devices to the counts of the slots `at`; where a selector of the class fails, mark them in `failed`.

    Shapes: counts (2, slot): all devices, allocated ones; at, failed (slot,).
    """
    if not at.any():
        return
    try:
        chosen = [device for device in there if _matches_device_class(known, device_class, device)]
    except (expressions.CompileError, expressions.DeviceExpressionError):
        failed |= at
        return
    counts[0, at] += len(chosen)
    counts[1, at] += sum(known.allocated.contains(device.id) for device in chosen)


def _matches_device_class(
    known: inventory.DeviceInventory, device_class: resource_pb2.DeviceClass, device: devices.Device
) -> bool:
    """Whether the device meets all selectors of the device class. Raises what `Device.matches` does."""
    selectors = [each.cel.expression for each in device_class.spec.selectors if each.HasField("cel")]
    return all(device.matches(expression, known.selectors, _never_out_of_time) for expression in selectors)


def _never_out_of_time() -> bool:
    """Stand for a time limit that is never reached."""
    return False


def make(gates: Mapping[str, bool]) -> DeviceCounter:
    """Make the counter, by the feature gates; scores of nodes' resources use it."""
    return DeviceCounter(features.of_gates(gates))
