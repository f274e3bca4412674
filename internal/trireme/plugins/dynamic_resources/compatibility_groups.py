"""Compatibility groups: devices that draw on one set of counters must all have a group in common.

Devices without groups go with each other alone.

Source: k8s.io/dynamic-resource-allocation/structured/internal/experimental (compatibility_groups.go).

Tests: tests/unit/plugins/dynamic_resources/test_gated.py.
"""

from collections.abc import Iterable

from trireme.plugins.dynamic_resources import devices

# Whether all devices on a set of counters are without groups, and else the groups that all of them have in common.
_Common = tuple[bool, frozenset[str]]

# What a set of counters had before a device was added; None: no devices.
Before = dict[str, _Common | None]


class CompatibilityGroups:
    """The devices that draw on the counters of one pool."""

    def __init__(self, allocated: Iterable[devices.Device]) -> None:
        # By set of counters; no entry without devices.
        self._common: dict[str, _Common] = {}
        for device in allocated:
            for counter_set, groups in _groups_by_counter_set(device):
                self._common[counter_set] = _common_groups_with(self._common.get(counter_set), groups)

    def add(self, device: devices.Device) -> Before | None:
        """Add the device to all sets of counters that it draws on; returns what `undo_add` needs.

        None: the device does not go with those that are there, and nothing has changed.
        """
        before: Before = {}
        for counter_set, groups in _groups_by_counter_set(device):
            common = self._common.get(counter_set)
            if common is not None and not _may_join(common, groups):
                self.undo_add(before)
                return None
            before.setdefault(counter_set, common)
            self._common[counter_set] = _common_groups_with(common, groups)
        return before

    def undo_add(self, before: Before) -> None:
        """Undo the last `add` that has not been undone."""
        for counter_set, common in before.items():
            if common is None:
                del self._common[counter_set]
            else:
                self._common[counter_set] = common


def _groups_by_counter_set(device: devices.Device) -> Iterable[tuple[str, frozenset[str]]]:
    """Return each counter set that the device draws on, with the compatibility groups that it names there."""
    return ((each.counter_set, frozenset(each.compatibility_groups)) for each in device.message.consumes_counters)


def _may_join(common: _Common, groups: frozenset[str]) -> bool:
    """Whether a device with these groups may join: all devices name none, or all share one at least."""
    without, shared = common
    return without if not groups else not without and bool(shared & groups)


def _common_groups_with(common: _Common | None, groups: frozenset[str]) -> _Common:
    """Return what the devices have in common once one with these groups has joined; `common` None: it is the first."""
    if common is None:
        return not groups, groups
    without, shared = common
    # Devices that do not go together may have been allocated before they said so.
    return common if without or not groups else (False, shared & groups)
