"""Evaluates a remembered decision again: on the cluster of its generation, with the pods of its batch before this one.

Evaluation is deterministic, so this is what filter and score answered; only the node that was chosen is compared with
what was recorded. Answers of HTTP extenders and of remote plugins are those that came with the decision.

Tests: tests/unit/insight/history/test_decision_explanations.py.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import engine
from trireme.evaluation.scoring import sampling
from trireme.framework import status
from trireme.insight import explanation
from trireme.insight.history import cluster_history, decision_history
from trireme.remote import recorded_makers
from trireme.snapshot import arrays, snapshot
from trireme.v1 import cycle_pb2, decision_pb2, filter_pb2, snapshot_pb2
from trireme.wire import node_columns

_NO_ROWS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class EvaluatedDecision:
    """What filter and score said. `scores` is None where nothing was scored, and a status where a plugin failed.

    `extra` is what HTTP extenders added to the totals of `scores`, in their order; None: nothing. Shapes: feasible
    (node,), ascending; extra (node,).
    """

    snap: snapshot.Snapshot
    pre_filter: status.Status | None
    refusals: Sequence[explanation.RefusedSlots]
    feasible: arrays.SlotArray
    scores: explanation.NodeScores | status.Status | None
    extra: arrays.Int64Array | None


def with_pods_before(
    past: cluster_history.PastCluster, placement: decision_history.Placement
) -> cluster_history.PastCluster:
    """The cluster with the pods of the same call before this one on their nodes."""
    decision = placement.answer.made.decision
    own = placement.answer.slots[: placement.position]
    numbers = [*decision.place.before_classes, *[decision.pod_class] * len(own)]
    if not numbers:
        return past
    slots = np.array([*decision.place.before_slots, *own], dtype=np.int32)
    snap = past.snap.fork(_NO_ROWS, np.array(numbers, dtype=np.int32), slots)
    return cluster_history.PastCluster(snap, past.plugins)


def with_recorded_answers(
    past: cluster_history.PastCluster, made: decision_history.Made, filtered: decision_history.Made | None
) -> Sequence[cluster_history.PastCluster]:
    """The cluster with as many answers of remote plugins as came with a decision, then with fewer.

    `filtered` is the answer of Filter that the decision builds on; None: there is none. The last one has no remote
    plugin; those before are to be given up for the next one where evaluating them raises MissingAnswerError. Each is
    for one explanation at a time: the next decision's answers take the place of these.
    """
    plugins, recorded = past.plugins, past.plugins.recorded
    if recorded is None:
        return [past]
    has_filter = _take_filter(recorded.plugins, made, filtered)
    has_others = made.decision.remote.complete
    recorded.plugins.answer.filtering = made.decision.HasField("filter")
    try:
        recorded.plugins.answers.take(made.decision)
    except ValueError:
        has_others = False
    filters = dataclasses.replace(plugins, filters=recorded.filters, remote_filters={})
    both = dataclasses.replace(filters, scores=recorded.scores, remote_scores={})
    scores = dataclasses.replace(plugins, scores=recorded.scores, remote_scores={})
    best = {(True, True): [both, filters], (True, False): [filters], (False, True): [scores], (False, False): []}
    return [cluster_history.PastCluster(past.snap, each) for each in (*best[has_filter, has_others], plugins)]


def _take_filter(
    plugins: recorded_makers.RecordedMakers, made: decision_history.Made, filtered: decision_history.Made | None
) -> bool:
    """Have the plugins answer what they answered in Filter; return whether that is known."""
    filtered = made if made.decision.HasField("filter") else filtered
    if filtered is None or filtered.era != made.era:
        return False
    decision, about = filtered.decision, filtered.decision.filter
    if decision.generation != made.decision.generation or decision.pod_class != made.decision.pod_class:
        return False
    try:
        plugins.answer.take(decision.pod_class, about)
    except ValueError:
        return False
    return about.HasField("pre_filter") or about.HasField("columns")


def with_nominations(
    past: cluster_history.PastCluster, pod_class: int, nominated: Sequence[tuple[str, str]]
) -> cluster_history.PastCluster:
    """The cluster where pods of the class (UID) are nominated to nodes (name), as by the results before one.

    To be called before anything is evaluated on the cluster.
    """
    generation, found = past.snap.generation, []
    for uid, node in nominated:
        slot = past.snap.nodes.slot_of_name.get(node)
        if slot is not None:
            pod = cycle_pb2.PodIdentity(uid=uid)
            found.append(snapshot_pb2.Nomination(pod=pod, pod_class=pod_class, slot=slot))
    if found:
        past.snap.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation, nominations=found))
    return past


async def evaluate(
    past: cluster_history.PastCluster, placement: decision_history.Placement, cycle: cycle_pb2.Cycle
) -> EvaluatedDecision:
    """Evaluate the placement's decision.

    Raises: InvalidRequestError for a class or profile that is not there; MissingAnswerError, with remote plugins.
    """
    place = placement.answer.made.decision.place if placement.answer.made.decision.HasField("place") else None
    before = with_pods_before(past, placement)
    evaluating = before.engine()
    _assume(past, placement.answer.slots[: placement.position])
    found = await explanation.explain(evaluating, cycle, scores=False)
    refusals, feasible = found.refusals, found.feasible
    if place is None or found.pre_filter is not None:
        return EvaluatedDecision(before.snap, found.pre_filter, refusals, feasible, None, None)
    if place.HasField("capacities"):
        refusals, feasible = _left_by_others(place.capacities, refusals, feasible)
    compared = feasible
    percentage = evaluating.score.profiles.chains[cycle.profile].percentage
    if percentage:
        open_before = await _feasible_at_first(past, placement, cycle, feasible)
        sample = sampling.sample_slots(open_before, before.snap.nodes.count, percentage, cycle.generation)
        compared = np.sort(sample[np.isin(sample, feasible)])
    scores: explanation.NodeScores | status.Status | None = None
    extra = None
    if compared.size > 1:
        extra = _extra_scores(place, before.snap) if place.extra_scores else None
        scores = await explanation.score_feasible(evaluating, cycle, compared, extra)
        if extra is not None and isinstance(scores, explanation.NodeScores):
            extra = extra[scores.slots]
    return EvaluatedDecision(before.snap, None, refusals, feasible, scores, extra)


async def _feasible_at_first(
    past: cluster_history.PastCluster,
    placement: decision_history.Placement,
    cycle: cycle_pb2.Cycle,
    feasible: arrays.SlotArray,
) -> arrays.SlotArray:
    """The slots that were feasible for the first pod of the answer: of these the nodes to score were drawn."""
    if not placement.position:
        return feasible
    engine_before: engine.Engine = past.engine()
    _assume(past, ())
    return (await explanation.explain(engine_before, cycle, scores=False)).feasible


def _assume(past: cluster_history.PastCluster, slots: Sequence[int]) -> None:
    if past.plugins.recorded is not None:
        past.plugins.recorded.plugins.answer.assume(slots)


def _left_by_others(
    capacities: filter_pb2.NodeColumns,
    refusals: Sequence[explanation.RefusedSlots],
    feasible: arrays.SlotArray,
) -> tuple[Sequence[explanation.RefusedSlots], arrays.SlotArray]:
    """The refusals and feasible slots after HTTP extenders, or the placement of a group, left fewer."""
    columns = node_columns.from_message(capacities)
    known = feasible[feasible < columns.size]
    left = known[(columns.index[known] == 0) & (columns.capacity[known] > 0)]
    gone = known[columns.index[known] != 0]
    more = [
        explanation.RefusedSlots(entry, gone[columns.index[gone] == number])
        for number, entry in enumerate(columns.statuses, start=1)
    ]
    both = [*refusals, *(each for each in more if each.slots.size)]
    return sorted(both, key=lambda each: -each.slots.size), left


def _extra_scores(place: decision_pb2.PlaceDecision, snap: snapshot.Snapshot) -> arrays.Int64Array:
    """What HTTP extenders added, by slot. Shape: (slot,)."""
    out = np.zeros(snap.nodes.capacity, dtype=np.int64)
    given = np.array(place.extra_scores, dtype=np.int64)[: out.shape[0]]
    out[: given.shape[0]] = given
    return out
