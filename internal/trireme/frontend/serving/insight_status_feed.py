"""Sends the state of the scheduler to insight once a second: counts, latencies, replicas, plugins, preemptions.

Everything is read from records that exist anyway, so that a second costs a fraction of a millisecond, however many pods
are scheduled in it. Nothing is read while no replica of insight follows.
"""

import asyncio
from collections.abc import Iterator

from trireme.framework import release
from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.scheduling import preemption_history
from trireme.v1 import scheduler_status_pb2
from trireme_kube.componentbase.metrics.instruments import Histogram

PERIOD_SECONDS = 1.0
# The next message waits where a replica has so much left to read: it has enough to do.
MAX_BACKLOG_BYTES = 1 << 20


class InsightStatusFeed:
    """Sends the state to the replicas of insight; `run` does so until cancelled."""

    def __init__(self, insight: insight_replicas.InsightReplicas, state: FrontendState) -> None:
        self._insight = insight
        self._state = state
        self._version = release.installed_version()["trireme"]
        # How many streams had begun, and the last preemption that was sent.
        self._streams = 0
        self._preemption = 0

    async def run(self) -> None:
        """Send the state once a second, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            followed = bool(self._insight.replicas.followed) and self._state.context.leader.leading
            if followed and self._insight.backlog_bytes <= MAX_BACKLOG_BYTES:
                self._insight.publish_status(self.take_status(), self._state.cluster.cache.generation)

    def take_status(self) -> scheduler_status_pb2.SchedulerStatus:
        """The state now, with the preemptions since the last call; with the last ones if a stream began."""
        if self._insight.streams != self._streams:
            self._streams, self._preemption = self._insight.streams, 0
        out = make_status(self._state, self._version)
        history = self._state.scheduling.preemptions.history
        for decision in history.after(self._preemption):
            out.preemptions.append(_preemption_message(decision))
            self._preemption = decision.number
        return out


def make_status(state: FrontendState, version: str) -> scheduler_status_pb2.SchedulerStatus:
    """The state now, without preemptions."""
    instruments, scheduling = state.context.metrics.instruments, state.scheduling
    attempts = instruments.schedule_attempts.totals("result")
    term = state.context.leader.term
    out = scheduler_status_pb2.SchedulerStatus(
        at_ms=round(state.context.clocks.wall() * 1000),
        version=version,
        leader="" if term is None else term.holder,
        lease=state.context.leader.lease,
        bound_total=int(attempts.get("scheduled", 0)),
        unschedulable_total=int(attempts.get("unschedulable", 0)),
        error_total=int(attempts.get("error", 0)),
        attempt_latency=_histogram_message(instruments.attempt_seconds, "result", "scheduled"),
        pod_latency=_histogram_message(instruments.sli_seconds),
        replicas=_replica_messages(state),
        plugins=_plugin_messages(state),
        missing_phases=state.phases.links.missing(),
    )
    queue = scheduling.queue.statistics()
    pending = queue.pending
    out.queue.active, out.queue.backoff = pending["active"], pending["backoff"]
    out.queue.unschedulable, out.queue.gated = pending["unschedulable"], pending["gated"]
    out.queue.in_flight, out.queue.binding = queue.in_flight, scheduling.binding.binding_count
    out.queue.waiting_on_permit = len(scheduling.waiting.pods())
    return out


def _histogram_message(histogram: Histogram, label: str = "", value: str = "") -> scheduler_status_pb2.LatencyHistogram:
    """The buckets of a histogram; with a label of its series with this value."""
    counts = histogram.bucket_counts(label, value)
    return scheduler_status_pb2.LatencyHistogram(bounds_s=histogram.bounds, counts=[int(count) for count in counts])


def _replica_messages(state: FrontendState) -> Iterator[scheduler_status_pb2.ReplicaStatus]:
    """All replicas of all phases, in the order of the phases."""
    newest, links = state.cluster.cache.generation, state.phases.links
    for phase, replicas in links.followers().items():
        own = state.phases.fallbacks[phase].addresses() if phase in state.phases.fallbacks else ()
        for link in replicas.statistics():
            yield scheduler_status_pb2.ReplicaStatus(
                phase=phase,
                address=link.address,
                in_step=link.in_step,
                behind=max(newest - link.acknowledged, 0),
                backlog_bytes=link.backlog_bytes,
                full_syncs=link.full_syncs,
                last_error=link.last_error,
                stands_in=link.address in own,
            )
    own = state.phases.fallbacks["bind"].addresses() if "bind" in state.phases.fallbacks else ()
    for binder in links.binders.statistics():
        yield scheduler_status_pb2.ReplicaStatus(
            phase="bind",
            address=binder.address,
            in_step=binder.fenced,
            calls_in_flight=binder.in_flight,
            last_error=binder.last_error,
            stands_in=binder.address in own,
        )


def _plugin_messages(state: FrontendState) -> Iterator[scheduler_status_pb2.PluginStatus]:
    """The remote plugins, as `trireme status` shows them."""
    for row in state.plugin_rows():
        yield scheduler_status_pb2.PluginStatus(
            name=row["name"],
            address=row["address"],
            version=row["version"],
            failure_policy=row["failurePolicy"],
            breaker=row["breaker"],
            calls=row["calls"],
            failed_calls=row["failedCalls"],
            p99_s=row["p99Seconds"],
            health=row["health"],
            problem=row["problem"],
        )


def _preemption_message(decision: preemption_history.PreemptionDecision) -> scheduler_status_pb2.PreemptionRecord:
    """A decision as insight gets it. A group's key, which has its kind in front, is its name."""
    namespace, slash, name = decision.key.partition("/")
    if not slash or "/" in name:
        namespace, name = "", decision.key
    out = scheduler_status_pb2.PreemptionRecord(
        number=decision.number,
        at_ms=round(decision.at * 1000),
        priority=decision.priority,
        node_name=decision.node_name,
        victim_count=decision.victim_count,
    )
    out.preemptor.namespace, out.preemptor.name, out.preemptor.uid = namespace, name, decision.uid
    for victim in decision.victims:
        added = out.victims.add(node_name=victim.node_name)
        added.pod.namespace, added.pod.name, added.pod.uid = victim.namespace, victim.name, victim.uid
    return out
