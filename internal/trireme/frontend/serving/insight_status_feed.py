"""Sends the state of the scheduler to insight once a second.

That is counts, latencies, replicas, plugins, preemptions and missed wake-ups. A second costs a fraction of a
millisecond, however many pods are scheduled in it. Nothing is read while no replica of insight follows.
"""

import asyncio

from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving import scheduler_status
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.scheduling import preemption_history
from trireme.v1 import scheduler_status_pb2

PERIOD_SECONDS = 1.0
# The next message waits where a replica has so much left to read: it has enough to do.
MAX_BACKLOG_BYTES = 1 << 20


class InsightStatusFeed:
    """Sends the state to the replicas of insight; `run` does so until cancelled."""

    def __init__(self, insight: insight_replicas.InsightReplicas, state: FrontendState) -> None:
        self._insight = insight
        self._state = state
        # How many streams had begun, and the last preemption and missed wake-up that were sent.
        self._streams = 0
        self._preemption = self._missed_wake_up = 0

    async def run(self) -> None:
        """Send the state once a second, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            followed = bool(self._insight.replicas.followed) and self._state.context.leader.leading
            if followed and self._insight.backlog_bytes <= MAX_BACKLOG_BYTES:
                self._insight.publish_status(self.take_status(), self._state.cluster.cache.generation)

    def take_status(self) -> scheduler_status_pb2.SchedulerStatus:
        """The state now, with the preemptions and missed wake-ups since the last call.

        With the last ones if a stream began.
        """
        if self._insight.streams != self._streams:
            self._streams = self._insight.streams
            self._preemption = self._missed_wake_up = 0
        out = scheduler_status.summary(self._state)
        history = self._state.scheduling.preemptions.history
        for decision in history.after(self._preemption):
            out.preemptions.append(_preemption_message(decision))
            self._preemption = decision.number
        if self._state.wake_ups is not None:
            for missed in self._state.wake_ups.history:
                if missed.number > self._missed_wake_up:
                    out.missed_wake_ups.append(missed)
                    self._missed_wake_up = missed.number
        return out


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
