"""What a pod's node selector and required node affinity ask of a node.

NodeAffinity refuses by it, and PodTopologySpread counts only domains of nodes that are so.

Tests: tests/unit/plugins/test_node_affinity.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trireme.framework import selectors
from trireme.snapshot import arrays, classes, node_selection, nodes
from trireme.v1 import core_pb2


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """What a node must be like: all of the labels, and any of the terms (None: there is no such demand)."""

    labels: Mapping[str, str]
    terms: tuple[selectors.NodeTerm, ...] | None

    def matches(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.BoolArray:
        """Whether each slot is so. Shape: as `slots`."""
        out = node_selection.matches_labels(table, self.labels, slots)
        if self.terms is not None:
            out &= node_selection.matches_any(table, self.terms, slots)
        return out


def required_affinity_of(pod_class: classes.PodClass) -> RequiredAffinity:
    """The class's node selector and required node affinity, parsed once."""

    def parse_required_affinity(entry: classes.PodClass) -> RequiredAffinity:
        terms = required_terms(entry.pod.spec.affinity.node_affinity)
        return RequiredAffinity(dict(entry.pod.spec.node_selector), terms)

    return pod_class.memo("required_affinity", parse_required_affinity)


def required_terms(affinity: core_pb2.NodeAffinity) -> tuple[selectors.NodeTerm, ...] | None:
    """The terms, at least one of which must match; None: there is no such demand."""
    if not affinity.HasField("required_during_scheduling_ignored_during_execution"):
        return None
    return selectors.parse_terms(affinity.required_during_scheduling_ignored_during_execution.node_selector_terms)
