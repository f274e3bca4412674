"""What nodes have left, and how it is spread: gauges of filter's snapshot, computed when they are scraped.

Nodes that are cordoned count for nothing here. Replicas of filter show the same numbers.

Also change: deploy/dashboards.yaml (the queries).

Tests: tests/unit/filter/test_node_metrics.py.
"""

import functools
from collections.abc import Iterable, Mapping

import numpy as np

from trireme.snapshot import arrays, resources, snapshot
from trireme_kube.componentbase.metrics.instruments import Gauge, Instrument, Values

SHORT = 0.05
"""A node with less than this share of its CPUs or memory left takes hardly another pod."""

_MILLI = 1000


_HELP = {
    "trireme_node_allocatable": "What all nodes that take pods have, by resource (cpu in CPUs).",
    "trireme_node_requested": "What pods request on these nodes, by resource.",
    "trireme_node_largest_free": "The most that one of these nodes has left, by resource: no larger pod fits.",
    "trireme_node_stranded": "What is left on nodes that have less than 5 % of another resource (CPU or memory) or no "
    "place for a pod left.",
}


def instruments(snap: snapshot.Snapshot) -> Iterable[Instrument]:
    """The gauges, by resource; CPUs are counted in CPUs, all else in the resource's own unit."""
    figures = _Figures(snap)
    for name, help_text in _HELP.items():
        yield Gauge(name, help_text, functools.partial(figures.of, name), ("resource",))


class _Figures:
    """What the gauges show of one generation of the snapshot, computed once for all of them."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = snap
        self._at: tuple[int, int] | None = None
        self._amounts: Mapping[str, arrays.Float64Array] = {}

    def of(self, name: str) -> Mapping[Values, float]:
        """The gauge's values in the snapshot as it is now, without resources that no node has ever had."""
        at = self._snap.incarnation, self._snap.generation
        if at != self._at:
            self._amounts, self._at = _Table(self._snap).amounts(), at
        return _by_resource(self._snap, self._amounts[name])


class _Table:
    """The nodes that take pods. Shape of the columns: (resource, node)."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        nodes = snap.nodes
        live = nodes.live_slots()
        self._slots: arrays.SlotArray = live[~nodes.unschedulable[live]]
        self.allocatable: arrays.Int64Array = nodes.allocatable[:, self._slots]
        self.requested: arrays.Int64Array = arrays.saturated(nodes.requested[:, self._slots])
        self.free: arrays.Int64Array = np.maximum(self.allocatable - self.requested, 0)
        self._has_no_place = nodes.pod_count[self._slots] >= nodes.allowed_pods[self._slots]

    def amounts(self) -> Mapping[str, arrays.Float64Array]:
        """What each gauge shows. Sums of nodes may leave 64 bits. Shape: (resource,)."""
        return {
            "trireme_node_allocatable": self.allocatable.sum(axis=1, dtype=np.float64),
            "trireme_node_requested": self.requested.sum(axis=1, dtype=np.float64),
            "trireme_node_largest_free": self.free.max(axis=1, initial=0).astype(np.float64),
            "trireme_node_stranded": self._stranded(),
        }

    def _stranded(self) -> arrays.Float64Array:
        """What is left of each resource where another one is used up. Shape: (resource,)."""
        pair = slice(resources.CPU, resources.MEMORY + 1)
        short = self.free[pair] < SHORT * self.allocatable[pair]
        out = np.zeros(self.free.shape[0], dtype=np.float64)
        for resource in range(self.free.shape[0]):
            others = [short[each] for each in (resources.CPU, resources.MEMORY) if each != resource]
            where = np.logical_or.reduce([*others, self._has_no_place])
            out[resource] = self.free[resource, where].sum(dtype=np.float64)
        return out


def _by_resource(snap: snapshot.Snapshot, amounts: arrays.Float64Array) -> Mapping[Values, float]:
    """The amounts with the names of their resources, without resources that no node has ever had."""
    out: dict[Values, float] = {}
    for number, name in enumerate(snap.nodes.resource_names.names[: amounts.shape[0]]):
        if number in (resources.CPU, resources.MEMORY) or snap.nodes.allocatable[number].any():
            out[(name,)] = float(amounts[number]) / (_MILLI if number == resources.CPU else 1)
    return out
