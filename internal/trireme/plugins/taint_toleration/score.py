"""TaintToleration's Score: soft taints count against a node.

Also change: examples/score-phase-go/scoring.go, internal/trireme/plugins/node_resources_balanced_allocation/score.py,
internal/trireme/plugins/node_resources_fit/score.py (the same scores).
"""

from typing import Any, Literal

from trireme.framework import tolerations
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.taint_toleration import taint_sets
from trireme.plugins.taint_toleration.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot


class TaintTolerationScore:
    """The score of TaintToleration: prefers nodes with fewer PreferNoSchedule taints that the pod does not tolerate."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    reads_node_terms_only: Literal[True] = True
    normalization = scorers.Normalization.MAX_REVERSED
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, comparing: bool) -> None:
        """`comparing`: tolerations may compare numbers."""
        self._comparing = comparing

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return, per taint set, how many of its soft taints the class does not tolerate."""
        soft = [t for t in pod_class.tolerations if t.effect in ("", tolerations.PREFER_NO_SCHEDULE)]

        def count_untolerated(taints: tuple[tolerations.Taint, ...]) -> int:
            prefer = [taint for taint in taints if taint[2] == tolerations.PREFER_NO_SCHEDULE]
            return sum(not tolerations.is_tolerated(soft, taint, comparing=self._comparing) for taint in prefer)

        return pod_class.memo(f"{self.name}/score", lambda _: taint_sets.ValueByTaintSet(count_untolerated))

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """How many soft taints of each node the class does not tolerate.

        Fewer is better, which normalization turns round.
        """
        numbers: taint_sets.ValueByTaintSet = state
        return numbers.at(snap.nodes, slots)


def make(context: plugin_context.PluginContext) -> TaintTolerationScore:
    """Make the scorer, by the feature gates."""
    return TaintTolerationScore(context.features.get(tolerations.GATE, False))
