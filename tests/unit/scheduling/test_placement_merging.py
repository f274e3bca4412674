"""What the placements of several plugins have in common: the cases of kube-scheduler's placement_merging_test.go."""

import pytest

from trireme.plugin_api.placements import NodesOfDomain
from trireme.scheduling.groups import placement_merging

ROWS = [NodesOfDomain("row-a", (0, 1, 2)), NodesOfDomain("row-b", (3, 4))]


def test_each_pair_is_a_placement_of_the_nodes_in_common() -> None:
    """A group would be tried on nodes that one of the plugins excludes."""
    racks = [NodesOfDomain("x", (1, 2, 3)), NodesOfDomain("y", (4, 0))]
    assert placement_merging.intersect(ROWS, racks) == [
        ("row-a/x", (1, 2)),
        ("row-a/y", (0,)),
        ("row-b/x", (3,)),
        ("row-b/y", (4,)),
    ]


def test_pairs_without_a_node_in_common_are_none() -> None:
    assert placement_merging.intersect(ROWS, [NodesOfDomain("x", (4, 9))]) == [("row-b/x", (4,))]
    assert placement_merging.intersect(ROWS, [NodesOfDomain("x", (9,))]) == []


def test_the_order_is_that_of_the_first_and_no_node_comes_twice() -> None:
    first, second = [NodesOfDomain("a", (5, 3, 5, 4))], [NodesOfDomain("b", (3, 4, 4, 5))]
    assert placement_merging.intersect(first, second) == [("a/b", (5, 3, 4))]


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("a", "b"), ""),
        (("a", "b", "a"), 'plugin returned duplicate placement name "a"'),
        (("a/b",), 'placement name "a/b" must not contain "/"'),
        ((), ""),
    ],
)
def test_names_that_cannot_be_joined_are_wrong(names: tuple[str, ...], wrong: str) -> None:
    """Two placements would have one name in the messages."""
    assert placement_merging.find_wrong_name([NodesOfDomain(name, (0,)) for name in names]) == wrong
