"""The affinity terms of a class, read once, and which pods they are about.

Terms are matched in two directions. The terms of the class that is to be placed have their namespace selectors resolved
to the namespaces that there are; those of pods that are placed already are matched against the labels of the class's
namespace. Source: k8s.io/kube-scheduler/framework (AffinityTerm), plugins/interpodaffinity.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from trireme.framework import label_selectors
from trireme.snapshot import class_counters, classes, derived, labelled_classes, snapshot, snapshot_view
from trireme.v1 import core_pb2


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term. `weight` is that of a preferred one."""

    key: str
    selector: label_selectors.LabelSelector
    namespaces: frozenset[str]
    namespace_selector: label_selectors.LabelSelector
    weight: int = 0

    def matches_pods_of(self, other: classes.PodClass, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether pods of the other class match the term; `namespace_labels` are those of their namespace."""
        if other.namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(other.labels)


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """The terms of a class. `problem` is why some list of them cannot be read; that list is then empty."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    preferred_anti: tuple[AffinityTerm, ...] = ()
    problem: str = ""

    @property
    def has_any(self) -> bool:
        """Whether there is any term at all."""
        return bool(self.affinity or self.anti_affinity or self.preferred or self.preferred_anti)


_NONE = AffinityTerms()
_NO_LABELS: Mapping[str, str] = {}


def terms_of(pod_class: classes.PodClass) -> AffinityTerms:
    """The class's terms as they are stated."""
    return pod_class.memo("affinity_terms", _read_terms)


def required_terms(pod_class: classes.PodClass) -> tuple[tuple[AffinityTerm, ...], tuple[AffinityTerm, ...]]:
    """The terms of affinity, and of anti-affinity, that must hold, as stated. Raises: InvalidSelectorError."""
    affinity = pod_class.pod.spec.affinity
    pod, anti = affinity.pod_affinity, affinity.pod_anti_affinity
    return (
        tuple(_read_term(pod_class, each) for each in pod.required_during_scheduling_ignored_during_execution),
        tuple(_read_term(pod_class, each) for each in anti.required_during_scheduling_ignored_during_execution),
    )


def classes_with_terms_about(pod_class: classes.PodClass) -> class_counters.WeightedClasses:
    """What finds the classes with a term that may be about pods of this class, in order of arrival: mostly few."""
    labels = (None, *pod_class.labels.items())

    def find(snap: snapshot.Snapshot) -> Sequence[classes.PodClass]:
        """The classes of this snapshot."""
        found = labelled_classes.classes_found_by(snap, "affinity_terms", _labels_that_terms_require, labels)
        return labelled_classes.in_order_of_arrival(found)

    return find


def _labels_that_terms_require(pod_class: classes.PodClass) -> Iterable[labelled_classes.Label | None]:
    """The labels of pods that the class's terms are about; None where a term requires none to have a value."""
    terms = terms_of(pod_class)
    for term in itertools.chain(terms.affinity, terms.anti_affinity, terms.preferred, terms.preferred_anti):
        yield from labelled_classes.labels_required_by(term.selector)


class ResolvedTerms:
    """A class's terms with namespace selectors resolved; resolved again when a namespace changes."""

    __slots__ = ("_class", "_generation", "terms")

    nbytes = derived.SMALL

    def __init__(self, pod_class: classes.PodClass) -> None:
        self._class = pod_class
        self._generation = -1
        self.terms = _NONE

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state."""
        generation = snap.last_change(("namespace",))
        if self._generation != generation:
            stated = terms_of(self._class)
            self.terms = AffinityTerms(
                _resolve_namespaces(stated.affinity, snap),
                _resolve_namespaces(stated.anti_affinity, snap),
                _resolve_namespaces(stated.preferred, snap),
                _resolve_namespaces(stated.preferred_anti, snap),
            )
            self._generation = generation


def terms_with_namespaces(pod_class: classes.PodClass, snap: snapshot_view.SnapshotView) -> AffinityTerms:
    """Return the class's terms with their namespace selectors resolved, as pods that are there are checked by them."""
    if not terms_of(pod_class).has_any:
        return _NONE
    key = ("resolved_affinity_terms", pod_class.id)
    return snap.derived(key, lambda _: ResolvedTerms(pod_class), pod_class.id).terms


def matches_all(terms: Sequence[AffinityTerm], other: classes.PodClass) -> bool:
    """Return whether pods of the other class match all of the resolved terms; False if there are none."""
    return bool(terms) and all(term.matches_pods_of(other, _NO_LABELS) for term in terms)


def weights_by_key(terms: Iterable[AffinityTerm], other: classes.PodClass, sign: int = 1) -> Iterable[tuple[str, int]]:
    """Yield topology key and weight, times `sign`, of the resolved terms that pods of the other class match."""
    return ((term.key, sign * term.weight) for term in terms if term.matches_pods_of(other, _NO_LABELS))


def namespace_labels(snap: snapshot_view.SnapshotView, name: str) -> dict[str, str]:
    """The namespace's labels; none where nobody knows it."""
    namespace = snap.objects.get("namespace", "", name)
    return {} if namespace is None else dict(namespace.metadata.labels)


def _resolve_namespaces(terms: Sequence[AffinityTerm], snap: snapshot_view.SnapshotView) -> tuple[AffinityTerm, ...]:
    return tuple(_resolve_namespaces_of_term(term, snap) for term in terms)


def _resolve_namespaces_of_term(term: AffinityTerm, snap: snapshot_view.SnapshotView) -> AffinityTerm:
    """Replace the term's namespace selector by the names of the matching namespaces; an empty one, or none, stays."""
    selector = term.namespace_selector
    if selector.empty or selector == label_selectors.NOTHING:
        return term
    found = (each.metadata.name for each in snap.objects.all("namespace") if selector.matches(each.metadata.labels))
    return AffinityTerm(term.key, term.selector, term.namespaces.union(found), label_selectors.NOTHING, term.weight)


def _read_terms(pod_class: classes.PodClass) -> AffinityTerms:
    """The class's affinity terms.

    If one selector of a list (required affinity, preferred affinity, …) is invalid, that whole list is empty and
    `problem` says why.
    """
    if not pod_class.relates_to_pods:
        return _NONE
    spec = pod_class.pod.spec
    pod, anti = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
    problems: list[str] = []

    def read_or_note_problem(what: str, terms: Callable[[], tuple[AffinityTerm, ...]]) -> tuple[AffinityTerm, ...]:
        try:
            return terms()
        except label_selectors.InvalidSelectorError as error:
            problems.append(f"{what}: {error}")
            return ()

    def reader_of_required(stated: Sequence[core_pb2.PodAffinityTerm]) -> Callable[[], tuple[AffinityTerm, ...]]:
        return lambda: tuple(_read_term(pod_class, each) for each in stated)

    def reader_of_preferred(
        stated: Sequence[core_pb2.WeightedPodAffinityTerm],
    ) -> Callable[[], tuple[AffinityTerm, ...]]:
        return lambda: tuple(_read_term(pod_class, each.pod_affinity_term, each.weight) for each in stated)

    affinity = read_or_note_problem(
        "requiredAffinityTerms", reader_of_required(pod.required_during_scheduling_ignored_during_execution)
    )
    anti_affinity = read_or_note_problem(
        "requiredAntiAffinityTerms", reader_of_required(anti.required_during_scheduling_ignored_during_execution)
    )
    preferred = read_or_note_problem(
        "preferredAffinityTerms", reader_of_preferred(pod.preferred_during_scheduling_ignored_during_execution)
    )
    preferred_anti = read_or_note_problem(
        "preferredAntiAffinityTerms", reader_of_preferred(anti.preferred_during_scheduling_ignored_during_execution)
    )
    problem = problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]" if problems else ""
    return AffinityTerms(affinity, anti_affinity, preferred, preferred_anti, problem)


def _read_term(pod_class: classes.PodClass, stated: core_pb2.PodAffinityTerm, weight: int = 0) -> AffinityTerm:
    """Read one term; without namespaces it is about the pod's own. Raises: InvalidSelectorError.

    A missing selector matches nothing. `weight`: of a preferred term.
    """
    selector = namespace_selector = label_selectors.NOTHING
    if stated.HasField("label_selector"):
        selector = label_selectors.parse(stated.label_selector)
    if stated.HasField("namespace_selector"):
        namespace_selector = label_selectors.parse(stated.namespace_selector)
    names = frozenset(stated.namespaces)
    if not names and not stated.HasField("namespace_selector"):
        names = frozenset((pod_class.namespace,))
    return AffinityTerm(stated.topology_key, selector, names, namespace_selector, weight)
