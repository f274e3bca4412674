"""The state of the frontend, and the explanation of one pod, as JSON: what `trireme status` and `trireme explain` show.

Everything here is read from the scheduler's own state at the moment of the request: the queue's states, filter's last
answer about the pod's class. So an explanation cannot differ from what happened.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from trireme.cache import cluster_cache, placed_pod
from trireme.framework import release
from trireme.framework import status as framework_status
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.queueing import states
from trireme.scheduling import fit_error
from trireme.wire import node_columns
from trireme_kube.client.informers import informer

Json = dict[str, Any]

MAX_PODS = 100
# Nodes named for each reason: enough to look at one.
MAX_NODES = 10


def status(state: FrontendState, max_pods: int = MAX_PODS) -> Json:
    """The whole frontend; at most so many pending pods, the longest waiting first, and all of them by class."""
    queue = state.scheduling.queue.statistics()
    pending = sorted(state.scheduling.queue.contents.pods(), key=lambda pod: pod.timestamp)
    report = state.pending_report()
    cache = state.cluster.cache.statistics()
    return {
        "version": release.installed_version(),
        "leadership": leadership_json(state),
        "configuration": _configuration_json(state),
        "synced": state.synced,
        "missing": state.phases.links.missing() if state.context.leader.leading else [],
        "queue": {**queue.pending, "inFlight": queue.in_flight, "binding": state.scheduling.binding.binding_count},
        "batches": queue.batches,
        "attempts": queue.scheduling_cycle,
        "performance": _performance_json(state),
        "cluster": {
            "nodes": cache.nodes,
            "pods": cache.pods,
            "assumedPods": cache.assumed_pods,
            "podClasses": cache.classes,
            "generation": cache.generation,
        },
        "endpoints": _endpoints_json(state),
        "replicas": _replicas_json(state),
        "plugins": state.plugin_rows(),
        "children": [dataclasses.asdict(child) for child in state.local_phase_statistics()],
        "informers": [_informer_json(each.statistics()) for each in state.informers],
        "waitingOnPermit": [{"pod": pod.key, "plugins": list(pod.plugins)} for pod in state.scheduling.waiting.pods()],
        "pending": [report.entry_of(pod) for pod in pending[:max_pods]],
        "pendingAlike": report.entries_by_class(pending),
        "pendingPods": len(pending),
    }


def _configuration_json(state: FrontendState) -> Json:
    """The configuration in force: the hash of its files and that of calls to phases, its age, and the last refusal."""
    reloads = state.reloads()
    refusal = None
    if reloads.last_refusal:
        refusal = {
            "at": reloads.last_refusal_at,
            "error": reloads.last_refusal,
            "current": reloads.is_refused,
        }
    return {
        "hash": reloads.content_hash,
        "callHash": f"{state.context.settings.config_hash():016x}",
        "loadedAt": reloads.loaded_at,
        "ageSeconds": max(0.0, state.context.clocks.wall() - reloads.loaded_at),
        "reloads": reloads.succeeded,
        "refusedReloads": reloads.refused,
        "lastRefusal": refusal,
    }


def _performance_json(state: FrontendState) -> Json:
    """What became of attempts, and how long pods took to be bound: counts since the start, for rates and percentiles.

    `boundsSeconds` are the upper bounds of the buckets of `podCounts`, which has one more for all longer durations.
    """
    instruments = state.context.metrics.instruments
    results = instruments.schedule_attempts.totals("result")
    return {
        "bound": int(results.get("scheduled", 0)),
        "unschedulable": int(results.get("unschedulable", 0)),
        "errors": int(results.get("error", 0)),
        "boundsSeconds": list(instruments.sli_seconds.bounds),
        "podCounts": [int(count) for count in instruments.sli_seconds.bucket_counts()],
    }


def explain(state: FrontendState, key: str) -> Json | None:
    """Explain the state of the pod (namespace/name), for /trireme/v1/explain; None: no informer knows such a pod.

    A queued pod's report has what it waits for and filter's last answer about its class, if there is one; a placed
    pod's has its node; of a pod of another scheduler there is only that. Evaluating the pod anew is insight's part.
    `leadership` and `synced` say how far the rest is to be believed: without the lease, or with caches that are not
    synced, a frontend does not know what becomes of pods.
    """
    report = _explain(state, key)
    return None if report is None else {**report, "leadership": leadership_json(state), "synced": state.synced}


def _explain(state: FrontendState, key: str) -> Json | None:
    """The explanation without the frontend's own state; None: no informer knows such a pod."""
    queued = state.scheduling.queue.contents.get(key)
    if queued is None:
        placed = next((pod for pod in state.cluster.cache.pods() if pod.key == key), None)
        return _pod_of_other_scheduler(state, key) if placed is None else _placed_pod_json(state, placed)
    out = state.pending_report().entry_of(queued)
    pending = queued.record.pod
    if pending.invalid:
        out["invalid"] = pending.invalid
    if pending.parsed.condition:
        out["condition"] = dict(zip(("status", "reason", "message", "since"), pending.parsed.condition, strict=True))
    refused = state.scheduling.reporter.refused_placement(queued.uid)
    if refused is not None:
        out["refusedPlacement"] = {
            "extensionPoint": refused.extension_point,
            "node": refused.node,
            **_status_json(refused.status),
        }
    answer = state.phases.answers.get((queued.record.profile, queued.record.class_id))
    if answer is not None and answer.generation:
        out |= _last_answer_json(state.cluster.cache, answer)
    out["history"] = _transitions_json(state, key)
    return out


