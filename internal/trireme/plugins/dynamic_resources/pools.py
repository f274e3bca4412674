"""Pools as one node sees them: the slices that count there, complete or not, and the counters that devices draw on.

Which slices a node sees is found out elsewhere; nodes that see the same slices share the answer. Out-dated slices do
not count. An incomplete pool gives no device; where two devices have one name, or a device draws
on a counter that is not there, the pool is invalid.

Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating (GatherPools).

Tests: tests/unit/plugins/dynamic_resources/test_allocator.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trireme.plugins.dynamic_resources import devices, features


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """One pool. `offered` are the slices whose devices the node can reach, by name; `elsewhere` the others."""

    id: devices.PoolId
    incomplete: bool = False
    invalid: bool = False
    offered: tuple[devices.DeviceSlice, ...] = ()
    elsewhere: tuple[devices.DeviceSlice, ...] = ()
    counter_sets: Mapping[str, devices.Amounts] | None = None

    @property
    def name(self) -> str:
        """The pool's full name, `driver/pool`."""
        return "/".join(self.id)

    @property
    def binding_conditions(self) -> bool:
        """Whether a device of it must be prepared before a pod is bound."""
        return any(device.message.binding_conditions for entry in self.offered for device in entry.devices)


def is_usable(entry: devices.DeviceSlice, on: features.Features) -> bool:
    """Return whether the slice is looked at: the features can handle it, and it says where its devices are."""
    if not on.partitionable and (entry.message.spec.HasField("per_device_node_selection") or entry.counter_sets):
        return False
    if _is_unsafe_without_groups(entry, on):
        return False
    return entry.placement.is_set or entry.per_device


def _is_unsafe_without_groups(entry: devices.DeviceSlice, on: features.Features) -> bool:
    """Whether the slice's devices have compatibility groups, which the gates turn off: they must not be allocated."""
    return entry.uses_groups and not on.compatibility_groups


def gather_pools(
    seen: Iterable[devices.DeviceSlice],
    by_pool: Mapping[devices.PoolId, Sequence[devices.DeviceSlice]],
    on: features.Features,
) -> tuple[Pool, ...]:
    """Make the pools of the slices that a node sees, in the order in which devices are looked for.

    Only slices of a pool's newest generation count; a pool that is not complete is marked so. `by_pool` has all slices
    of each pool, whatever their generation.
    """
    newest: dict[devices.PoolId, list[devices.DeviceSlice]] = {}
    for entry in seen:
        of_pool = newest.setdefault(entry.pool, [])
        if of_pool and entry.generation < of_pool[0].generation:
            continue
        if of_pool and entry.generation > of_pool[0].generation:
            of_pool.clear()
        of_pool.append(entry)
    found = (_make_pool(pool, entries, by_pool.get(pool, ()), on) for pool, entries in newest.items())
    # Devices that need no preparation come first.
    return tuple(
        sorted((pool for pool in found if pool is not None), key=lambda pool: (pool.binding_conditions, pool.id))
    )


def _make_pool(
    pool: devices.PoolId,
    entries: list[devices.DeviceSlice],
    everywhere: Sequence[devices.DeviceSlice],
    on: features.Features,
) -> Pool | None:
    """Make the pool of the slices that a node sees; None: a newer generation, which it does not see, replaces them.

    Slices that it does not see are looked for among all (`everywhere`); if some are missing, the pool is incomplete.
    """
    generation, size = entries[0].generation, entries[0].pool_size
    rest: Sequence[devices.DeviceSlice] = ()
    if len(entries) != size:
        if any(entry.generation > generation for entry in everywhere):
            return None
        whole = [
            entry for entry in everywhere if entry.generation == generation and not _is_unsafe_without_groups(entry, on)
        ]
        if len(whole) != size:
            return Pool(pool, incomplete=True)
        rest = [entry for entry in whole if entry not in entries]
    return _make_checked_pool(pool, sorted(entries, key=lambda entry: entry.name), rest, on)


def _make_checked_pool(
    pool: devices.PoolId,
    entries: Sequence[devices.DeviceSlice],
    rest: Sequence[devices.DeviceSlice],
    on: features.Features,
) -> Pool:
    """The pool of complete slices; invalid if two devices have one name, or counters are doubled or missing."""
    offered = [entry for entry in entries if not (on.partitionable and entry.counter_sets)]
    elsewhere = [entry for entry in rest if not (on.partitionable and entry.counter_sets)]
    names = [device.id for entry in offered for device in entry.devices]
    if len(names) != len(set(names)):
        return Pool(pool, invalid=True)
    if not on.partitionable:
        return Pool(pool, offered=tuple(offered))
    counter_sets: dict[str, devices.Amounts] = {}
    for entry in (*entries, *rest):
        for name, counters in entry.counter_sets:
            if name in counter_sets:
                return Pool(pool, invalid=True)
            counter_sets[name] = counters
    if not all(_has_all_counters(entry, counter_sets) for entry in (*offered, *elsewhere)):
        return Pool(pool, invalid=True)
    return Pool(pool, offered=tuple(offered), elsewhere=tuple(elsewhere), counter_sets=counter_sets)


def _has_all_counters(entry: devices.DeviceSlice, counter_sets: Mapping[str, devices.Amounts]) -> bool:
    """Whether the counter sets contain all counters that the slice's devices draw on."""
    return all(
        name in counter_sets and counters.keys() <= counter_sets[name].keys()
        for device in entry.devices
        for name, counters in device.consumes
    )
