"""Groups of groups: which belong together, and which cannot as long as somebody above them is not there."""

import itertools

import pytest

from tests.helpers.pod_group_builders import of_groups, pod_group
from trireme.queueing.batch_key import GroupKey
from trireme.queueing.groups.forest import Forest, Group, GroupNode


def planted(*groups: Group, composite: bool = True) -> Forest:
    forest = Forest(composite=composite)
    for group in groups:
        forest.set(group)
    return forest


def shape(node: GroupNode | None) -> object:
    """The tree by names."""
    if node is None:
        return None
    return (node.name, *map(shape, node.children)) if node.composite else node.name


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_tree_does_not_depend_on_the_order_of_events(order: tuple[int, ...]) -> None:
    """Informers of two kinds deliver their objects in any order."""
    objects: list[Group] = [
        of_groups("root"),
        of_groups("mid", parent="root"),
        pod_group("a", parent="mid"),
        pod_group("b", parent="root"),
    ]
    forest = planted(*(objects[number] for number in order))
    assert forest.root(GroupKey("ns/a")) == GroupKey("ns/root", composite=True)
    assert shape(forest.tree(GroupKey("ns/root", composite=True))) == ("root", "b", ("mid", "a")) or shape(
        forest.tree(GroupKey("ns/root", composite=True))
    ) == ("root", ("mid", "a"), "b")
    assert sorted(forest.pod_groups_below(GroupKey("ns/root", composite=True))) == ["ns/a", "ns/b"]


def test_a_group_and_a_group_of_groups_of_one_name_are_two() -> None:
    """kubernetes/kubernetes#141864: one stood for the other, and left with it."""
    below, alone, above = GroupKey("ns/g"), GroupKey("ns/h"), GroupKey("ns/g", composite=True)
    forest = planted(of_groups("g"), pod_group("g", parent="g"), of_groups("h"), pod_group("h"))
    assert (forest.root(below), forest.root(alone)) == (above, alone)
    assert shape(forest.tree(above)) == ("g", "g")
    assert forest.pod_groups_below(above) == ["ns/g"]
    forest.remove(GroupKey("ns/h", composite=True))
    assert shape(forest.tree(alone)) == "h"
    forest.remove(above)
    assert (forest.knows(below), forest.knows(above), forest.missing_ancestor(below)) == (True, False, above)


def test_groups_are_scheduled_by_age_and_then_by_name() -> None:
    """Which of them finds room depends on it."""
    groups: list[Group] = [pod_group(name, parent="root") for name in ("0", "b", "a")]
    groups[0].metadata.creation_timestamp.seconds = 9
    tree = planted(of_groups("root"), *groups).tree(GroupKey("ns/root", composite=True))
    assert shape(tree) == ("root", "a", "b", "0")


@pytest.mark.parametrize(
    ("groups", "missing", "known"),
    [
        ([pod_group("a", parent="x")], GroupKey("ns/x", composite=True), False),
        ([pod_group("a", parent="x"), of_groups("x", parent="y")], GroupKey("ns/y", composite=True), False),
        ([pod_group("a", parent="x"), of_groups("x", parent="x")], GroupKey("ns/x", composite=True), True),
        (
            [pod_group("a", parent="x"), of_groups("x", parent="y"), of_groups("y", parent="x")],
            GroupKey("ns/x", composite=True),
            True,
        ),
        ([], GroupKey("ns/a"), False),
    ],
    ids=["no parent", "no grandparent", "its own parent", "a circle", "not there itself"],
)
def test_an_incomplete_tree_names_the_missing_group(groups: list[Group], missing: GroupKey, known: bool) -> None:
    """Its pods wait, and their owner has to know what for; a circle must not be followed forever."""
    forest = planted(*groups)
    key = GroupKey("ns/a")
    assert forest.root(key) is None
    assert (forest.missing_ancestor(key), forest.knows(missing)) == (missing, known)
    forest.pod_groups_below(GroupKey("ns/x", composite=True))


def test_a_group_that_goes_or_moves_leaves_nothing_behind() -> None:
    """A group that was deleted would hold a tree up, or one that was made anew be in two."""
    forest = planted(of_groups("x"), of_groups("y"), pod_group("a", parent="x"))
    forest.set(pod_group("a", parent="y"))
    assert shape(forest.tree(GroupKey("ns/x", composite=True))) == ("x",)
    assert shape(forest.tree(GroupKey("ns/y", composite=True))) == ("y", "a")
    forest.remove(GroupKey("ns/a"))
    forest.remove(GroupKey("ns/a"))
    assert shape(forest.tree(GroupKey("ns/y", composite=True))) == ("y",)
    assert forest.tree(GroupKey("ns/a")) is None


def test_without_the_gate_each_pod_group_is_a_tree_of_its_own() -> None:
    """Whatever parent it names: nobody reads those."""
    forest = planted(pod_group("a", parent="x"), composite=False)
    assert forest.root(GroupKey("ns/a")) == GroupKey("ns/a")


@pytest.mark.parametrize(
    ("counts", "enough"),
    [
        ({"a": 2, "b": 1, "c": 1}, True),
        ({"a": 2, "c": 1}, True),
        ({"a": 1, "c": 1}, False),
        ({"a": 2, "b": 9}, False),
    ],
    ids=["everybody", "one of the two below", "nobody below", "too few above"],
)
def test_a_tree_has_its_minimum_if_enough_of_its_groups_have_theirs(counts: dict[str, int], enough: bool) -> None:
    forest = planted(
        of_groups("root", 2),
        of_groups("mid", 1, parent="root"),
        pod_group("a", 2, parent="mid"),
        pod_group("b", 99, parent="mid"),
        pod_group("c", parent="root"),
    )
    tree = forest.tree(GroupKey("ns/root", composite=True))
    assert tree is not None
    assert tree.has_minimum(lambda name: counts.get(name, 0)) == enough


def test_a_tree_lists_its_groups_from_the_top_and_its_leaves() -> None:
    tree = planted(
        of_groups("root"), of_groups("mid", parent="root"), pod_group("a", parent="mid"), pod_group("b", parent="root")
    ).tree(GroupKey("ns/root", composite=True))
    assert tree is not None
    names = [node.name for node in tree.nodes()]
    assert sorted(names) == ["a", "b", "mid", "root"]
    assert names[0] == "root"
    assert names.index("mid") + 1 == names.index("a")
    assert sorted(node.name for node in tree.leaves()) == ["a", "b"]