def _informer_json(entry: informer.InformerStatistics) -> Json:
    """How far an informer has got."""
    return {
        "name": entry.name,
        "state": entry.state,
        "synced": entry.synced,
        "failures": entry.failures,
        "lastError": entry.last_error,
    }


def leadership_json(state: FrontendState) -> Json:
    """Who leads; `lastError` says why the last request for the Lease failed, and is empty if it did not."""
    leader, error = state.context.leader, state.lease_error()
    term = leader.term
    if term is None:
        return {"leading": False, "lease": leader.lease, "holder": leader.holder, "lastError": error}
    seconds = round(term.remaining_seconds(), 1)
    return {"leading": True, "epoch": term.epoch, "holder": term.holder, "secondsLeft": seconds, "lastError": error}


def _endpoints_json(state: FrontendState) -> Json:
    """The configured DNS names and Services by phase: what each stands for, or why it cannot be looked up."""
    return {
        name: [
            {
                "endpoint": lookup.endpoint,
                "addresses": list(lookup.addresses),
                "listed": lookup.listed,
                "lastError": lookup.error(),
            }
            for lookup in lookups.values()
        ]
        for name, lookups in state.phases.lookups.items()
    }


def _replicas_json(state: FrontendState) -> Json:
    """The replicas by phase: how far each follows the cluster, or of bind whether it knows the leader.

    `standsIn`: it is one of our own, while no configured replica of its phase answers.
    """
    newest = state.cluster.cache.generation
    out: Json = {}
    links = state.phases.links
    for name, replicas in links.followers().items():
        out[name] = [
            {
                "address": link.address,
                "inStep": link.in_step,
                "behind": max(newest - link.acknowledged, 0),
                "backlogBytes": link.backlog_bytes,
                "sentBytes": link.sent_bytes,
                "fullSyncs": link.full_syncs,
                "lastError": link.last_error,
            }
            for link in replicas.statistics()
        ]
    out["bind"] = [
        {"address": link.address, "inStep": link.fenced, "callsInFlight": link.in_flight, "lastError": link.last_error}
        for link in links.binders.statistics()
    ]
    for name, replicas in out.items():
        own = state.phases.fallbacks[name].addresses() if name in state.phases.fallbacks else ()
        for replica in replicas:
            replica["standsIn"] = replica["address"] in own
    return out


def _pod_of_other_scheduler(state: FrontendState, key: str) -> Json | None:
    """A pending pod of another scheduler; None: there is no such pod."""
    scheduler = state.scheduling.handlers.pods.other_scheduler_of(key)
    if not scheduler:
        return None
    profiles = sorted(state.scheduling.handlers.pods.profiles)
    return {
        "pod": key,
        "place": "foreign",
        "schedulerName": scheduler,
        "profiles": profiles,
        "summary": f"names the scheduler {scheduler} in spec.schedulerName; this one schedules pods that name "
        f"{' or '.join(profiles)}",
    }


def _placed_pod_json(state: FrontendState, pod: placed_pod.PlacedPod) -> Json:
    """Report on a pod that has a node: when it was bound if we bound it, else when it started, if it has."""
    history = _transitions_json(state, pod.key)
    bound = [move["at"] for move in history if move["uid"] == pod.uid and move["to"] == states.Done.label]
    when = {"boundAt": bound[-1]} if bound else {"startedAt": float(pod.start)} if pod.start else {}
    known = state.cluster.cache.slot_of(pod.node_name) != placed_pod.NO_SLOT
    summary = f"is bound to node {pod.node_name}"
    if not known and state.synced:
        summary = f"{summary}, and there is no node of this name"
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "class": pod.class_id,
        "place": "bound",
        "summary": summary,
        "node": pod.node_name,
        "nodeKnown": known,
        **when,
        "history": history,
    }


def _transitions_json(state: FrontendState, key: str) -> list[Json]:
    """The pod's last transitions in the queue, oldest first; none while we do not lead: the leader's are others."""
    if not state.context.leader.leading:
        return []
    moves = state.scheduling.queue.contents.transitions_of(key)
    at = state.to_wall
    return [{"at": round(at(move.at), 3), "uid": move.uid, "to": move.to.label, "cause": move.cause} for move in moves]


def _status_json(entry: framework_status.Status) -> Json:
    """A plugin's status."""
    return {
        "plugin": entry.plugin,
        "code": entry.code.label,
        "messages": list(entry.messages),
        "reasons": [{"code": reason.code, **dict(reason.parameters)} for reason in entry.reasons],
    }


def _last_answer_json(cache: cluster_cache.ClusterCache, answer: node_columns.NodeColumns) -> Json:
    """Filter's last answer about the pod's class: how many nodes pass, and why each of the others does not."""
    refusals = []
    numbers = {id(entry): number for number, entry in enumerate(answer.statuses, start=1)}
    for entry, count in sorted(fit_error.nodes_by_status(answer.statuses, answer.index), key=lambda found: -found[1]):
        slots = np.flatnonzero(answer.index == numbers[id(entry)])
        refusals.append(
            {
                **_status_json(entry),
                "nodes": count,
                "examples": list(_node_names(cache, slots[:MAX_NODES], answer.generation)),
            }
        )
    return {
        "nodes": cache.node_count,
        "feasibleNodes": answer.feasible_count,
        "generation": answer.generation,
        "refusals": refusals,
    }


def _node_names(cache: cluster_cache.ClusterCache, slots: Iterable[int], generation: int) -> Iterable[str]:
    """The names of the nodes at these slots; left out are nodes that came after the generation."""
    for slot in slots:
        name = cache.node_at(int(slot), generation)
        if name is not None:
            yield name
