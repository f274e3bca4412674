"""TaintToleration: hard taints keep pods away, soft ones count against a node.

Both are decided once per distinct set of taints and spread over the slots by indexing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from trireme.framework import status, tolerations
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context
from trireme.snapshot import arrays, classes, nodes, snapshot

_REASON = "node(s) had untolerated taint(s)"
_HARD = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)


class _ByTaintSet:
    """A number per distinct taint set, made as sets appear. Set number 0 is no node's."""

    __slots__ = ("_numbers", "_of")

    def __init__(self, of: Callable[[tuple[tolerations.Taint, ...]], int]) -> None:
        self._of = of
        self._numbers = np.zeros(1, dtype=np.int64)

    def at(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.Int64Array:
        known = self._numbers.shape[0]
        if known < len(table.taint_sets):
            new = [self._of(taints) for taints in table.taint_sets.values_from(known)]
            self._numbers = np.concatenate([self._numbers, np.array(new, dtype=np.int64)])
        return self._numbers[table.taint_set[slots]]


class TaintToleration:
    """Source: pkg/scheduler/framework/plugins/tainttoleration."""

    name = "TaintToleration"
    depends_on = interfaces.Dependency.NODE
    normalization = interfaces.Normalization.MAX_REVERSED
    reads: tuple[str, ...] = ()

    def __init__(self, comparing: bool) -> None:
        """`comparing`: tolerations may compare numbers."""
        self._comparing = comparing

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """State: per taint set, the number of its refusal."""
        own = list(pod_class.pod.spec.tolerations)

        def refusal(taints: tuple[tolerations.Taint, ...]) -> int:
            taint = tolerations.untolerated(own, taints, _HARD, comparing=self._comparing)
            if taint is None:
                return interfaces.PASSES
            reason = status.Reason.of("untoleratedTaint", {"key": taint[0], "value": taint[1], "effect": taint[2]})
            return table.intern(status.unresolvable(self.name, _REASON, reasons=(reason,)))

        return interfaces.PreFilterResult(state=_ByTaintSet(refusal))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots with a hard taint that the class does not tolerate."""
        numbers: _ByTaintSet = state
        return interfaces.Verdicts(numbers.at(snap.nodes, slots).astype(np.int16))

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Per taint set, how many of its soft taints the class does not tolerate."""
        soft = [t for t in pod_class.pod.spec.tolerations if t.effect in ("", tolerations.PREFER_NO_SCHEDULE)]

        def intolerable(taints: tuple[tolerations.Taint, ...]) -> int:
            prefer = [taint for taint in taints if taint[2] == tolerations.PREFER_NO_SCHEDULE]
            return sum(not tolerations.tolerated(soft, taint, comparing=self._comparing) for taint in prefer)

        return pod_class.memo(f"{self.name}/score", lambda _: _ByTaintSet(intolerable))

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Soft taints not tolerated; fewer is better."""
        numbers: _ByTaintSet = state
        return numbers.at(snap.nodes, slots)


def make(context: plugin_context.PluginContext) -> TaintToleration:
    """The plugin, by the feature gates."""
    return TaintToleration(context.features.get(tolerations.GATE, False))
