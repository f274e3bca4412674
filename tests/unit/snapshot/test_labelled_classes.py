"""The classes that a selector may match, found by their labels: all that it matches, and counted alike."""

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.snapshot_views import SnapshotBuilder, cluster_of, pod_of
from trireme.framework import label_selectors, selectors
from trireme.snapshot import class_counters, classes, labelled_classes

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xyz"))
OPERATORS = (selectors.IN, selectors.NOT_IN, selectors.EXISTS, selectors.DOES_NOT_EXIST)
SELECTORS = st.none() | st.lists(
    st.builds(
        selectors.Requirement,
        st.sampled_from("ab"),
        st.sampled_from(OPERATORS),
        st.frozensets(st.sampled_from("xyz"), min_size=1),
    ),
    max_size=2,
).map(tuple)
# A class comes, has a pod, or goes.
STEPS = st.lists(st.tuples(st.sampled_from(["come", "place", "go"]), st.integers(1, 4), LABELS), max_size=12)


def _follow(builder: SnapshotBuilder, step: tuple[str, int, dict[str, str]], rows: dict[int, list[int]]) -> None:
    """Make the step, if it can be made; `rows` are those of each class's pods."""
    kind, number, labels = step
    known = number in builder.snap.classes
    if kind == "come" and not known:
        builder.add_class(number, pod_of(labels=labels))
    elif kind == "place" and known:
        rows.setdefault(number, []).extend(builder.place(number, "n0"))
    elif kind == "go" and known:
        builder.remove(*rows.pop(number, ()))
        builder.apply(removed_classes=[number])


@given(SELECTORS, SELECTORS, STEPS, st.sampled_from([None, 0, 1]))
def test_classes_that_a_selector_matches_are_found_and_counted(
    first: tuple[selectors.Requirement, ...] | None,
    second: tuple[selectors.Requirement, ...] | None,
    steps: list[tuple[str, int, dict[str, str]]],
    odd: int | None,
) -> None:
    """A class that is not found has no weight: its pods would not keep others away."""
    stated = [label_selectors.LabelSelector(first), label_selectors.LabelSelector(second)]
    builder, rows = cluster_of(n0={}), dict[int, list[int]]()

    def weigh(existing: classes.PodClass) -> dict[str, int]:
        matched = sum(selector.matches(existing.labels) for selector in stated) + (existing.id % 2 == odd)
        return {"": matched} if matched else {}

    more = None if odd is None else lambda snap: [each for each in snap.classes.values() if each.id % 2 == odd]
    find = labelled_classes.classes_selected_by(stated, more)
    counting = class_counters.ClassCounter(weigh, among=find)
    for step in steps:
        _follow(builder, step, rows)
        snap = builder.snap
        found = list(reversed(list(reversed(find(snap)))))
        assert {each.id for each in found} >= {each.id for each in snap.classes.values() if weigh(each)}
        assert all(snap.classes[each.id] is each for each in found)
        assert [each.arrival for each in found] == sorted(each.arrival for each in found)
        counting.refresh(snap)
        afresh = class_counters.ClassCounter(weigh)
        afresh.refresh(snap)
        assert counting.at_slots("", 1).tolist() == afresh.at_slots("", 1).tolist()


def test_a_selector_of_one_value_finds_only_the_classes_that_have_it() -> None:
    """Every new class with a term about its own label would look at all others."""
    builder = cluster_of(n0={})
    for number in range(1, 50):
        builder.add_class(number, pod_of(labels={"app": f"a{number}"}))
    find = labelled_classes.classes_selected_by([label_selectors.from_labels({"app": "a7"})])
    assert [each.id for each in find(builder.snap)] == [7]
    assert list(labelled_classes.classes_selected_by([label_selectors.NOTHING])(builder.snap)) == []


def test_classes_that_are_gone_take_no_memory_for_ever() -> None:
    """Over weeks a cluster has any number of classes."""
    builder = cluster_of(n0={})
    find = labelled_classes.classes_selected_by([label_selectors.from_labels({"app": "a"})])
    for number in range(1, 500):
        builder.add_class(number, pod_of(labels={"app": "a"}))
        builder.apply(removed_classes=[number - 1] if number > 1 else [])
        assert [each.id for each in find(builder.snap)] == [number]
    index = builder.snap.derived(("classes_by_label", "own"), lambda _: labelled_classes._ClassesByLabel(lambda _: ()))
    assert len(index.by_label["app", "a"]) < 100
