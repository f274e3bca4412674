"""What the scheduler itself knows of one pod: the field `scheduler` of an explanation.

Everything here is read from the scheduler's own state at the moment of the request: the queue's states, Filter's last
answer about the pod's class. So an explanation cannot differ from what happened.

Also change: protos/trireme/v1/scheduler_explanation.proto (the messages).

Tests: tests/unit/frontend/test_pending_report.py, tests/unit/scheduling/test_pre_enqueue_calls.py,
tests/unit/frontend/test_scheduler_status.py.
"""

from collections.abc import Iterable

import numpy as np

from trireme.cache import cluster_cache, placed_pod
from trireme.config import trireme_configuration
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.frontend.tracing import pod_traces, traced_metrics
from trireme.queueing import queued_pod, states
from trireme.scheduling import fit_error
from trireme.v1 import cycle_pb2, insight_pb2, scheduler_explanation_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status

# Nodes named for each reason: enough to look at one.
MAX_NODES = 10


def explain(state: FrontendState, key: str) -> insight_pb2.ExplainResponse | None:
    """The explanation of the pod (namespace/name) without insight's part; None: no informer knows such a pod."""
    namespace, _, name = key.partition("/")
    out = insight_pb2.ExplainResponse(pod=cycle_pb2.PodIdentity(namespace=namespace, name=name))
    queued = state.scheduling.queue.contents.get(key)
    if queued is not None:
        out.pod.uid = queued.uid
        _explain_pending_pod(out.scheduler, state, queued)
    elif (placed := next((pod for pod in state.cluster.cache.pods() if pod.key == key), None)) is not None:
        out.pod.uid, out.node_name = placed.uid, placed.node_name
        _explain_bound_pod(out.scheduler, state, placed)
    elif scheduler := state.scheduling.handlers.pods.other_scheduler_of(key):
        _explain_foreign_pod(out.scheduler, state, scheduler)
    else:
        return None
    if state.wake_ups is not None:
        for missed in state.wake_ups.history:
            if missed.pod.uid == out.pod.uid:
                out.missed_wake_up.CopyFrom(missed)
    out.scheduler.leadership.CopyFrom(leadership(state))
    out.scheduler.synced = state.synced
    if out.pod.uid and traced_metrics.traces_of(state.context.metrics) is not None:
        _add_trace(out.scheduler.trace, out.pod.uid, state.context.completed.trireme.tracing)
    return out


def leadership(state: FrontendState) -> scheduler_explanation_pb2.Leadership:
    """The leader and its Lease."""
    leader = state.context.leader
    out = scheduler_explanation_pb2.Leadership(lease=leader.lease, last_error=state.lease_error())
    term = leader.term
    if term is None:
        out.holder = leader.holder
    else:
        out.leading, out.holder, out.epoch = True, term.holder, term.epoch
    return out


def _add_trace(out: scheduler_explanation_pb2.PodTrace, uid: str, settings: trireme_configuration.Tracing) -> None:
    """Add where the trace of the pod is found, if it is kept."""
    out.id = pod_traces.trace_id_text(uid)
    out.url = settings.url.replace(trireme_configuration.TRACE_ID, out.id)
    out.store_url = settings.store_url.replace(trireme_configuration.TRACE_ID, out.id)


def _explain_pending_pod(
    out: scheduler_explanation_pb2.SchedulerExplanation, state: FrontendState, queued: queued_pod.QueuedPodInfo
) -> None:
    """Add why a pod in the queue waits, and the result of its last attempt."""
    out.pending.CopyFrom(state.pending_report().entry_of(queued))
    out.summary = out.pending.summary
    pending = queued.record.pod
    out.invalid = pending.invalid
    if pending.parsed.condition:
        condition = out.condition
        condition.status, condition.reason, condition.message, condition.since = pending.parsed.condition
    refused = state.scheduling.reporter.refused_placement(queued.uid)
    if refused is not None:
        out.refused_placement.extension_point = refused.extension_point
        out.refused_placement.node_name = refused.node
        out.refused_placement.status.CopyFrom(wire_status.to_message(refused.status))
    answer = state.phases.answers.get((queued.record.profile, queued.record.class_id))
    if answer is not None and answer.generation:
        _add_last_answer(out.last_answer, state.cluster.cache, answer)
    out.history.extend(_transitions(state, queued.key))


def _explain_bound_pod(
    out: scheduler_explanation_pb2.SchedulerExplanation, state: FrontendState, pod: placed_pod.PlacedPod
) -> None:
    """Add where a pod is that has a node, and when it was bound if we bound it, else when it started, if it has."""
    out.history.extend(_transitions(state, pod.key))
    bound_at = [move.at_ms for move in out.history if move.uid == pod.uid and move.to == states.Done.label]
    out.bound.node_name, out.bound.pod_class = pod.node_name, pod.class_id
    out.bound.node_known = state.cluster.cache.slot_of(pod.node_name) != placed_pod.NO_SLOT
    if bound_at:
        out.bound.bound_at_ms = bound_at[-1]
    elif pod.start:
        out.bound.started_at_ms = round(pod.start * 1000)
    out.summary = f"is bound to node {pod.node_name}"
    if not out.bound.node_known and state.synced:
        out.summary += ", and there is no node of this name"


def _explain_foreign_pod(
    out: scheduler_explanation_pb2.SchedulerExplanation, state: FrontendState, scheduler: str
) -> None:
    """Add whose pod it is."""
    profiles = sorted(state.scheduling.handlers.pods.profiles)
    out.foreign.scheduler_name = scheduler
    out.foreign.profiles.extend(profiles)
    out.summary = (
        f"names the scheduler {scheduler} in spec.schedulerName; this one schedules pods that name "
        f"{' or '.join(profiles)}"
    )


def _transitions(state: FrontendState, key: str) -> Iterable[scheduler_explanation_pb2.PodTransition]:
    """The pod's last transitions in the queue, oldest first; none while we do not lead: the leader's are others."""
    if not state.context.leader.leading:
        return
    for move in state.scheduling.queue.contents.transitions_of(key):
        at_ms = round(state.to_wall(move.at) * 1000)
        yield scheduler_explanation_pb2.PodTransition(at_ms=at_ms, uid=move.uid, to=move.to.label, cause=move.cause)


def _add_last_answer(
    out: scheduler_explanation_pb2.LastFilterAnswer,
    cache: cluster_cache.ClusterCache,
    answer: node_columns.NodeColumns,
) -> None:
    """Add Filter's last answer about the pod's class: how many nodes pass, and why each of the others does not."""
    out.generation, out.node_count, out.feasible_count = answer.generation, cache.node_count, answer.feasible_count
    numbers = {id(entry): number for number, entry in enumerate(answer.statuses, start=1)}
    for entry, count in sorted(fit_error.nodes_by_status(answer.statuses, answer.index), key=lambda found: -found[1]):
        slots = np.flatnonzero(answer.index == numbers[id(entry)])
        refusal = out.refusals.add(status=wire_status.to_message(entry), node_count=count)
        refusal.nodes.extend(_node_names(cache, slots[:MAX_NODES], answer.generation))


def _node_names(cache: cluster_cache.ClusterCache, slots: Iterable[int], generation: int) -> Iterable[str]:
    """The names of the nodes at these slots; left out are nodes that came after the generation."""
    for slot in slots:
        name = cache.node_at(int(slot), generation)
        if name is not None:
            yield name
