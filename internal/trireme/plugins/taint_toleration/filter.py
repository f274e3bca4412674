"""TaintToleration's Filter: hard taints keep pods away."""

import functools
from typing import Any, Literal

import numpy as np

from trireme.framework import status, tolerations
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.plugins.taint_toleration import taint_sets
from trireme.plugins.taint_toleration.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view

_REASON = "node(s) had untolerated taint(s)"
# What is cached of taints: a cluster has few different ones, and many pods with the same tolerations.
_CACHED = 4096

_HARD = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)


class TaintTolerationFilter:
    """The filter of TaintToleration: refuses nodes with a taint that keeps out pods which do not tolerate it."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, comparing: bool) -> None:
        """`comparing`: tolerations may compare numbers."""
        self._comparing = comparing

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Return, per taint set, the number of its refusal in the table, PASSES where the class tolerates it."""
        own = pod_class.tolerations

        def number_of_refusal(taints: tuple[tolerations.Taint, ...]) -> int:
            taint = _first_hard_taint(own, taints, self._comparing)
            return interfaces.PASSES if taint is None else table.intern(_refusal_by(taint))

        return interfaces.PreFilterResult(state=taint_sets.ValueByTaintSet(number_of_refusal))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots with a hard taint that the class does not tolerate."""
        numbers: taint_sets.ValueByTaintSet = state
        return interfaces.Verdicts(numbers.at(snap.nodes, slots).astype(np.int16))


@functools.lru_cache(maxsize=_CACHED)
def _first_hard_taint(
    own: tuple[tolerations.Toleration, ...], taints: tuple[tolerations.Taint, ...], comparing: bool
) -> tolerations.Taint | None:
    """The first of the taints that keeps pods with these tolerations away; None: none does."""
    return tolerations.first_untolerated_taint(own, taints, _HARD, comparing=comparing)


@functools.lru_cache(maxsize=_CACHED)
def _refusal_by(taint: tolerations.Taint) -> status.Status:
    """The refusal by a taint that the pod does not tolerate."""
    reason = status.Reason.of("untoleratedTaint", {"key": taint[0], "value": taint[1], "effect": taint[2]})
    return status.unresolvable(TaintTolerationFilter.name, _REASON, reasons=(reason,))


def make(context: plugin_context.PluginContext) -> TaintTolerationFilter:
    """Make the filter, by the feature gates."""
    return TaintTolerationFilter(context.features.get(tolerations.GATE, False))
