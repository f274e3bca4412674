"""How much of a resource a node has in use once copies of a class are on it: what the two resource scorers look at.

Tests: tests/unit/plugin_kit/test_resource_usage.py, tests/conformance/test_decisions.py.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import amounts, plugin_spec
from trireme.plugin_kit import device_resources, plugin_context
from trireme.snapshot import arrays, classes, node_usage, resources, snapshot_view

# A quotient of whole numbers below this, as floating point divides them, is never rounded up to a whole one.
_EXACT = 2**53
_PERCENT = float(plugin_spec.MAX_SCORE)


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


@dataclass(frozen=True, slots=True)
class AddedAmounts:
    """What pods add to a resource of their node, a column each; with defaults where `nonzero`. Shape: more (column,).

    `own`: what the column's last pod adds for itself.
    """

    number: int
    weight: int
    nonzero: bool
    more: arrays.Int64Array
    own: int | arrays.Int64Array


@dataclass(frozen=True, slots=True)
class AddedPods:
    """What pods add to their node, resource by resource that is scored, in so many columns."""

    columns: int
    amounts: Sequence[AddedAmounts]


def add_copies(scored: Sequence[ScoredResource], copies: int, *, nonzero: bool) -> AddedPods:
    """What one copy of the class adds, two, …: a column for each number of copies."""
    out = []
    for entry in scored:
        placed, own = (entry.placed_nonzero, entry.own_nonzero) if nonzero else (entry.placed, entry.own)
        more = _amounts_of_copies(placed, own, copies)
        out.append(AddedAmounts(entry.number, entry.weight, nonzero, more, entry.own))
    return AddedPods(copies, out)


def add_pods(states: Sequence[Sequence[ScoredResource]], *, nonzero: bool) -> Sequence[AddedPods]:
    """What one pod of each class adds: a column each, in parts for which the same resources are scored."""
    parts = []
    for _, part in itertools.groupby(states, key=lambda state: [entry.number for entry in state]):
        of_part, amounts_of_part = list(part), []
        for number, entry in enumerate(of_part[0]):
            own = np.array([each[number].own for each in of_part])
            more = np.array([each[number].own_nonzero for each in of_part]) if nonzero else own
            amounts_of_part.append(AddedAmounts(entry.number, entry.weight, nonzero, more, own))
        parts.append(AddedPods(len(of_part), amounts_of_part))
    return parts


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What nodes have of a resource, what their pods use of it, and what is added in each column.

    Shapes: capacity and base (node, 1), more (column,), results (node, column). Of results the nodes of a column are
    beside each other in memory: there are many more nodes than columns, and so each operation has long runs.
    """

    capacity: node_usage.Capacity
    base: arrays.Int64Array
    more: arrays.Int64Array

    def percentages_used(self) -> arrays.Int64Array:
        """The whole percentages that are used with what is added, exactly; 0 to 100.

        Source: pkg/scheduler/framework/plugins/noderesources (scaledFraction).
        """
        if not self._divides_exactly():
            return self._percentages(np.minimum(self._sums(), self.capacity.amounts))
        part = np.add(self.base * _PERCENT, self.more * _PERCENT, order="F")
        return _whole_quotients(np.minimum(part, self.capacity.floats * _PERCENT, out=part), self.capacity)

    def percentages_free(self) -> arrays.Int64Array:
        """As `percentages_used`, of what is left."""
        if not self._divides_exactly():
            return self._percentages(np.maximum(self.capacity.amounts - self._sums(), 0))
        part = np.subtract((self.capacity.floats - self.base) * _PERCENT, self.more * _PERCENT, order="F")
        return _whole_quotients(np.maximum(part, 0.0, out=part), self.capacity)

    def fractions(self) -> arrays.Float64Array:
        """The parts that are used with what is added, at most 1."""
        if int(self.base.max(initial=0)) + int(self.more.max(initial=0)) < _EXACT:
            out = np.add(self.base.astype(np.float64), self.more.astype(np.float64), order="F")
            out /= self.capacity.floats
        else:
            out = self._sums() / self.capacity.floats
        return np.minimum(out, 1.0, out=out)

    def fractions_without(self, own: int | arrays.Int64Array) -> arrays.Float64Array:
        """The parts that are used without the last pod of each column, which adds `own`."""
        out = (self._sums() - own) / self.capacity.floats
        return np.minimum(out, 1.0, out=out)

    def fractions_before(self) -> arrays.Float64Array:
        """The parts that are used without what is added. Shape: (node, 1)."""
        out = self.base / self.capacity.floats
        return np.minimum(out, 1.0, out=out)

    def _sums(self) -> arrays.Int64Array:
        return arrays.saturated(np.add(self.base, self.more, order="F"))

    def _divides_exactly(self) -> bool:
        """Whether floating point divides a hundred times the amounts exactly: in a third of the time.

        What is beyond the capacity need not be exact.
        """
        return self.capacity.largest * plugin_spec.MAX_SCORE < _EXACT

    def _percentages(self, part: arrays.Int64Array) -> arrays.Int64Array:
        if self.capacity.largest > arrays.INT64_MAX // plugin_spec.MAX_SCORE:
            return (part.astype(object) * plugin_spec.MAX_SCORE // self.capacity.amounts).astype(np.int64)
        return part * plugin_spec.MAX_SCORE // self.capacity.amounts


def use_of(
    usage: node_usage.NodeUsage, added: AddedAmounts, devices: device_resources.DeviceCounts | None
) -> ResourceUse:
    """How nodes use the resource. If a node has none of an extended resource, `devices` may stand for it."""
    counts_defaults = added.nonzero and added.number in (resources.CPU, resources.MEMORY)
    base = usage.requested_nonzero(added.number) if counts_defaults else usage.requested(added.number)
    base = arrays.saturated(base)
    name = usage.name_of(added.number)
    if devices is None or not device_resources.may_come_from_devices(name):
        return ResourceUse(usage.capacity(added.number), base[:, None], added.more)
    has = usage.allocatable(added.number)
    count, taken = devices.count(usage.snap, name, usage.slots)
    by_device = (has == 0) & (count > 0)
    capacity = node_usage.Capacity.of(np.where(by_device, count, has))
    return ResourceUse(capacity, np.where(by_device, taken, base)[:, None], added.more)


def _whole_quotients(part: arrays.Float64Array, capacity: node_usage.Capacity) -> arrays.Int64Array:
    """`part` by the capacity, rounded down. Shape: as `part`, which is spent."""
    part /= capacity.floats
    return part.astype(np.int64)


def _amounts_of_copies(placed: int, own: int, copies: int) -> arrays.Int64Array:
    """What one copy, two, … add to what a node's pods use, at most what 64 bits hold. Shape: (copy,)."""
    if placed * (copies - 1) + own <= arrays.INT64_MAX:
        return np.arange(copies, dtype=np.int64) * placed + own
    return np.array([min(number * placed + own, arrays.INT64_MAX) for number in range(copies)], dtype=np.int64)
