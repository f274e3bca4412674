"""Evaluates node selectors on label columns.

Used by NodeAffinity, topology spread's inclusion policy, volumes and devices.

Also change: internal/trireme/framework/selectors.py (the operators).

Tests: tests/unit/snapshot/test_node_selection.py, tests/unit/plugins/test_node_affinity.py.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from trireme.framework import selectors
from trireme.snapshot import arrays, nodes
from trireme.snapshot.dictionary import ABSENT


def matches_labels(table: nodes.NodeTable, labels: Mapping[str, str], slots: arrays.SlotArray) -> arrays.BoolArray:
    """Whether each slot has all the labels. Shape: as `slots`."""
    out = np.ones(slots.shape[0], dtype=np.bool_)
    for key, value in labels.items():
        column = table.labels.column(key)
        number = column.dictionary.find(value)
        if number == ABSENT:
            return np.zeros(slots.shape[0], dtype=np.bool_)
        out &= column.at(slots) == number
    return out


def matches_any(
    table: nodes.NodeTable, terms: Sequence[selectors.NodeTerm], slots: arrays.SlotArray
) -> arrays.BoolArray:
    """Whether each slot matches any of the terms; without terms none does. Shape: as `slots`."""
    out = np.zeros(slots.shape[0], dtype=np.bool_)
    for term in terms:
        out |= matches_term(table, term, slots)
    return out


def matches_term(table: nodes.NodeTable, term: selectors.NodeTerm, slots: arrays.SlotArray) -> arrays.BoolArray:
    """Whether each slot matches the term. Shape: as `slots`."""
    if term.names is None:
        out = np.ones(slots.shape[0], dtype=np.bool_)
    else:
        out = _are_named(table, term.names, slots)
    if term.not_names:
        out &= ~_are_named(table, term.not_names, slots)
    for requirement in term.requirements:
        out &= _meets_requirement(table, requirement, slots)
    return out


def _are_named(table: nodes.NodeTable, names: frozenset[str], slots: arrays.SlotArray) -> arrays.BoolArray:
    """Whether each slot is that of a node of one of these names. Shape: as `slots`."""
    named = [table.slot_of_name[name] for name in names if name in table.slot_of_name]
    # Pods of a DaemonSet name one node, where to compare takes a tenth of the time.
    return slots == named[0] if len(named) == 1 else np.isin(slots, named)


def _meets_requirement(
    table: nodes.NodeTable, requirement: selectors.Requirement, slots: arrays.SlotArray
) -> arrays.BoolArray:
    """Return for each slot whether its labels meet the requirement. Shape: as `slots`.

    A node without the label meets NotIn and DoesNotExist; Gt and Lt need a value that is an integer.
    """
    column = table.labels.column(requirement.key)
    values = column.at(slots)
    if requirement.operator == selectors.EXISTS:
        return values != ABSENT
    if requirement.operator == selectors.DOES_NOT_EXIST:
        return values == ABSENT
    if requirement.operator in (selectors.IN, selectors.NOT_IN):
        numbers_of_values = {column.dictionary.find(value) for value in requirement.values} - {ABSENT}
        # Most requirements are of one value, where to compare takes a tenth of the time.
        only = next(iter(numbers_of_values)) if len(numbers_of_values) == 1 else None
        matching = np.isin(values, list(numbers_of_values)) if only is None else values == only
        return ~matching if requirement.operator == selectors.NOT_IN else matching
    numbers, readable = column.integers()
    compared = numbers > requirement.bound if requirement.operator == selectors.GREATER else numbers < requirement.bound
    return (compared & readable)[values]
