"""NodeAffinity's Filter: node selectors, required node affinity, and the affinity that the profile adds."""

from typing import Any, Literal

import numpy as np

from trireme.framework import selectors, status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context, required_affinity
from trireme.plugins.node_affinity import added_affinity
from trireme.plugins.node_affinity.spec import SPEC
from trireme.snapshot import arrays, classes, node_selection, snapshot_view
from trireme.v1 import core_pb2

_REASON = "node(s) didn't match Pod's node affinity/selector"
_ENFORCED_REASON = "node(s) didn't match scheduler-enforced node affinity"
_CONFLICT = "pod affinity terms conflict"


class NodeAffinityFilter:
    """The filter of NodeAffinity: the pod's node selector and required affinity, and what the profile adds."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, added_affinity: core_pb2.NodeAffinity | None = None) -> None:
        added = core_pb2.NodeAffinity() if added_affinity is None else added_affinity
        self._added_terms = required_affinity.required_terms(added)
        self._refusal = status.unresolvable(self.name, _REASON, reasons=(status.Reason("nodeAffinity"),))
        self._enforced = status.unresolvable(
            self.name, _ENFORCED_REASON, reasons=(status.Reason("enforcedNodeAffinity"),)
        )

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Skip without demands; narrow where every required term names its nodes."""
        spec = pod_class.pod.spec
        required = spec.affinity.node_affinity.HasField("required_during_scheduling_ignored_during_execution")
        if self._added_terms is None and not spec.node_selector and not required:
            return interfaces.SKIPPED
        if not required:
            return interfaces.PreFilterResult()
        names = _nodes_named_by_all_terms(
            spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        )
        if names is not None and not names:
            reasons = (status.Reason("conflictingTerms"),)
            return interfaces.PreFilterResult(status=status.unresolvable(self.name, _CONFLICT, reasons=reasons))
        return interfaces.PreFilterResult(nodes=names)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots that the profile's or the class's own affinity does not match, in this order."""
        matches = required_affinity.required_affinity_of(pod_class).matches(snap.nodes, slots)
        index = np.where(matches, interfaces.PASSES, table.intern(self._refusal))
        if self._added_terms is not None:
            enforced = node_selection.matches_any(snap.nodes, self._added_terms, slots)
            index = np.where(enforced, index, table.intern(self._enforced))
        return interfaces.Verdicts(index.astype(np.int16))


def _nodes_named_by_all_terms(required: core_pb2.NodeSelector) -> frozenset[str] | None:
    """Return the nodes that the terms name by metadata.name; None unless every term names some."""
    union: frozenset[str] | None = None
    for term in required.node_selector_terms:
        names: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == selectors.IN:
                named = frozenset(field.values)
                names = named if names is None else names & named
        if names is None:
            return None
        union = names if union is None else union | names
    return union


def make(context: plugin_context.PluginContext) -> NodeAffinityFilter:
    """Make the filter, by its arguments."""
    return NodeAffinityFilter(added_affinity.added_affinity_of(context))
