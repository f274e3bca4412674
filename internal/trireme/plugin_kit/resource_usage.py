"""How much of a resource a node has in use once copies of a class are on it: what the two resource scorers look at."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trireme.framework import amounts
from trireme.plugin_kit import device_resources, plugin_context
from trireme.snapshot import arrays, classes, nodes, resources, snapshot_view


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """One resource that is scored.

    `placed` is what one copy adds to its node, `own` what the scorer adds for the pod itself; `…_nonzero` count
    containers without a request by a default.
    """

    number: int
    weight: int
    placed: int
    placed_nonzero: int
    own: int
    own_nonzero: int


def scored_resources(
    pod_class: classes.PodClass,
    snap: snapshot_view.SnapshotView,
    configured: Iterable[tuple[str, int]],
) -> tuple[ScoredResource, ...]:
    """The configured resources that count for the class: a scalar that it does not ask for is left out."""
    have = pod_class.amounts
    requested, requested_nonzero = have.scoring, have.scoring_nonzero
    names = snap.nodes.resource_names
    out = []
    for name, weight in configured:
        own = requested.get(name, 0)
        if own == 0 and amounts.is_scalar(name):
            continue
        number = names.intern(name)
        placed = have.placed.get(name, 0)
        if number in (resources.CPU, resources.MEMORY):
            out.append(
                ScoredResource(number, weight, placed, have.placed_nonzero[number], own, requested_nonzero[number])
            )
        else:
            out.append(ScoredResource(number, weight, placed, placed, own, own))
    snap.nodes.ensure_resource_rows()
    return tuple(out)


def device_counts(
    scored: Iterable[tuple[str, int]], context: plugin_context.PluginContext
) -> device_resources.DeviceCounts | None:
    """Devices count where a resource is scored that they may stand for; None: there is none."""
    if not context.features.get("DRAExtendedResource", True):
        return None
    return context.device_counts() if any(device_resources.may_come_from_devices(name) for name, _ in scored) else None


def allocatable_and_usage(
    snap: snapshot_view.SnapshotView,
    entry: ScoredResource,
    slots: arrays.SlotArray,
    copies: int,
    *,
    nonzero: bool,
    devices: device_resources.DeviceCounts | None,
) -> tuple[arrays.Int64Array, arrays.Int64Array]:
    """What nodes have of the resource, and what is in use with one copy, two, … on them.

    If a node has none of an extended resource, `devices` may stand for it. Shapes: (slot, 1) and (slot, copy).
    """
    has = snap.nodes.allocatable[entry.number, arrays.slot_index(slots)]
    used = usage_with_copies(snap.nodes, entry, slots, copies, nonzero=nonzero)
    name = snap.nodes.resource_names.names[entry.number]
    if devices is None or not device_resources.may_come_from_devices(name):
        return has[:, None], used
    count, taken = devices.count(snap, name, slots)
    by_device = (has == 0) & (count > 0)
    more = np.arange(copies, dtype=np.int64) * entry.placed + entry.own
    used = np.where(by_device[:, None], taken[:, None] + more, used)
    return np.where(by_device, count, has)[:, None], used


def usage_with_copies(
    table: nodes.NodeTable, entry: ScoredResource, slots: arrays.SlotArray, copies: int, *, nonzero: bool
) -> arrays.Int64Array:
    """What is in use with one copy, two, … on the node. Shape: (slot, copy)."""
    where = arrays.slot_index(slots)
    if nonzero and entry.number in (resources.CPU, resources.MEMORY):
        base = table.nonzero[entry.number, where]
        placed, own = entry.placed_nonzero, entry.own_nonzero
    else:
        base = table.requested[entry.number, where]
        placed, own = entry.placed, entry.own
    if copies == 1:
        return base[:, None] + own
    return base[:, None] + (np.arange(copies, dtype=np.int64) * placed + own)
