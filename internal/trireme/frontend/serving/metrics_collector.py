"""The frontend's metrics of a state: read from the statistics of its parts at each scrape.

So the hot path updates no gauge, and metrics agree with `trireme status`.

Also change: docs/runbooks/README.md.
Also change: deploy/chart/files/rules.yaml, docs/metrics_remarks.yaml (alerts, remarks).
Also change: internal/trireme/phases/phase_metrics.py (metrics of both).
Also change: internal/trireme/queueing/states.py (the words of the queue's states).
Also change: docs/operating-plugins.md (the metrics).
Also change: docs/kubernetes-versions.md (the metrics).
Also change: tools/soak/soak_report.py (the metrics).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from trireme.config import commandline, gates
from trireme.framework import cluster_event
from trireme.frontend.phase_clients import local_phases
from trireme.frontend.serving.frontend_state import FrontendState
from trireme_kube.client.events import event_recorder
from trireme_kube.client.informers import resources
from trireme_kube.componentbase.cli import versions
from trireme_kube.componentbase.metrics.instruments import (
    BETA,
    STABLE,
    CountedElsewhere,
    Gauge,
    Instrument,
    Reading,
    Registry,
    Values,
)

_NAME = "kube-scheduler"
_BACKOFF = "backoff"


def instruments(state: FrontendState, completed: commandline.CompletedConfig) -> Iterable[Instrument]:
    """All instruments that read a frontend."""
    yield from _queue_instruments(state)
    yield from _incoming_pod_instruments(state)
    yield from _cache_instruments(state)
    yield from _replica_instruments(state)
    yield from _process_instruments(state)
    yield from _reload_instruments(state)
    yield from _version_and_gate_instruments(completed)


def _reload_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield what is known of the configuration in force, and of reloads."""
    yield CountedElsewhere(
        "trireme_config_reloads_total",
        "Reloads of the configuration, by result: success, or refused, and then the one before stays in force.",
        lambda: {("success",): state.reloads().succeeded, ("refused",): state.reloads().refused},
        ("result",),
    )
    yield Gauge(
        "trireme_config_info",
        "1, with the hash of the contents of the configuration files in force.",
        lambda: {(state.reloads().content_hash,): 1.0},
        ("hash",),
    )
    yield Gauge(
        "trireme_config_last_success_timestamp_seconds",
        "When the configuration in force was loaded, at the start or by a reload, in Unix seconds.",
        lambda: _unlabelled(state.reloads().loaded_at),
    )
    yield Gauge(
        "trireme_config_refused",
        "1 while the configuration files, as they are now, are refused, else 0.",
        lambda: _unlabelled(float(state.reloads().is_refused)),
    )


def _queue_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the gauges of pods and groups in the queue, and of the events stored for those in flight."""

    def pending_pods_by_queue() -> Mapping[Values, float]:
        statistics = state.scheduling.queue.statistics()
        members: dict[Values, float] = {
            ("incomplete",): statistics.waiting_for_group,
            ("pending",): statistics.group_in_flight,
        }
        return {**members, **_by_one_label(statistics.pending)}

    def queued_entities_by_queue() -> Mapping[Values, float]:
        statistics = state.scheduling.queue.statistics()
        members = statistics.members_by_queue
        pods: dict[Values, float] = {
            (queue, "pod"): count - members.get(queue, 0) for queue, count in statistics.pending.items()
        }
        groups: dict[Values, float] = {(queue, "podgroup"): n for queue, n in statistics.groups_by_queue.items()}
        return pods | groups

    def events_for_pods_in_flight() -> Mapping[Values, float]:
        statistics = state.scheduling.queue.statistics()
        return {("PodPopped",): statistics.in_flight, **_by_one_label(statistics.in_flight_events)}

    def refused_pods_by_plugin() -> Mapping[Values, float]:
        refused_by = state.scheduling.queue.statistics().refused_by
        return {(plugin, profile): count for (profile, plugin), count in refused_by.items()}

    yield Gauge(
        "scheduler_pending_pods",
        "Pending pods, by the queue that they are in.",
        pending_pods_by_queue,
        ("queue",),
        STABLE,
    )
    yield Gauge(
        "scheduler_queued_entities",
        "Queued entities, by queue and by kind of entity.",
        queued_entities_by_queue,
        ("queue", "entity"),
    )
    yield Gauge(
        "scheduler_inflight_events",
        "Events stored for pods being scheduled, by event; PodPopped counts those pods.",
        events_for_pods_in_flight,
        ("event",),
    )
    yield Gauge(
        "scheduler_unschedulable_pods",
        "Pods that a plugin refused. A pod counts for each of the plugins, so this means something by plugin only.",
        refused_pods_by_plugin,
        ("plugin", "profile"),
        BETA,
    )


def _incoming_pod_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the counters of pods that entered the queue, of batches, and of dropped events; the queue counts them."""

    def incoming_entities() -> Mapping[Values, float]:
        """Pods that entered the queue.

        A pod that is requeued after its attempt does not enter anew, and neither does one that an event moves to the
        back-off queue.
        """
        incoming = state.scheduling.queue.statistics().incoming
        return {
            (*key, "pod"): count
            for key, count in incoming.items()
            if key[1] != cluster_event.SCHEDULE_ATTEMPT_FAILURE and key[0] != _BACKOFF
        }

    yield CountedElsewhere(
        "scheduler_queue_incoming_pods_total",
        "Pods that entered a queue, by queue and by the event that brought them.",
        lambda: state.scheduling.queue.statistics().incoming,
        ("queue", "event"),
        STABLE,
    )
    yield CountedElsewhere(
        "scheduler_queue_incoming_entities_total",
        "Entities that entered a queue, by queue, event and kind of entity.",
        incoming_entities,
        ("queue", "event", "entity"),
    )
    yield CountedElsewhere(
        "trireme_batches_total",
        "Batches taken from the queue, each attempt at a pod group included.",
        lambda: _unlabelled(state.scheduling.queue.statistics().batches),
    )
    yield CountedElsewhere(
        "trireme_dropped_events_total",
        "Events for pods being scheduled that were dropped because too many were stored: such pods are tried again.",
        lambda: _unlabelled(state.scheduling.queue.statistics().dropped_events),
    )
    yield Gauge(
        "trireme_refusal_groups",
        "Groups of refused pods that no event can tell apart.",
        lambda: _unlabelled(state.scheduling.queue.statistics().refusal_groups),
    )


