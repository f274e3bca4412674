"""The state of the frontend, and why one pod is where it is, as JSON: what `trireme status` and `trireme explain` show.

Everything here is read from what the scheduler itself works with, at the moment of the question: the queue's places,
filter's last answer about the pod's class. So an explanation cannot differ from what happened.
"""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from trireme.cache import cluster_cache, placed_pod
from trireme.framework import release
from trireme.frontend.serving import pending_report
from trireme.queueing import states
from trireme.results import class_answer
from trireme.scheduling import cluster_watch, fit_error

if TYPE_CHECKING:
    from trireme.frontend import assembly

Json = dict[str, Any]

MAX_PODS = 100
# Nodes named for each reason: enough to look at one.
MAX_NODES = 10


def status(frontend: "assembly.Frontend", max_pods: int = MAX_PODS) -> Json:
    """All of the frontend; at most so many pending pods, those that wait longest first, and all of them by class."""
    queue = frontend.queue.statistics()
    pending = sorted(frontend.queue.pods(), key=lambda pod: pod.timestamp)
    report = pending_report.PendingReport(frontend)
    cache = frontend.cache.statistics()
    return {
        "version": release.installed(),
        "leadership": _leadership(frontend),
        "synced": frontend.synced,
        "missing": frontend.missing() if frontend.leading else [],
        "queue": {**queue.pending, "inFlight": queue.in_flight, "binding": frontend.binding.binding},
        "batches": queue.batches,
        "attempts": queue.scheduling_cycle,
        "cluster": {
            "nodes": cache.nodes,
            "pods": cache.pods,
            "assumedPods": cache.assumed_pods,
            "podClasses": cache.classes,
            "generation": cache.generation,
        },
        "replicas": _replicas(frontend),
        "plugins": frontend.plugin_rows(),
        "children": [dataclasses.asdict(child) for child in frontend.children_statistics()],
        "informers": [
            {"name": entry.name, "state": entry.state, "synced": entry.synced, "failures": entry.failures}
            for entry in (informer.statistics() for informer in frontend.informers)
        ],
        "waitingOnPermit": [{"pod": pod.key, "plugins": list(pod.plugins)} for pod in frontend.waiting.pods()],
        "pending": [report.of(pod) for pod in pending[:max_pods]],
        "pendingAlike": report.alike(pending),
        "pendingPods": len(pending),
    }


def explain(frontend: "assembly.Frontend", key: str) -> Json | None:
    """Why the pod (namespace/name) is where it is; None: nobody has heard of it."""
    queued = frontend.queue.get(key)
    if queued is None:
        placed = next((pod for pod in frontend.cache.pods() if pod.key == key), None)
        return _foreign(frontend, key) if placed is None else _placed(frontend, placed)
    out = pending_report.PendingReport(frontend).of(queued)
    pending: cluster_watch.PendingPod = queued.record.pod
    if pending.invalid:
        out["invalid"] = pending.invalid
    if pending.parsed.condition:
        out["condition"] = dict(zip(("status", "reason", "message", "since"), pending.parsed.condition, strict=True))
    answer = frontend.answers.peek((queued.record.profile, queued.record.class_id))
    if answer is not None and answer.generation:
        out |= _answer(frontend.cache, answer)
    out["story"] = _story(frontend, key)
    return out


def _leadership(frontend: "assembly.Frontend") -> Json:
    term = frontend.term
    if term is None:
        return {"leading": False, "lease": frontend.lease, "holder": frontend.lease_holder}
    seconds = round(term.seconds_left(), 1)
    return {"leading": True, "epoch": term.epoch, "holder": term.holder, "secondsLeft": seconds}


def _replicas(frontend: "assembly.Frontend") -> Json:
    newest = frontend.cache.generation
    out: Json = {}
    for name, replicas in (("filter", frontend.filters), ("score", frontend.scores)):
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
        for link in frontend.binders.statistics()
    ]
    return out


def _foreign(frontend: "assembly.Frontend", key: str) -> Json | None:
    """A pending pod that another scheduler is responsible for; None: there is no such pod."""
    scheduler = frontend.watch.scheduler_of(key)
    if not scheduler:
        return None
    profiles = sorted(frontend.watch.profiles)
    return {
        "pod": key,
        "place": "foreign",
        "schedulerName": scheduler,
        "profiles": profiles,
        "summary": f"names the scheduler {scheduler} in spec.schedulerName; this one schedules pods that name "
        f"{' or '.join(profiles)}",
    }


def _placed(frontend: "assembly.Frontend", pod: placed_pod.PlacedPod) -> Json:
    story = _story(frontend, pod.key)
    bound = [move["at"] for move in story if move["uid"] == pod.uid and move["to"] == states.Done.label]
    when = {"boundAt": bound[-1]} if bound else {"startedAt": float(pod.start)} if pod.start else {}
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "class": pod.class_id,
        "place": "bound",
        "summary": f"is bound to node {pod.node_name}",
        "node": pod.node_name,
        "nodeKnown": frontend.cache.slot_of(pod.node_name) != placed_pod.NO_SLOT,
        **when,
        "story": story,
    }


def _story(frontend: "assembly.Frontend", key: str) -> list[Json]:
    """The pod's last moves in the queue, oldest first."""
    moves = frontend.queue.transitions_of(key)
    at = frontend.to_wall
    return [{"at": round(at(move.at), 3), "uid": move.uid, "to": move.to.label, "cause": move.cause} for move in moves]


def _answer(cache: cluster_cache.ClusterCache, answer: class_answer.ClassAnswer) -> Json:
    """What filter last said of the pod's class: how many nodes pass, and why each of the others does not."""
    refusals = []
    numbers = {id(entry): number for number, entry in enumerate(answer.statuses, start=1)}
    for entry, count in sorted(fit_error.counted(answer.statuses, answer.index), key=lambda found: -found[1]):
        slots = np.flatnonzero(answer.index == numbers[id(entry)])
        refusals.append(
            {
                "plugin": entry.plugin,
                "code": entry.code.label,
                "messages": list(entry.messages),
                "reasons": [{"code": reason.code, **dict(reason.parameters)} for reason in entry.reasons],
                "nodes": count,
                "examples": list(_names(cache, slots[:MAX_NODES], answer.generation)),
            }
        )
    return {
        "nodes": cache.node_count,
        "feasibleNodes": answer.feasible,
        "generation": answer.generation,
        "refusals": refusals,
    }


def _names(cache: cluster_cache.ClusterCache, slots: Iterable[int], generation: int) -> Iterable[str]:
    for slot in slots:
        name = cache.node_at(int(slot), generation)
        if name is not None:
            yield name
