"""The parts of the frontend around its scheduler, each built from the ones before it: context, cluster, phases.

Tests: tests/contract/test_endpoints_that_change.py, tests/e2e/test_e2e_scheduling.py.
"""

import asyncio
import dataclasses

from trireme.cache import class_registry, cluster_cache, node_json, object_waits
from trireme.config import commandline
from trireme.extenders import extender_assembly, extenders
from trireme.frontend import plugin_membership, queue_plugin_calls, scheduler_metrics
from trireme.frontend.leader_status import LeaderStatus
from trireme.frontend.phase_clients import (
    class_answers,
    decision_log,
    endpoints,
    fallback,
    phase_links,
    plugin_streams,
    snapshot_publisher,
)
from trireme.frontend.phase_settings import PhaseSettings
from trireme.frontend.pod_reads import PodReads
from trireme.scheduling import ports, scheduler_parts, scheduler_ports
from trireme_kube.componentbase import supervision

Scheduling = scheduler_parts.Scheduling[queue_plugin_calls.QueuePluginCaller]


@dataclasses.dataclass(frozen=True, slots=True)
class FrontendContext:
    """What all parts of the frontend use: the configuration, the leader, and the remote plugins that take part."""

    #: The configuration at the start; what a reload may change of it is in the parts.
    completed: commandline.CompletedConfig
    leader: LeaderStatus
    membership: plugin_membership.PluginMembership
    settings: PhaseSettings
    metrics: scheduler_metrics.SchedulerMetrics
    clocks: ports.Clocks
    #: Set when a batch may have become possible.
    wakeup: asyncio.Event


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as this frontend knows it."""

    registry: class_registry.ClassRegistry
    cache: cluster_cache.ClusterCache
    waits: object_waits.ObjectWaits
    pod_reads: PodReads
    node_json: node_json.NodeJson
    extender_parts: extender_assembly.OpenExtenders | None

    @property
    def extenders(self) -> extenders.Extenders | None:
        """The HTTP extenders, where there are any."""
        return None if self.extender_parts is None else self.extender_parts.extenders


@dataclasses.dataclass(frozen=True, slots=True)
class PhaseClients:
    """The clients of the phases: calls, streams, and the answers about classes."""

    publisher: snapshot_publisher.SnapshotPublisher
    links: phase_links.PhaseLinks
    answers: class_answers.ClassAnswers
    evaluators: ports.Evaluators
    streams: plugin_streams.PluginStreams
    binder: ports.Binder
    #: What insight gets of the answers.
    decisions: decision_log.DecisionLog
    #: Takes down what insight gets of pods, and what their traces do.
    binding_log: ports.BindingLog
    #: By phase, the replacement of its configured replicas while none answers; made at the start of a term.
    fallbacks: dict[str, fallback.Fallback] = dataclasses.field(default_factory=dict)
    #: By phase, and for insight, the look-ups of its configured endpoints; made at the start of a term.
    lookups: dict[str, endpoints.Lookups] = dataclasses.field(default_factory=dict)

    @property
    def evaluation(self) -> scheduler_ports.EvaluationPorts:
        """What the cycles use."""
        publisher, log = self.publisher, self.binding_log
        return scheduler_ports.EvaluationPorts(
            self.evaluators, publisher.publish, publisher.until_published, self.links.available, log
        )

    def is_on_fallback(self, phase: str) -> bool:
        """Whether a replica of our own replaces the configured ones of a phase."""
        return phase in self.fallbacks and self.fallbacks[phase].active

    def supervisors(self) -> list[supervision.Supervisor]:
        """The supervisors of the tasks that work for the phases."""
        return [*self.links.supervisors(), self.streams.supervisor]

    async def close(self) -> None:
        """End all streams and links."""
        await self.streams.close()
        await self.links.close()