def _cache_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the gauges of the cluster cache and of the informers that fill it."""

    def cache_sizes() -> Mapping[Values, float]:
        statistics = state.cluster.cache.statistics()
        return {("nodes",): statistics.nodes, ("pods",): statistics.pods, ("assumed_pods",): statistics.assumed_pods}

    yield Gauge("scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", cache_sizes, ("type",))
    yield Gauge(
        "trireme_pod_classes", "Classes of pods.", lambda: _unlabelled(state.cluster.cache.statistics().classes)
    )
    yield Gauge(
        "trireme_snapshot_generation",
        "Generation of the cluster cache; replicas follow it.",
        lambda: _unlabelled(state.cluster.cache.statistics().generation),
    )
    yield Gauge(
        "informer_store_resource_version",
        "The 15 least significant digits of the resource version up to which every event was delivered.",
        lambda: {
            (_NAME, *_group_version(entry.resource), entry.resource.name): entry.statistics().version % 10**15
            for entry in state.informers
        },
        ("name", "group", "version", "resource"),
    )


def _replica_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the metrics of each replica by its address; those of replicas that are gone disappear (`transient`)."""
    followers = state.phases.links.followers()
    labels = ("phase", "address")

    def by_replica(attribute: str) -> Reading:
        return lambda: {
            (phase, entry.address): float(getattr(entry, attribute))
            for phase, replicas in followers.items()
            for entry in replicas.statistics()
        }

    def lag_by_replica() -> Mapping[Values, float]:
        newest = state.cluster.cache.generation
        return {
            (phase, entry.address): max(newest - entry.acknowledged, 0)
            for phase, replicas in followers.items()
            for entry in replicas.statistics()
        }

    def by_bind_replica(attribute: str) -> Reading:
        return lambda: {
            (entry.address,): float(getattr(entry, attribute)) for entry in state.phases.links.binders.statistics()
        }

    yield Gauge(
        "trireme_replica_in_step",
        "Whether a replica follows the snapshot.",
        by_replica("in_step"),
        labels,
        transient=True,
    )
    yield Gauge(
        "trireme_replica_lag_generations",
        "Generations that a replica is behind.",
        lag_by_replica,
        labels,
        transient=True,
    )
    yield Gauge(
        "trireme_replica_backlog_bytes",
        "Deltas that wait to be sent to a replica.",
        by_replica("backlog_bytes"),
        labels,
        transient=True,
    )
    yield CountedElsewhere(
        "trireme_replica_sent_bytes_total",
        "Deltas sent to a replica, without full synchronisations.",
        by_replica("sent_bytes"),
        labels,
    )
    yield CountedElsewhere(
        "trireme_replica_full_syncs_total", "Full synchronisations of a replica.", by_replica("full_syncs"), labels
    )
    yield CountedElsewhere(
        "trireme_replica_dropped_decisions_total",
        "Messages sent without their decisions to a replica that records, because it was behind.",
        by_replica("dropped_decisions"),
        labels,
    )
    yield Gauge(
        "trireme_bind_replica_fenced",
        "1: a bind replica knows this leader, as it should, and refuses any former one; 0: not yet, or it is gone.",
        by_bind_replica("fenced"),
        ("address",),
        transient=True,
    )
    yield Gauge(
        "trireme_bind_replica_calls_in_flight",
        "Calls to a bind replica under way.",
        by_bind_replica("in_flight"),
        ("address",),
        transient=True,
    )


