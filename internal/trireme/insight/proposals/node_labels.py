"""Candidates that label a node: labels that no node has keep the pod off all of them.

Only where no node matches the pod's node selector and required node affinity, and a node lacks the keys of labels that
these need. A label that a node has says something of it, and is not replaced.

Tests: tests/unit/insight/test_label_proposals.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import selectors
from trireme.snapshot import arrays, node_selection, snapshot
from trireme.snapshot.dictionary import ABSENT
from trireme.v1 import core_pb2

# On how many nodes the same labels are tried.
_NODES = 3

# For Exists, which any value meets.
_ANY_VALUE = "true"

# Kubernetes reserves these domains for labels that its components set. What is excepted is for administrators.
_RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")
_OF_ADMINISTRATORS = ("node-restriction.kubernetes.io", "node-role.kubernetes.io")


@dataclass(frozen=True, slots=True)
class MissingLabels:
    """Labels to add, and the slots of some nodes that lack only these, the most promising first."""

    labels: Mapping[str, str]
    slots: Sequence[int]


def missing_labels(
    pod: core_pb2.Pod, snap: snapshot.Snapshot, refused: Sequence[arrays.BoolArray]
) -> list[MissingLabels]:
    """The sets of labels any of which lets nodes match the pod, the fewest labels first.

    `refused`: the slots that each plugin refuses; of nodes with the same missing labels, those that the fewest plugins
    refuse are the most promising. Shapes: refused (slot,).
    """
    slots = snap.nodes.live_slots()
    terms = list(_terms(pod))
    if node_selection.matches_any(snap.nodes, terms, slots).any():
        return []
    refusals = np.sum(refused, axis=0)[slots] if refused else np.zeros(slots.shape[0], dtype=np.int64)
    promising_first = np.argsort(refusals, kind="stable")
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for term in terms:
        for labels, places in _missing_by_node(term, snap, slots):
            first = promising_first[places[promising_first]][:_NODES]
            found.setdefault(tuple(sorted(labels.items())), []).extend(slots[first].tolist())
    order = sorted(found, key=lambda labels: (len(labels), labels))
    return [MissingLabels(dict(labels), list(dict.fromkeys(found[labels]))[:_NODES]) for labels in order]


def _terms(pod: core_pb2.Pod) -> Iterator[selectors.NodeTerm]:
    """The terms any of which a node has to match, each with the pod's node selector."""
    selected = [(key, value) for key, value in sorted(pod.spec.node_selector.items())]
    if not all(selectors.valid_key(key) and selectors.valid_value(value) for key, value in selected):
        return
    own = tuple(selectors.Requirement(key, selectors.IN, frozenset({value})) for key, value in selected)
    affinity = pod.spec.affinity.node_affinity
    if not affinity.HasField("required_during_scheduling_ignored_during_execution"):
        yield selectors.NodeTerm(own)
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    for term in selectors.parse_terms(required.node_selector_terms):
        yield selectors.NodeTerm((*own, *term.requirements), term.names, term.not_names)


def _missing_by_node(
    term: selectors.NodeTerm, snap: snapshot.Snapshot, slots: arrays.SlotArray
) -> Iterator[tuple[Mapping[str, str], arrays.BoolArray]]:
    """Each set of labels that nodes lack of the term, and where in `slots` these nodes are. Shapes: as `slots`."""
    possible = node_selection.matches_term(snap.nodes, selectors.NodeTerm((), term.names, term.not_names), slots)
    labels: list[tuple[str, str]] = []
    missing: list[arrays.BoolArray] = []
    for key in sorted({requirement.key for requirement in term.requirements}):
        of_key = selectors.NodeTerm(tuple(each for each in term.requirements if each.key == key))
        met = node_selection.matches_term(snap.nodes, of_key, slots)
        value = _value_for(key, of_key)
        addable = ~met & (snap.nodes.labels.column(key).at(slots) == ABSENT) & (value is not None)
        possible &= met | addable
        labels.append((key, value or ""))
        missing.append(addable)
    if not possible.any():
        return
    sets, number_of_node = np.unique(np.stack(missing), axis=1, return_inverse=True)
    for number in np.unique(number_of_node[possible]).tolist():
        chosen = {key: value for (key, value), needed in zip(labels, sets[:, number].tolist(), strict=True) if needed}
        yield chosen, possible & (number_of_node == number)


def _value_for(key: str, of_key: selectors.NodeTerm) -> str | None:
    """A value with which a label of this key meets all requirements of it; None: none is proposed.

    None for Gt and Lt alone: how many of something a node has is nothing to be made up.
    """
    if _is_reserved(key):
        return None
    wanted = [requirement.values for requirement in of_key.requirements if requirement.operator == selectors.IN]
    values = sorted(frozenset.intersection(*wanted)) if wanted else [_ANY_VALUE]
    return next((value for value in values if of_key.matches("", {key: value})), None)


def _is_reserved(key: str) -> bool:
    """Whether Kubernetes or a cloud provider sets labels of this key: they are facts about a node."""
    domain = key.rpartition("/")[0]
    return _is_in(domain, _RESERVED_DOMAINS) and not _is_in(domain, _OF_ADMINISTRATORS)


def _is_in(domain: str, domains: Sequence[str]) -> bool:
    """Whether the domain is one of these, or below one."""
    return any(domain == each or domain.endswith(f".{each}") for each in domains)
