"""The documents of the scheduler's pages: overview, pending pods, preemptions, replicas and plugins, timelines.

A document is JSON in camelCase; times are milliseconds since 1970, so that a document changes only if its facts do.
Each function is given who reads (`Sight`), and leaves out or replaces the names that the reader may not list.

The page reads them with the types of `console/src/documents.ts`.

Also change: console/src/documents.ts, internal/trireme/insight/console/node_documents.py (the fields of documents).
Also change: docs/console.md.
Also change: protos/trireme/v1/scheduler_status.proto (the messages).

Tests: tests/unit/insight/console/test_views.py.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.framework import event_phrases
from trireme.insight.console import console_state, pending_pods, scheduler_history
from trireme.snapshot import pods as snapshot_pods
from trireme.v1 import cycle_pb2, scheduler_status_pb2

Json = dict[str, Any]

SOME_NODE, SOME_POD, SOME_GROUP = "(a node)", "(a pod)", "(a group)"
MAX_FOUND = 50


@dataclass(frozen=True, slots=True)
class Sight:
    """The reader's rights to list in the whole cluster, and the function that replaces names in texts."""

    lists_nodes: bool
    lists_pods: bool
    without_names: Callable[[str], str] = lambda text: text


def overview(state: console_state.ConsoleState, sight: Sight, *, after: int) -> Json:
    """Throughput, latency and queue: now, and the samples after a moment. No names but those of leader and Lease."""
    history = state.history
    status = history.status or scheduler_status_pb2.SchedulerStatus()
    samples = history.samples_after(after)
    latest = samples[-1] if samples else None
    replicas = status.replicas
    sees_all = sight.lists_nodes and sight.lists_pods
    failure = state.recording_failure()
    # It may name a path of insight's machine.
    error = failure.error if failure is not None and sees_all else ""
    return {
        "atMs": status.at_ms,
        "nowMs": round(state.wall() * 1000),
        "instance": state.instance,
        "synced": state.cluster.synced,
        "disconnectedMs": round(state.disconnected_seconds() * 1000),
        "version": status.version,
        "leader": status.leader if sees_all else "",
        "lease": status.lease,
        "reportsScheduler": history.status is not None,
        "cluster": {
            "nodes": state.cluster.snap.nodes.count,
            "pods": state.cluster.snap.pods.count,
            "queued": len(state.pending),
            "generation": state.cluster.snap.generation,
        },
        "queue": _queue_counts(status.queue),
        "bound": {"total": status.bound_total, "perSecond": 0.0 if latest is None else latest.bound},
        "attempts": {"unschedulable": status.unschedulable_total, "errors": status.error_total},
        "attemptLatency": _latency(history.attempt_latency()),
        "podLatency": _latency(history.pod_latency()),
        "replicas": {"total": len(replicas), "inStep": sum(replica.in_step for replica in replicas)},
        "plugins": {"total": len(status.plugins), "ok": sum(plugin.health == "ok" for plugin in status.plugins)},
        "missingPhases": list(status.missing_phases),
        "series": {
            "atMs": [sample.at_ms for sample in samples],
            "bound": [round(sample.bound, 2) for sample in samples],
            "unschedulable": [round(sample.unschedulable, 2) for sample in samples],
            "errors": [round(sample.errors, 2) for sample in samples],
            "active": [sample.queue.active for sample in samples],
            "backoff": [sample.queue.backoff for sample in samples],
            "waiting": [sample.queue.unschedulable for sample in samples],
            "gated": [sample.queue.gated for sample in samples],
        },
        "recorded": state.is_recorded and sees_all,
        "recordingFailure": None if failure is None else {"sinceMs": failure.since_ms, "error": error},
        **({} if state.recording is None else {"recording": recording_document(state.recording)}),
    }


def recording_document(span: console_state.RecordingSpan) -> Json:
    """The recording that is shown, and the moment in it."""
    return {
        "file": span.file,
        "fromMs": span.from_ms,
        "toMs": span.to_ms,
        "atMs": span.at_ms,
        "live": span.is_live,
        "gaps": [{"fromMs": gap.from_ms, "toMs": gap.to_ms, "reason": gap.reason} for gap in span.gaps],
        "missingDecisions": span.missing_decisions,
        "uncountedGaps": span.uncounted_gaps,
    }


