"""Counters that devices of a pool share: what allocated devices leave of them, while the allocator selects others.

A device that is a part of another one consumes counters of its pool, and so cannot be had beside the whole.

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Callable, Sequence

from trireme.plugins.dynamic_resources import allocated_devices, compatibility_groups, devices, features, pools


class SharedCounters:
    """The counters that devices of these pools share, less what allocated and selected devices take of them."""

    def __init__(
        self, of_pools: Sequence[pools.Pool], allocated: allocated_devices.AllocatedDevices, on: features.Features
    ) -> None:
        self._allocated = allocated
        self._on = on
        self._pool_of = {device.id: pool for pool in of_pools for entry in pool.offered for device in entry.devices}
        self._available: dict[devices.PoolId, dict[tuple[str, str], int]] = {}
        self._groups: dict[devices.PoolId, compatibility_groups.CompatibilityGroups] = {}

    def can_take(self, device: devices.Device) -> bool:
        """Return whether the pool's counters suffice for the device, and its compatibility groups fit the others."""
        return self._is_compatible(device) and self._has_enough_for(device)

    def take(self, device: devices.Device) -> Callable[[], None]:
        """Subtract what the device consumes; return what adds it back. The latter must be called in reverse order."""
        self._add_or_subtract_device(device, 1)
        before = self._groups_of(device).add(device) if self._on.compatibility_groups else None

        def add_back() -> None:
            if before is not None:
                self._groups_of(device).undo_add(before)
            self._add_or_subtract_device(device, -1)

        return add_back

    def _is_compatible(self, device: devices.Device) -> bool:
        """Whether the device's compatibility groups fit the devices in use; always without the feature."""
        if not self._on.compatibility_groups:
            return True
        groups = self._groups_of(device)
        before = groups.add(device)
        if before is None:
            return False
        groups.undo_add(before)
        return True

    def _groups_of(self, device: devices.Device) -> compatibility_groups.CompatibilityGroups:
        """The compatibility groups of the device's pool."""
        pool = self._pool_of[device.id]
        known = self._groups.get(pool.id)
        if known is None:
            there = (each for entry in (*pool.offered, *pool.elsewhere) for each in entry.devices)
            allocated = (each for each in there if self._allocated.contains(each.id))
            known = self._groups[pool.id] = compatibility_groups.CompatibilityGroups(allocated)
        return known

    def _has_enough_for(self, device: devices.Device) -> bool:
        """Whether no counter of the pool would be overdrawn; one that is already lets no device be taken."""
        available = self._available_in(self._pool_of[device.id])
        self._add_or_subtract_device(device, 1)
        # All counters of the pool are checked: one that was overdrawn before keeps every device from being taken.
        enough = all(amount >= 0 for amount in available.values())
        self._add_or_subtract_device(device, -1)
        return enough

    def _add_or_subtract_device(self, device: devices.Device, sign: int) -> None:
        """Subtract what the device consumes from its pool's counters (`sign` 1), or add it back (−1)."""
        available = self._available_in(self._pool_of[device.id])
        for counter_set, counters in device.consumes:
            for name, amount in counters.items():
                available[counter_set, name] -= sign * amount

    def _available_in(self, pool: pools.Pool) -> dict[tuple[str, str], int]:
        """Return what is left of the pool's counters, by set and name; counted at the first call."""
        available = self._available.get(pool.id)
        if available is None:
            sets = pool.counter_sets or {}
            available = {
                (name, counter): amount for name, counters in sets.items() for counter, amount in counters.items()
            }
            for entry in (*pool.offered, *pool.elsewhere):
                for device in entry.devices:
                    if not self._allocated.contains(device.id):
                        continue
                    for name, counters in device.consumes:
                        for counter, amount in counters.items():
                            available[name, counter] -= amount
            self._available[pool.id] = available
        return available
