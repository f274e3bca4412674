"""Labels that a node is to have, compared with each node's own."""

import numpy as np
import pytest

from tests.helpers.snapshot_views import cluster_of
from trireme.snapshot import node_selection

NODES = ({"zone": "a", "disk": "ssd"}, {"zone": "b"}, {})


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