def pending(state: console_state.ConsoleState, sight: Sight) -> Json:
    """The pods in the queue, grouped by why they wait, as far as the reader may see that."""
    found = state.pending.by_reason(_shown_reasons(sight))
    return {"total": len(state.pending), "reasons": [_reason_document(reason, pods, sight) for reason, pods in found]}


def pods_of_reason(state: console_state.ConsoleState, sight: Sight, *, reason: str, offset: int, limit: int) -> Json:
    """Some of the pods that wait for one reason, the longest waiting first."""
    found = state.pending.of_reason(reason, _shown_reasons(sight))
    return {"total": len(found), "pods": [_pod_document(pod) for pod in found[offset : offset + limit]]}


def found_pods(state: console_state.ConsoleState, sight: Sight, *, text: str) -> Json:
    """Pods with a text in namespace/name: those in the queue first, then those on nodes; MAX_FOUND at most."""
    out = [
        {"namespace": pod.namespace, "name": pod.name, "state": pod.state}
        for pod in state.pending.find(text, MAX_FOUND)
    ]
    queued = {(pod["namespace"], pod["name"]) for pod in out}
    for namespace, name in _placed_pods_with(state, text):
        if len(out) >= MAX_FOUND:
            break
        if (namespace, name) not in queued:
            out.append({"namespace": namespace, "name": name, "state": "on a node"})
    return {"pods": out, "truncated": len(out) >= MAX_FOUND}


def preemptions(state: console_state.ConsoleState, sight: Sight) -> Json:
    """The last preemptions, and the pods that wait on a node that is being cleared for them."""
    snap = state.cluster.snap
    evicting = int(((snap.pods.flags & snapshot_pods.PREEMPTED) != 0)[: snap.pods.size].sum())
    return {
        "evicting": evicting,
        "nominated": len(snap.nominations),
        "preemptions": [_preemption_document(record, sight) for record in state.history.preemptions()],
    }


def components(state: console_state.ConsoleState, sight: Sight) -> Json:
    """The leader, the replicas of the phases, and the remote plugins with their circuit breakers."""
    status = state.history.status or scheduler_status_pb2.SchedulerStatus()
    return {
        "reportsScheduler": state.history.status is not None,
        "version": status.version,
        "leader": status.leader,
        "lease": status.lease,
        "generation": state.cluster.snap.generation,
        "missingPhases": list(status.missing_phases),
        "replicas": [
            {
                "phase": replica.phase,
                "address": replica.address,
                "inStep": replica.in_step,
                "behind": replica.behind,
                "backlogBytes": replica.backlog_bytes,
                "fullSyncs": replica.full_syncs,
                "callsInFlight": replica.calls_in_flight,
                "lastError": replica.last_error,
                "standsIn": replica.stands_in,
            }
            for replica in status.replicas
        ],
        "plugins": [
            {
                "name": plugin.name,
                "address": plugin.address,
                "version": plugin.version,
                "failurePolicy": plugin.failure_policy,
                "breaker": plugin.breaker,
                "calls": plugin.calls,
                "failedCalls": plugin.failed_calls,
                "p99Seconds": plugin.p99_s if plugin.HasField("p99_s") else None,
                "health": plugin.health,
                "problem": plugin.problem,
            }
            for plugin in status.plugins
        ],
    }


def timeline(state: console_state.ConsoleState, sight: Sight, *, namespace: str, name: str) -> Json:
    """What happened to a pod in the queue, and the node that it is on."""
    node = state.cluster.node_of(namespace, name)
    found = state.timelines.of(namespace, name)
    out: Json = {
        "namespace": namespace,
        "name": name,
        "node": None if node is None else node if sight.lists_nodes else SOME_NODE,
        "known": found is not None,
        "attempts": 0,
        "queuedSinceMs": 0,
        "leftQueueAtMs": None,
        "entries": [],
    }
    if found is not None:
        out["attempts"], out["queuedSinceMs"] = found.attempts, found.queued_since_ms
        out["leftQueueAtMs"] = found.left_at_ms
        out["entries"] = [
            {
                "atMs": entry.at_ms,
                "state": "gated" if event_phrases.is_gated(entry.cause) else entry.state,
                "cause": event_phrases.event_cause(sight.without_names(entry.cause)),
            }
            for entry in found.entries
        ]
    return out


