"""The state of the frontend as JSON: what `trireme status` shows."""

import dataclasses
from typing import Any

from trireme.framework import release
from trireme.frontend.serving import scheduler_explanation
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.wire import json_documents
from trireme_kube.client.informers import informer

Json = dict[str, Any]

MAX_PODS = 100


def status(state: FrontendState, max_pods: int = MAX_PODS) -> Json:
    """The whole frontend; at most so many pending pods, the longest waiting first, and all of them by class."""
    queue = state.scheduling.queue.statistics()
    pending = sorted(state.scheduling.queue.contents.pods(), key=lambda pod: pod.timestamp)
    report = state.pending_report()
    cache = state.cluster.cache.statistics()
    return {
        "version": release.installed_version(),
        "leadership": _leadership_json(state),
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
        "pending": [json_documents.document(report.entry_of(pod)) for pod in pending[:max_pods]],
        "pendingAlike": [json_documents.document(alike) for alike in report.entries_by_class(pending)],
        "pendingPods": len(pending),
    }


def _leadership_json(state: FrontendState) -> Json:
    """Who leads, and for how long."""
    out = scheduler_explanation.leadership(state)
    if (term := state.context.leader.term) is not None:
        out.seconds_left = round(term.remaining_seconds(), 1)
    return json_documents.document(out)


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


def _informer_json(entry: informer.InformerStatistics) -> Json:
    """How far an informer has got."""
    return {
        "name": entry.name,
        "state": entry.state,
        "synced": entry.synced,
        "failures": entry.failures,
        "lastError": entry.last_error,
    }


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
