"""Answers ExplainDecision: finds the decision of a pod, evaluates it on its cluster, and says what is not known.

Also change: protos/trireme/v1/decision_explanation.proto (the messages).

Tests: tests/unit/insight/history/test_decision_explanations.py.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence

import numpy as np

from trireme.framework import status
from trireme.insight import explanation, preemption_explanation
from trireme.insight.history import cluster_history, decision_evaluation, decision_history
from trireme.remote import recorded_plugins
from trireme.v1 import cycle_pb2, decision_explanation_pb2, decision_pb2, filter_phase_pb2
from trireme.wire import status as wire_status

_FEASIBLE_NODES = 10
_BATCH = 100
_MS = 1_000_000

_Kind = decision_explanation_pb2.DecisionKind


class DecisionForgotten(Exception):
    """There is no such decision in memory any more, or its cluster is not; the text says why."""


class DecisionExplainer:
    """Explains the remembered decisions of one replica."""

    def __init__(
        self,
        clusters: cluster_history.ClusterHistory,
        decisions: decision_history.DecisionHistory,
        identity: Callable[[], cycle_pb2.Cycle],
    ) -> None:
        """`identity` makes a cycle with the leader's fence and the configuration's hash."""
        self._clusters = clusters
        self._decisions = decisions
        self._identity = identity
        # One at a time: each holds a copy of the cluster.
        self._turn = asyncio.Lock()

    async def explain(
        self, uid: str, request: decision_explanation_pb2.ExplainDecisionRequest
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """Explain the decision about the pod with this UID.

        Raises: DecisionForgotten; ValueError where the request names a node that did not exist.
        """
        async with self._turn:
            return await self._explain(uid, request)

    async def _explain(
        self, uid: str, request: decision_explanation_pb2.ExplainDecisionRequest
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """As `explain`."""
        placement = self._decisions.placement_of(uid)
        if placement is None:
            text = "another scheduler bound it, insight had no connection to this one then, or it is too old"
            raise DecisionForgotten(f"no decision about it is in memory: {text}")
        made = placement.answer.made
        past = await self._past_cluster(made)
        unknown = next((name for name in request.nodes if name not in past.snap.nodes.slot_of_name), None)
        if unknown is not None:
            raise ValueError(f"nodes: there was no node {unknown}")
        out = decision_explanation_pb2.ExplainDecisionResponse(
            node_name=past.snap.nodes.names[placement.answer.slots[placement.position]],
            kind=_kind_of(made.decision),
            generation=made.decision.generation,
            decided_unix_ms=made.time_ns // _MS,
            profile=made.decision.profile,
            inexact=made.decision.inexact,
            node_count=past.snap.nodes.count,
        )
        cycle = self._cycle_of(made.decision)
        if not made.decision.HasField("place"):
            _set_pod(cycle, request.pod, uid)
        past, found = await _evaluate(past, placement, cycle)
        _add_not_known(out, past.plugins, found)
        _add_nodes(out, found, request)
        _add_comparison(out, found)
        self._add_batch(out, placement, past)
        await self._add_preemption(out, uid, request.pod)
        self._add_steps(out, uid, placement.answer)
        return out

    async def _preemption(
        self, uid: str, pod: cycle_pb2.PodIdentity
    ) -> tuple[decision_explanation_pb2.PreemptionExplanation, Sequence[str]] | None:
        """What the last preemption for the pod did, and what is not known of it; None: there was none.

        Raises: DecisionForgotten.
        """
        preemption = self._decisions.preemption_by(uid)
        if preemption is None:
            return None
        decision, position = preemption.made.decision, preemption.position
        preemptors, results = _preemptors_and_results(decision)
        past = await self._past_cluster(preemption.made)
        nominated = [
            (preemptor.pod.uid, result.answer.nominated_node)
            for preemptor, result in zip(preemptors[:position], results[:position], strict=True)
        ]
        past = decision_evaluation.with_nominations(past, decision.pod_class, nominated)
        cycle = self._cycle_of(decision)
        _set_pod(cycle, pod, uid)
        cycle.pod.status.nominated_node_name = preemptors[position].nominated_node
        answer = results[position].answer
        out, known = await _explain_preemption(past, preemption, cycle)
        if out.node_name != answer.nominated_node:
            # Another plugin decided, or an extender left other victims: those that were recorded.
            out = decision_explanation_pb2.PreemptionExplanation(node_name=answer.nominated_node)
            evicted = [action.pod for action in answer.actions if action.HasField("evict")]
            out.victims.extend(decision_explanation_pb2.PreemptionPod(pod=each) for each in evicted)
        out.decided_unix_ms = preemption.made.time_ns // _MS
        names = known.plugins.remote_filters.get(decision.profile, ())
        return out, [f"what the remote plugin {name} answered in the dry runs of its preemption" for name in names]

    async def _past_cluster(self, made: decision_history.Made) -> cluster_history.PastCluster:
        """The cluster that a decision was made on. Raises: DecisionForgotten."""
        past = await self._clusters.replay_cluster_to(made.era, made.decision.generation)
        if past is None or made.decision.pod_class not in past.snap.classes:
            raise DecisionForgotten("the cluster that it was decided on is not in memory any more")
        return past

    def _cycle_of(self, decision: decision_pb2.Decision) -> cycle_pb2.Cycle:
        cycle = self._identity()
        cycle.generation, cycle.profile, cycle.pod_class = decision.generation, decision.profile, decision.pod_class
        return cycle

    def _add_batch(
        self,
        out: decision_explanation_pb2.ExplainDecisionResponse,
        placement: decision_history.Placement,
        past: cluster_history.PastCluster,
    ) -> None:
        """Add the pods that the same answer placed before; no name is known of one that was gone at once."""
        answer = placement.answer
        namespace = past.snap.classes[answer.made.decision.pod_class].namespace
        out.batch_size = sum(pod is not None for pod in answer.pods)
        for pod, slot in list(zip(answer.pods, answer.slots, strict=True))[: placement.position][-_BATCH:]:
            if pod is not None and pod[1]:
                identity = cycle_pb2.PodIdentity(namespace=namespace, name=pod[1], uid=pod[0])
                out.batch_before.add(pod=identity, node_name=past.snap.nodes.names[slot])

    async def _add_preemption(
        self, out: decision_explanation_pb2.ExplainDecisionResponse, uid: str, pod: cycle_pb2.PodIdentity
    ) -> None:
        """Add whom the pod preempted before it got its node."""
        try:
            found = await self._preemption(uid, pod)
        except DecisionForgotten as error:
            out.not_known.append(f"its preemption: {error}")
            return
        if found is not None:
            out.preemption.CopyFrom(found[0])
            out.not_known.extend(found[1])

    def _add_steps(
        self, out: decision_explanation_pb2.ExplainDecisionResponse, uid: str, answer: decision_history.Answer
    ) -> None:
        """Add how long each step took, and which was the longest."""
        times, made = self._decisions.times_of(uid), answer.made
        steps: list[tuple[str, int]] = []
        if times is not None:
            out.attempts = times.attempts
            if times.held_back_us is not None:
                steps.append(("HeldBack", times.held_back_us))
            steps.append(("Queue", times.queue_us))
        if answer.filtered is not None and answer.filtered is not made:
            steps.append(("Filter", answer.filtered.decision.duration_us))
        steps.append(("Place" if made.decision.HasField("place") else "Filter", made.decision.duration_us))
        if times is not None:
            steps += [("Permit", times.permit_us), ("PreBind", times.pre_bind_us), ("Bind", times.bind_us)]
        else:
            out.not_known.append("how long it waited and how long binding took: it is not bound yet, or was not sent")
        for name, duration in steps:
            out.steps.add(name=name, duration_us=duration)
        out.longest_step = max(steps, key=lambda step: step[1])[0]


def _kind_of(decision: decision_pb2.Decision) -> decision_explanation_pb2.DecisionKind.ValueType:
    """How the decision found nodes, as far as its kind says it."""
    return _Kind.DECISION_KIND_SCORED if decision.HasField("place") else _Kind.DECISION_KIND_NOMINATED


def _set_pod(cycle: cycle_pb2.Cycle, pod: cycle_pb2.PodIdentity, uid: str) -> None:
    """The call was about this pod alone, not about its class."""
    metadata = cycle.pod.metadata
    metadata.namespace, metadata.name, metadata.uid = pod.namespace, pod.name, uid


async def _evaluate(
    past: cluster_history.PastCluster, placement: decision_history.Placement, cycle: cycle_pb2.Cycle
) -> tuple[cluster_history.PastCluster, decision_evaluation.EvaluatedDecision]:
    """Evaluate the decision with the remote answers that are known; the returned cluster says which are not."""
    answer = placement.answer
    *better, last = decision_evaluation.with_recorded_answers(past, answer.made, answer.filtered)
    for each in better:
        with contextlib.suppress(recorded_plugins.MissingAnswerError):
            return each, await decision_evaluation.evaluate(each, placement, cycle)
    return last, await decision_evaluation.evaluate(last, placement, cycle)


def _add_not_known(
    out: decision_explanation_pb2.ExplainDecisionResponse,
    plugins: cluster_history.Plugins,
    found: decision_evaluation.EvaluatedDecision,
) -> None:
    """Add the remote plugins whose answers are missing in the evaluation."""
    filters = plugins.remote_filters.get(out.profile, ())
    scores = () if found.scores is None else plugins.remote_scores.get(out.profile, ())
    out.feasible_at_most = bool(filters)
    out.not_known.extend(f"what the remote plugin {name} answered at Filter" for name in filters)
    out.not_known.extend(f"what the remote plugin {name} answered at Score" for name in scores)


async def _explain_preemption(
    past: cluster_history.PastCluster, preemption: decision_history.Preemption, cycle: cycle_pb2.Cycle
) -> tuple[decision_explanation_pb2.PreemptionExplanation, cluster_history.PastCluster]:
    """The dry runs, with the remote answers that are known; the returned cluster says which are not."""
    preemptors, results = _preemptors_and_results(preemption.made.decision)
    preemptor, node = preemptors[preemption.position], results[preemption.position].answer.nominated_node

    async def explain(on: cluster_history.PastCluster) -> decision_explanation_pb2.PreemptionExplanation:
        filters, recorded = on.engine().filter, on.plugins.recorded
        with contextlib.nullcontext() if recorded is None else recorded.plugins.filtering():
            answer = await filters.filter(cycle)
        return await preemption_explanation.explain(filters, on.snap, cycle, preemptor, node, answer)

    *better, last = decision_evaluation.with_recorded_answers(past, preemption.made, preemption.filtered)
    for each in better:
        with contextlib.suppress(recorded_plugins.MissingAnswerError):
            return await explain(each), each
    return await explain(last), last


def _preemptors_and_results(
    decision: decision_pb2.Decision,
) -> tuple[Sequence[filter_phase_pb2.Preemptor], Sequence[filter_phase_pb2.PostFilterResult]]:
    """The pods that PostFilter ran for, and its results, of a call of Filter or of PostFilter."""
    if decision.HasField("filter"):
        return decision.filter.preemptors, decision.filter.post_filter_results
    return decision.post_filter.preemptors, decision.post_filter.results


def _add_nodes(
    out: decision_explanation_pb2.ExplainDecisionResponse,
    found: decision_evaluation.EvaluatedDecision,
    request: decision_explanation_pb2.ExplainDecisionRequest,
) -> None:
    """Add the nodes: those that refused, by status, and the best feasible ones."""
    names, wanted = found.snap.nodes.names, frozenset(request.nodes)
    out.feasible_count = found.feasible.size
    if found.pre_filter is not None:
        out.refusals.add(status=wire_status.to_message(found.pre_filter), node_count=out.node_count)
    for refusals in found.refusals:
        refusing = [names[slot] for slot in refusals.slots.tolist()]
        shown = [name for name in refusing if not wanted or name in wanted]
        out.refusals.add(status=wire_status.to_message(refusals.status), node_count=refusals.slots.size, nodes=shown)
    if isinstance(found.scores, explanation.NodeScores):
        _add_scored_nodes(out, found, found.scores, request, wanted)
        return
    if isinstance(found.scores, status.Status):
        out.not_known.append(f"the scores: {found.scores.plugin} fails now: {found.scores.message}")
    limit = request.max_feasible_nodes or _FEASIBLE_NODES
    feasible = [names[slot] for slot in found.feasible.tolist()]
    shown = [name for name in feasible if not wanted or name in wanted]
    # The chosen one first, whatever the limit.
    shown.sort(key=lambda name: name != out.node_name)
    for name in shown[:limit]:
        out.feasible_nodes.add(name=name)


def _add_scored_nodes(
    out: decision_explanation_pb2.ExplainDecisionResponse,
    found: decision_evaluation.EvaluatedDecision,
    scores: explanation.NodeScores,
    request: decision_explanation_pb2.ExplainDecisionRequest,
    wanted: Collection[str],
) -> None:
    """Add the plugins, and the best nodes with their scores; the chosen one is always there."""
    names = [found.snap.nodes.names[slot] for slot in scores.slots.tolist()]
    for plugin in scores.plugins:
        out.score_plugins.add(name=plugin.plugin, weight=plugin.weight, skipped=plugin.scores is None)
    limit = request.max_feasible_nodes or _FEASIBLE_NODES
    chosen = [number for number, name in enumerate(names) if not wanted or name in wanted][:limit]
    own = names.index(out.node_name) if out.node_name in names else -1
    if own >= 0 and own not in chosen:
        chosen = [*chosen[: limit - 1], own]
    for number in chosen:
        node = out.feasible_nodes.add(name=names[number], total=int(scores.totals[number]))
        node.scores.extend(0 if each.scores is None else int(each.scores[number]) for each in scores.plugins)
        if found.extra is not None:
            node.extender_score = int(found.extra[number])


def _add_comparison(
    out: decision_explanation_pb2.ExplainDecisionResponse, found: decision_evaluation.EvaluatedDecision
) -> None:
    """Add by how much the chosen node won, and whether it comes first again."""
    scores = found.scores
    names = found.snap.nodes.names
    if isinstance(scores, explanation.NodeScores):
        slots = scores.slots.tolist()
        slot = found.snap.nodes.slot_of_name.get(out.node_name, -1)
        out.differs = not slots or slots[0] != slot
        if not out.differs:
            out.margin = int(scores.totals[0] - scores.totals[1])
            out.tied_count = int(np.count_nonzero(scores.totals == scores.totals[0])) - 1
        return
    if out.kind == _Kind.DECISION_KIND_SCORED and found.feasible.size == 1:
        out.kind = _Kind.DECISION_KIND_ONLY_NODE
    out.differs = out.node_name not in {names[slot] for slot in found.feasible.tolist()}
