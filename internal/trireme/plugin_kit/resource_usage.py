"""How much of a resource a node has in use once copies of a class are on it: what the two resource scorers look at.

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trireme.framework import amounts
from trireme.plugin_kit import device_resources, plugin_context
from trireme.snapshot import arrays, classes, node_usage, resources, snapshot_view


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


def capacity_and_usage(
    usage: node_usage.NodeUsage,
    entry: ScoredResource,
    copies: int,
    *,
    nonzero: bool,
    devices: device_resources.DeviceCounts | None,
) -> tuple[node_usage.Capacity, arrays.Int64Array]:
    """What nodes have of the resource, and what is in use with one copy, two, … on them.

    If a node has none of an extended resource, `devices` may stand for it. Shape of the usage: (node, copy).
    """
    if nonzero and entry.number in (resources.CPU, resources.MEMORY):
        base = usage.requested_nonzero(entry.number)
        placed, own = entry.placed_nonzero, entry.own_nonzero
    else:
        base = usage.requested(entry.number)
        placed, own = entry.placed, entry.own
    more = _amounts_of_copies(placed, own, copies)
    used = arrays.saturated(base[:, None] + more)
    name = usage.name_of(entry.number)
    if devices is None or not device_resources.may_come_from_devices(name):
        return usage.capacity(entry.number), used
    has = usage.allocatable(entry.number)
    count, taken = devices.count(usage.snap, name, usage.slots)
    by_device = (has == 0) & (count > 0)
    used = np.where(by_device[:, None], taken[:, None] + more, used)
    return node_usage.Capacity.of(np.where(by_device, count, has)), used


def _amounts_of_copies(placed: int, own: int, copies: int) -> arrays.Int64Array:
    """What one copy, two, … add to what a node's pods use, at most what 64 bits hold. Shape: (copy,)."""
    if placed * (copies - 1) + own <= arrays.INT64_MAX:
        return np.arange(copies, dtype=np.int64) * placed + own
    return np.array([min(number * placed + own, arrays.INT64_MAX) for number in range(copies)], dtype=np.int64)
