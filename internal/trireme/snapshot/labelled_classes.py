"""The classes of a snapshot by labels: those which a selector may match are found without looking at all classes.

Most selectors of affinity terms and spread constraints require a label to have a certain value, and few classes have
it. What is found is a superset: whether a selector matches is for the caller to find out.
"""

import itertools
from collections.abc import Callable, Iterable, Reversible, Sequence

from trireme.framework import label_selectors, selectors
from trireme.snapshot import class_counters, classes, snapshot

Label = tuple[str, str]

# The labels that a class is found by; None: it is found whatever the labels.
LabelsOfClass = Callable[[classes.PodClass], Iterable[Label | None]]

# Classes that are gone are left in the lists until there are so many of them beside as many as exist.
_SLACK = 64


class _ClassesByLabel:
    """The classes by label, in order of arrival, perhaps with some that are gone."""

    __slots__ = ("_arrival", "_generation", "_labels_of", "_listed", "by_label")

    # There are a few, which stay.
    nbytes = None

    def __init__(self, labels_of: LabelsOfClass) -> None:
        self._labels_of = labels_of
        self._arrival = 0
        self._generation = -1
        self._listed = 0
        self.by_label: dict[Label | None, list[classes.PodClass]] = {}

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Add the snapshot's new classes; begin anew where many are gone."""
        if self._generation == snap.classes_generation:
            return
        self._generation = snap.classes_generation
        if self._listed > 2 * len(snap.classes) + _SLACK:
            self._arrival, self._listed, self.by_label = 0, 0, {}
        new = list(itertools.takewhile(lambda each: each.arrival > self._arrival, reversed(snap.classes.values())))
        for pod_class in reversed(new):
            for label in self._labels_of(pod_class):
                self.by_label.setdefault(label, []).append(pod_class)
        self._listed += len(new)
        if new:
            self._arrival = new[0].arrival


def classes_found_by(
    snap: snapshot.Snapshot, kind: str, labels_of: LabelsOfClass, labels: Iterable[Label | None]
) -> set[classes.PodClass]:
    """The classes for which `labels_of` returns one of the labels; `kind` stands for this function."""
    by_label = snap.derived(("classes_by_label", kind), lambda _: _ClassesByLabel(labels_of)).by_label
    return {each for label in labels for each in by_label.get(label, ()) if snap.classes.get(each.id) is each}


def labels_required_by(selector: label_selectors.LabelSelector) -> Sequence[Label | None]:
    """Labels, one of which every match of the selector has; only None: it requires no label to have a value."""
    if selector.requirements is None:
        return ()
    with_values = [each for each in selector.requirements if each.operator == selectors.IN]
    if not with_values:
        return (None,)
    chosen = min(with_values, key=lambda each: len(each.values))
    return [(chosen.key, value) for value in chosen.values]


def classes_selected_by(
    stated: Sequence[label_selectors.LabelSelector], more: class_counters.WeightedClasses | None = None
) -> class_counters.WeightedClasses:
    """What finds the classes that one of the selectors may match, and `more`, in order of arrival."""

    def find(snap: snapshot.Snapshot) -> Reversible[classes.PodClass]:
        """The classes of this snapshot."""
        labels = [label for selector in stated for label in labels_required_by(selector)]
        if None in labels:
            return snap.classes.values()
        found = classes_found_by(snap, "own", lambda each: each.labels.items(), labels) if labels else set()
        if more is not None:
            found.update(more(snap))
        return in_order_of_arrival(found)

    return find


def in_order_of_arrival(found: Iterable[classes.PodClass]) -> list[classes.PodClass]:
    """The classes, those that came first first."""
    return sorted(found, key=lambda each: each.arrival)
