"""InterPodAffinity's Score: the weights of affinity terms, of the pod and of the pods in a node's domains, added up."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.plugin_kit import plugin_context
from trireme.plugins.inter_pod_affinity import affinity_terms, domain_sums, joint_scores
from trireme.plugins.inter_pod_affinity import args as affinity_args
from trireme.plugins.inter_pod_affinity.spec import SPEC
from trireme.snapshot import arrays, class_counters, classes, labelled_classes, snapshot
from trireme.snapshot.dictionary import ABSENT


@dataclass(frozen=True, slots=True)
class _ScoreState:
    """What scores are made of: sums per topology key, and what one pod of the class adds for the next."""

    sums: domain_sums.Sums
    adds: Mapping[str, int]
    skipped: bool = False


class InterPodAffinityScore:
    """The score of InterPodAffinity: weights of preferred terms, the pod's own and those of pods that are there.

    Required affinity terms of pods that are there count as well, with the weight `hardPodAffinityWeight`.
    """

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    normalization = scorers.Normalization.CUSTOM
    ignores_requests: Literal[True] = True
    reads: tuple[str, ...] = ("namespace",)

    def __init__(self, args: affinity_args.Args) -> None:
        self._args = args

    def pre_score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> "scorers.JointState | status.Status | None":
        """Sum the weights per domain; None: no term is about any pod, copies of the class included, and all score 0.

        A status if a selector of the pod is invalid. Weights that cancel out still count as terms that apply.
        """
        stated = affinity_terms.terms_of(pod_class)
        affinity = pod_class.pod.spec.affinity
        prefers = bool(
            affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution
            or affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution
        )
        if self._args.ignore_preferred_of_existing and not prefers:
            return None
        if stated.problem:
            text = f'running PreScore plugin "{self.name}": failed to parse pod: {stated.problem}'
            return status.error(self.name, text)
        sums = domain_sums.domain_sums_of(snap, self._score_counter(pod_class, snap))
        adds = self._weight_function(pod_class, snap)(pod_class)
        skipped = not any(each.counted for each in sums.values())
        if skipped and sums:
            # Weights that cancel out are no reason to be skipped: some term is about some pod.
            hits = domain_sums.domain_sums_of(snap, self._matching_terms_counter(pod_class, snap))
            skipped = not any(each.counted for each in hits.values())
        if skipped and not any(adds.values()):
            return None
        return _ScoreState(sums, adds, skipped)

    def joint(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> scorers.JointScores:
        """The scores of these slots, by the pods that are there now."""
        score_state: _ScoreState = state
        sums = score_state.sums
        if any(each.nodes_at != snap.nodes.object_changes.latest for each in sums.values()):
            # A node changed while other plugins were called: values of labels may have other numbers.
            sums = domain_sums.domain_sums_of(snap, self._score_counter(pod_class, snap))
        keys = []
        for key in dict.fromkeys((*sums, *score_state.adds)):
            column = snap.nodes.labels.column(key)
            if key in sums:
                score = sums[key].sums.copy()
                score[ABSENT] = 0
            else:
                score = np.zeros(len(column.dictionary), dtype=np.int64)
            value = arrays.entries_at(column.values(snap.nodes.size), slots)
            keys.append(joint_scores.TopologyKeyScores(value, score, score_state.adds.get(key, 0)))
        return joint_scores.AffinityScores.of(keys, slots.shape[0])

    def _score_counter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> class_counters.ClassCounter:
        """Return the counter, by topology key, of the weights that placed pods add to scores for the class."""
        key = ("affinity_score", *self._key_of_shared_counter(pod_class, snap))
        return snap.derived(key, lambda _: self._make_counter(pod_class, snap), pod_class.id)

    def _matching_terms_counter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> class_counters.ClassCounter:
        """Return the counter, by topology key, of matching terms, whatever their weights: these may cancel out."""
        key = ("affinity_hits", *self._key_of_shared_counter(pod_class, snap))
        return snap.derived(key, lambda _: self._make_counter(pod_class, snap, hits=True), pod_class.id)

    def _make_counter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, *, hits: bool = False
    ) -> class_counters.ClassCounter:
        """A counter of weights, or of matching terms: of the classes that have terms, or that the class prefers."""
        own = affinity_terms.terms_with_namespaces(pod_class, snap)
        weigh = self._weight_function(pod_class, snap, hits=hits)
        preferred = [term.selector for term in (*own.preferred, *own.preferred_anti)]
        about = affinity_terms.classes_with_terms_about(pod_class)
        among = labelled_classes.classes_selected_by(preferred, about)
        return class_counters.ClassCounter(weigh, among=among)

    def _key_of_shared_counter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> tuple[object, ...]:
        """Return all that a counter depends on: classes that agree in it share the counter."""
        labels = affinity_terms.namespace_labels(snap, pod_class.namespace)
        own = affinity_terms.terms_with_namespaces(pod_class, snap)
        seen = domain_sums.labels_as_key(pod_class.labels, labels)
        return (self._args, own.preferred, own.preferred_anti, pod_class.namespace, *seen)

    def _weight_function(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, *, hits: bool = False
    ) -> class_counters.ClassWeights:
        """What a pod of another class adds, by topology key, to its domains' scores for the class.

        With `hits`, how many terms apply instead: weights may cancel out.
        """
        labels = affinity_terms.namespace_labels(snap, pod_class.namespace)
        own = affinity_terms.terms_with_namespaces(pod_class, snap)
        hard_weight = self._args.hard_weight

        def weigh(existing: classes.PodClass) -> Mapping[str, int]:
            terms = affinity_terms.terms_of(existing)
            if not (own.preferred or own.preferred_anti or terms.has_any):
                return _NO_WEIGHTS
            out: Counter[str] = Counter()
            pairs = [*affinity_terms.weights_by_key(own.preferred, existing)]
            pairs += affinity_terms.weights_by_key(own.preferred_anti, existing, -1)
            if terms.has_any:
                if hard_weight > 0:
                    pairs += [
                        (each.key, hard_weight) for each in terms.affinity if each.matches_pods_of(pod_class, labels)
                    ]
                pairs += [
                    (each.key, each.weight) for each in terms.preferred if each.matches_pods_of(pod_class, labels)
                ]
                pairs += [
                    (each.key, -each.weight) for each in terms.preferred_anti if each.matches_pods_of(pod_class, labels)
                ]
            for key, weight in pairs:
                out[key] += 1 if hits else weight
            return out

        return weigh


# The value of a pair of classes without terms, as most are.
_NO_WEIGHTS: Mapping[str, int] = {}


def make(context: plugin_context.PluginContext) -> InterPodAffinityScore:
    """Make the scorer, by its arguments."""
    return InterPodAffinityScore(affinity_args.read(context.args))