def _placed_pods_with(state: console_state.ConsoleState, text: str) -> Iterator[tuple[str, str]]:
    """Namespace and name of the pods on nodes with a text in `namespace/name`; 50,000 take some milliseconds."""
    snap = state.cluster.snap
    before, slash, after = text.partition("/")
    # By class number: whether the text is in all names of its namespace's pods, or may be in one.
    namespaces = {number: each.namespace for number, each in snap.classes.items()}
    if slash:
        wanted = {number for number, namespace in namespaces.items() if namespace.endswith(before)}
    else:
        wanted = {number for number, namespace in namespaces.items() if text in namespace}
    table = snap.pods
    of_row = zip(table.names, table.pod_class[: table.size].tolist(), table.slot[: table.size].tolist(), strict=True)
    for name, number, slot in of_row:
        matches = number in wanted and name.startswith(after) if slash else text in name or number in wanted
        if matches and name and slot >= 0:
            yield namespaces[number], name


def _queue_counts(queue: scheduler_status_pb2.QueueCounts) -> Mapping[str, int]:
    """The queue in numbers."""
    return {
        "active": queue.active,
        "backoff": queue.backoff,
        "unschedulable": queue.unschedulable,
        "gated": queue.gated,
        "inFlight": queue.in_flight,
        "binding": queue.binding,
        "waitingOnPermit": queue.waiting_on_permit,
    }


def _latency(latency: scheduler_history.Latency) -> Json:
    """Percentiles in seconds; null: no pod was bound in the last minute."""
    return {"count": latency.count, "p50Seconds": latency.p50, "p99Seconds": latency.p99}


def _shown_reasons(sight: Sight) -> pending_pods.Shown:
    """How the reader sees reasons.

    Their texts are about single pods: they have names of groups, values of fields, and what plugins write. A user who
    may not list pods sees plugins and state alone.
    """
    if not sight.lists_pods:
        return lambda reason: reason._replace(text="")
    if not sight.lists_nodes:
        return lambda reason: reason._replace(text=sight.without_names(reason.text))
    return pending_pods.whole


def _reason_document(reason: pending_pods.WaitReason, pods: Sequence[pending_pods.PendingPod], sight: Sight) -> Json:
    """A reason, and how many pods wait for it; the pod that waits longest for readers who may list pods."""
    oldest = min(pods, key=lambda pod: (pod.since_ms, pod.namespace, pod.name))
    return {
        "id": reason.id,
        "plugins": list(reason.plugins),
        "text": reason.text,
        "state": reason.state,
        "pods": len(pods),
        "states": dict(Counter(pod.state for pod in pods)),
        "oldestMs": oldest.since_ms,
        "mostAttempts": max(pod.attempts for pod in pods),
        "example": {"namespace": oldest.namespace, "name": oldest.name} if sight.lists_pods else None,
    }


def _pod_document(pod: pending_pods.PendingPod) -> Json:
    """A pod in the queue."""
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "state": pod.state,
        "attempts": pod.attempts,
        "sinceMs": pod.since_ms,
        "backoffUntilMs": pod.backoff_until_ms,
        "profile": pod.profile,
        "podGroup": pod.pod_group,
    }


def _preemption_document(record: scheduler_status_pb2.PreemptionRecord, sight: Sight) -> Json:
    """A preemption, with the names that the reader may list."""

    def pod_name(pod: cycle_pb2.PodIdentity) -> str:
        if not sight.lists_pods:
            return SOME_POD
        return f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name

    def node_name(name: str) -> str:
        return name if sight.lists_nodes or not name else SOME_NODE

    return {
        "number": record.number,
        "atMs": record.at_ms,
        "preemptor": pod_name(record.preemptor),
        "priority": record.priority,
        "node": node_name(record.node_name),
        "victimCount": record.victim_count,
        "victims": [{"pod": pod_name(victim.pod), "node": node_name(victim.node_name)} for victim in record.victims],
    }
