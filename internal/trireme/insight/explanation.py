"""Explains a class of pods: which nodes are feasible, what refuses the others, and how the feasible ones score.

Filter and score run on one snapshot in this process. Their answers are those of the phases: the same engines evaluate
the same plugins.

Also change: protos/trireme/v1/insight.proto (the messages).

Tests: tests/unit/insight/history/test_decision_explanations.py, tests/unit/insight/test_service.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trireme.evaluation import engine, request_errors, score_engine
from trireme.evaluation.scoring import placement
from trireme.framework import status
from trireme.snapshot import arrays, snapshot
from trireme.v1 import cycle_pb2
from trireme.wire import phase_answers

# How often filter and score are evaluated while the cluster changes between them.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class RefusedSlots:
    """The slots of the nodes that refuse the pod with one status. Shape: slots (node,), ascending."""

    status: status.Status
    slots: arrays.SlotArray


@dataclass(frozen=True, slots=True)
class NodeScores:
    """The scores of the feasible slots, best first. Shapes: slots and totals (node,), each plugin's scores (node,)."""

    slots: arrays.SlotArray
    totals: arrays.Int64Array
    plugins: Sequence[score_engine.PluginScores]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What filter and score answer for one pod at one generation of the snapshot.

    `pre_filter` is set where the pod was refused on all nodes at once; where plugins narrowed the nodes to none, its
    messages also say how many nodes each of them left. `scores` is None where scores were not requested or no node is
    feasible, and a status where a score plugin failed. Shape: feasible (node,), ascending.
    """

    generation: int
    pre_filter: status.Status | None
    refusals: Sequence[RefusedSlots]
    feasible: arrays.SlotArray
    scores: NodeScores | status.Status | None


async def explain(
    evaluating: engine.Engine, cycle: cycle_pb2.Cycle, *, scores: bool, attempts: int = _ATTEMPTS
) -> Explanation:
    """Evaluate the cycle's pod on the snapshot as it is now, again while the snapshot changes between filter and score.

    Raises: OutOfStepError where it is replaced each time; InvalidRequestError for a profile or class that is missing.
    """
    for attempt in range(1, attempts + 1):
        try:
            found = await _explain_once(evaluating, cycle, scores=scores)
        except (snapshot.OutOfStepError, request_errors.InvalidRequestError):
            # The snapshot was replaced, or a node left, between filter and score.
            if attempt == attempts:
                raise
            continue
        if found.generation == evaluating.snap.generation or attempt == attempts:
            return found
    raise AssertionError("the last attempt returns or raises")


async def _explain_once(evaluating: engine.Engine, cycle: cycle_pb2.Cycle, *, scores: bool) -> Explanation:
    """Filter and, if requested, score. The result's generation is that of Filter; score may see a later one."""
    snap = evaluating.snap
    answer = await evaluating.filter.filter(cycle)
    if answer.refusal is not None:
        refusal = _refusal_with_nodes_left(answer, answer.refusal, snap.nodes.count)
        return Explanation(snap.generation, refusal, (), np.zeros(0, dtype=np.intp), None)
    generation = answer.columns.generation
    alive = snap.nodes.alive[: answer.columns.size]
    feasible = np.flatnonzero((answer.columns.index == 0) & (answer.columns.capacity > 0) & alive)
    found: NodeScores | status.Status | None = None
    if scores and feasible.size:
        found = await score_feasible(evaluating, cycle, feasible)
    return Explanation(generation, None, _refusals_by_status(answer, alive), feasible, found)


def _refusal_with_nodes_left(
    answer: phase_answers.FilterAnswer, refusal: status.Status, node_count: int
) -> status.Status:
    """PreFilter's refusal; where it is no single plugin's, with how many of the `node_count` nodes each plugin left."""
    if refusal.plugin:
        return refusal
    left = (f"{plugin} left {count} of {node_count} nodes" for plugin, count in answer.nodes_left)
    return replace(refusal, messages=(*refusal.messages, *left))


def _refusals_by_status(answer: phase_answers.FilterAnswer, alive: arrays.BoolArray) -> Sequence[RefusedSlots]:
    """The refusing slots by status: that of most nodes first, then by plugin and messages. Shape: alive (slot,)."""
    index = np.where(alive, answer.columns.index, 0)
    by_status = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[by_status], np.arange(1, len(answer.columns.statuses) + 2))
    found = [
        RefusedSlots(each, by_status[bounds[number] : bounds[number + 1]])
        for number, each in enumerate(answer.columns.statuses)
        if bounds[number] < bounds[number + 1]
    ]
    # Statuses are numbered in the order in which they first occurred.
    return sorted(found, key=lambda each: (-each.slots.size, each.status.plugin, each.status.messages))


async def score_feasible(
    evaluating: engine.Engine,
    cycle: cycle_pb2.Cycle,
    slots: arrays.SlotArray,
    extra: arrays.Int64Array | None = None,
) -> NodeScores | status.Status:
    """Score the feasible slots; the result is in the order in which Place would choose them for one pod.

    `extra` is added to the totals. All of them are scored, also where the profile's percentageOfNodesToScore has
    Place compare a sample only: an explanation may name a node that Place did not look at. The status where a plugin
    fails. Raises: OutOfStepError if the snapshot was replaced meanwhile. Shapes: slots (node,), extra (slot,).
    """
    incarnation = evaluating.snap.incarnation
    raw = await evaluating.score.raw_scores(cycle, slots)
    if isinstance(raw, status.Status):
        return raw
    plugins = await evaluating.score.normalized_scores(cycle, slots, raw)
    if isinstance(plugins, status.Status):
        return plugins
    evaluating.snap.check_incarnation(incarnation)
    totals = np.zeros(slots.size, dtype=np.int64) if extra is None else extra[slots]
    for plugin in plugins:
        if plugin.scores is not None:
            totals += placement.apply_weight(plugin.scores, plugin.weight)
    ties = placement.tie_order(np.arange(evaluating.snap.nodes.capacity))[slots]
    order = np.argsort((totals << placement.TIE_BITS) + ties, kind="stable")[::-1]
    ordered = [
        score_engine.PluginScores(plugin.plugin, plugin.weight, None if plugin.scores is None else plugin.scores[order])
        for plugin in plugins
    ]
    return NodeScores(slots[order], totals[order], ordered)
