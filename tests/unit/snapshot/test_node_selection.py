"""Labels and terms that a node is to match, compared with each node's own name and labels."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.snapshot_views import cluster_of
from trireme.framework import selectors
from trireme.snapshot import node_selection

NODES: tuple[dict[str, str], ...] = ({"zone": "a", "disk": "ssd"}, {"zone": "b"}, {})
VALUES = ("a", "b", "", "4", "5", "6")
NAMES = st.frozensets(st.sampled_from(["n0", "n1", "n2", "gone"]), max_size=3)
REQUIREMENTS = st.builds(
    selectors.Requirement,
    st.sampled_from(["zone", "size", "unknown"]),
    st.sampled_from(
        [selectors.IN, selectors.NOT_IN, selectors.EXISTS, selectors.DOES_NOT_EXIST, selectors.GREATER, selectors.LESS]
    ),
    st.frozensets(st.sampled_from([*VALUES, "nobody-has-it"]), min_size=1, max_size=3),
    st.integers(4, 6),
)
TERMS = st.builds(selectors.NodeTerm, st.lists(REQUIREMENTS, max_size=2).map(tuple), st.none() | NAMES, NAMES)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"zone": "a"},
        {"zone": "a", "disk": "ssd"},
        {"zone": "b", "disk": "ssd"},
        {"zone": "nobody-has-it"},
        {"unknown": "x"},
        {"zone": ""},
    ],
    ids=str,
)
def test_a_node_matches_if_it_has_all_the_labels(wanted: dict[str, str]) -> None:
    """A value that no node has is not the lack of the label."""
    snap = cluster_of(**{f"n{number}": {"labels": labels} for number, labels in enumerate(NODES)}).snap
    slots = np.array([2, 0, 1])
    expected = [wanted.items() <= NODES[slot].items() for slot in slots.tolist()]
    assert node_selection.matches_labels(snap.nodes, wanted, slots).tolist() == expected


@given(
    st.lists(st.dictionaries(st.sampled_from(["zone", "size"]), st.sampled_from(VALUES)), min_size=1, max_size=5),
    st.lists(TERMS, max_size=2),
    st.randoms(use_true_random=False),
)
def test_a_node_matches_terms_as_each_term_says_of_its_name_and_labels(
    labels: list[dict[str, str]], terms: list[selectors.NodeTerm], draw: random.Random
) -> None:
    """A pod would land where its affinity forbids it, or nowhere."""
    table = cluster_of(**{f"n{number}": {"labels": own} for number, own in enumerate(labels)}).snap.nodes
    slots = np.array(draw.sample(range(len(labels)), len(labels)))
    expected = [any(term.matches(f"n{slot}", labels[slot]) for term in terms) for slot in slots.tolist()]
    assert node_selection.matches_any(table, terms, slots).tolist() == expected
