"""NodeAffinity's Score: nodes that the pod, or its profile, prefers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import selectors, status
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.node_affinity import added_affinity
from trireme.plugins.node_affinity.spec import SPEC
from trireme.snapshot import arrays, classes, node_selection, snapshot
from trireme.v1 import core_pb2


@dataclass(frozen=True, slots=True)
class _PreferredTerm:
    """A preferred term and its weight."""

    weight: int
    term: selectors.NodeTerm


class NodeAffinityScore:
    """The score of NodeAffinity: the weights of preferred terms that match, the pod's and the profile's."""

    name = SPEC.name
    depends_on = interfaces.Dependency.NODE
    reads_node_terms_only: Literal[True] = True
    normalization = scorers.Normalization.MAX
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ()

    def __init__(self, added: core_pb2.NodeAffinity | None = None) -> None:
        self._added = _preferred_terms(core_pb2.NodeAffinity() if added is None else added)

    def pre_score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> Any:
        """Return the preferred terms, the profile's and the class's own; an error if one of the class's is invalid."""
        stated = pod_class.pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
        if not stated and not self._added:
            return None
        wrong = _preferred_terms_problem(stated)
        if wrong:
            return status.error(self.name, f'running PreScore plugin "{self.name}": {wrong}')
        own = pod_class.memo(f"{self.name}/preferred", lambda of: _preferred_terms(of.pod.spec.affinity.node_affinity))
        return (*self._added, *own)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """The weights of the preferred terms that match."""
        out = np.zeros(slots.shape[0], dtype=np.int64)
        preferred: tuple[_PreferredTerm, ...] = state
        for entry in preferred:
            out += node_selection.matches_term(snap.nodes, entry.term, slots) * entry.weight
        return out


def _preferred_terms(affinity: core_pb2.NodeAffinity) -> tuple[_PreferredTerm, ...]:
    """Return the preferred terms that count: those with a weight, and not empty."""
    out = []
    for entry in affinity.preferred_during_scheduling_ignored_during_execution:
        term = selectors.parse_term(entry.preference)
        if entry.weight != 0 and term is not None:
            out.append(_PreferredTerm(entry.weight, term))
    return tuple(out)


def _preferred_terms_problem(stated: Sequence[core_pb2.PreferredSchedulingTerm]) -> str:
    """Return why preferred terms with a weight are invalid; empty if they are valid."""
    found = [
        problem
        for index, entry in enumerate(stated)
        if entry.weight != 0
        for problem in selectors.term_problems(entry.preference, f"[{index}]")
    ]
    distinct = list(dict.fromkeys(found))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""


def make(context: plugin_context.PluginContext) -> NodeAffinityScore:
    """Make the scorer, by its arguments."""
    return NodeAffinityScore(added_affinity.added_affinity_of(context))