def _process_instruments(state: FrontendState) -> Iterable[Instrument]:
    """Yield the metrics of this process: bindings under way, leadership, waits on Permit, events, phases, starts."""
    yield Gauge(
        "scheduler_goroutines",
        "Concurrent operations by kind: here the pods being bound.",
        lambda: {("binding",): state.scheduling.binding.binding_count},
        ("operation",),
        BETA,
    )
    yield Gauge(
        "leader_election_master_status",
        "Whether we hold the lease: 1, or 0 while another does.",
        lambda: {(_NAME,): int(state.context.leader.leading)},
        ("name",),
    )
    yield Gauge(
        "trireme_waiting_pods", "Pods waiting on Permit.", lambda: _unlabelled(len(state.scheduling.waiting.pods()))
    )
    yield Gauge(
        "trireme_phase_available",
        "Whether a replica of the phase is available.",
        lambda: {(phase,): int(phase not in state.phases.links.missing()) for phase in ("filter", "score", "bind")},
        ("phase",),
    )
    yield Gauge(
        "trireme_phase_fallback",
        "Whether the frontend's own phase replaces configured ones that do not answer.",
        lambda: {(phase,): int(state.phases.is_on_fallback(phase)) for phase in ("filter", "score", "bind")},
        ("phase",),
    )
    yield CountedElsewhere(
        "trireme_unrecorded_events_total",
        "Writes of Kubernetes events that were given up: dropped (too many waited), refused or unsent.",
        lambda: _unrecorded_events(state.events()),
        ("reason",),
    )
    yield CountedElsewhere(
        "trireme_child_starts_total",
        "Starts of the frontend's own phases, by child; more than one means that it had ended.",
        lambda: _starts_of_local_phases(state.local_phase_statistics()),
        ("child",),
    )


def _version_and_gate_instruments(completed: commandline.CompletedConfig) -> Iterable[Instrument]:
    """Yield the gauges with a constant value: feature gates, and the versions that we are and emulate."""
    effective = completed.gates.effective
    features = {(name, _stage_label(name, effective)): float(on) for name, on in completed.gates.all().items()}
    yield Gauge(
        "kubernetes_feature_enabled",
        "Whether a feature gate is on.",
        lambda: features,
        ("name", "stage"),
        BETA,
    )
    major, minor = versions.BINARY.minor
    build = {
        "build_date": "",
        "compiler": "",
        "git_commit": "",
        "git_tree_state": "",
        "git_version": completed.version,
        "go_version": "",
        "major": str(major),
        "minor": str(minor),
        "platform": "",
    }
    yield Gauge(
        "kubernetes_build_info",
        "A metric with a constant '1' value, labelled by the version of Kubernetes whose behaviour this is.",
        lambda: {tuple(build.values()): 1},
        tuple(build),
        BETA,
    )
    version = (
        "kube",
        versions.KUBERNETES.removeprefix("v"),
        _minor_version(effective.emulated),
        _minor_version(effective.oldest_peer),
    )
    yield Gauge(
        "version_info",
        "The binary version, the version whose behaviour is emulated, and the oldest compatible one.",
        lambda: {version: 1},
        ("component", "binary", "emulation", "min_compat"),
    )


def by_stability(registry: Registry) -> Mapping[Values, float]:
    """How many metrics there are of each stability; none is deprecated."""
    return Counter((instrument.stability, "") for instrument in registry if instrument.stability)


def _starts_of_local_phases(statistics: Iterable[local_phases.LocalPhaseStatistics]) -> Mapping[Values, float]:
    """How often the processes of each local phase were started."""
    starts: Counter[Values] = Counter()
    for child in statistics:
        starts[child.name,] += child.starts
    return starts


def _unrecorded_events(counts: event_recorder.EventStatistics) -> Mapping[Values, float]:
    """How many Kubernetes events were not recorded, by reason."""
    return _by_one_label({"dropped": counts.dropped, "refused": counts.refused, "unsent": counts.unsent})


def _by_one_label(counts: Mapping[str, int]) -> dict[Values, float]:
    return {(label,): count for label, count in counts.items()}


def _group_version(resource: resources.Resource) -> tuple[str, str]:
    """The API group (empty for the core) and the version in a collection's path."""
    parts = resource.path.strip("/").split("/")
    return (parts[1], parts[2]) if parts[0] == "apis" else ("", parts[1])


def _stage_label(name: str, effective: versions.Effective) -> str:
    """A feature's stage as the metric has it: general availability is the empty one."""
    stage = gates.read_table().at(name, effective).stage
    return "" if stage is gates.GateStage.GA else stage.value


def _unlabelled(value: float) -> Mapping[Values, float]:
    """The value of a metric without labels."""
    return {(): value}


def _minor_version(version: tuple[int, int]) -> str:
    """The version as text, such as 1.37."""
    return f"{version[0]}.{version[1]}"
