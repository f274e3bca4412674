"""The state of the frontend as a message: `trireme status` shows the whole, insight is sent the summary.

Everything is read from records that exist anyway, so that a summary costs a fraction of a millisecond.

Also change: protos/trireme/v1/scheduler_status.proto (the messages).
"""

import functools
from collections.abc import Iterator

from trireme.config import commandline
from trireme.framework import release
from trireme.frontend.serving import profile_differences, scheduler_explanation
from trireme.frontend.serving.frontend_state import FrontendState
from trireme.v1 import cycle_pb2, scheduler_status_pb2
from trireme_kube.componentbase.metrics.instruments import Histogram

MAX_PODS = 100


def status(state: FrontendState, max_pods: int = MAX_PODS) -> scheduler_status_pb2.SchedulerStatus:
    """The whole frontend; at most so many pending pods, the longest waiting first, and all of them by class."""
    out = summary(state)
    installed, queue = _installed_version(), state.scheduling.queue.statistics()
    out.kubernetes_version, out.python_version = installed["kubernetes"], installed["python"]
    out.leadership.CopyFrom(scheduler_explanation.leadership(state))
    if (term := state.context.leader.term) is not None:
        out.leadership.seconds_left = round(term.remaining_seconds(), 1)
    _add_configuration(out.configuration, state)
    out.profiles.extend(_profiles(state.completed))
    out.synced = state.synced
    cache = state.cluster.cache.statistics()
    out.cluster.nodes, out.cluster.pods, out.cluster.assumed_pods = cache.nodes, cache.pods, cache.assumed_pods
    out.cluster.pod_classes, out.cluster.generation = cache.classes, cache.generation
    out.endpoints.extend(_endpoints(state))
    for process in state.local_phase_statistics():
        out.local_phases.add(
            name=process.name,
            pid=process.pid,
            starts=process.starts,
            address=process.address,
            ended_at_ms=round(process.ended_at * 1000),
            exit_code=process.exit_code,
        )
    for informer in state.informers:
        found = informer.statistics()
        out.informers.add(
            name=found.name,
            state=found.state,
            synced=found.synced,
            failures=found.failures,
            last_error=found.last_error,
        )
    for absent in state.absent_apis():
        out.absent_apis.add(api=absent.api, purpose=absent.purpose)
    for waiting in state.scheduling.waiting.pods():
        namespace, _, name = waiting.key.partition("/")
        identity = cycle_pb2.PodIdentity(namespace=namespace, name=name)
        out.waiting_on_permit.add(pod=identity, plugins=waiting.plugins)
    report = state.pending_report()
    pending = sorted(state.scheduling.queue.contents.pods(), key=lambda pod: pod.timestamp)
    out.pending.extend(report.entry_of(pod) for pod in pending[:max_pods])
    out.pending_alike.extend(report.entries_by_class(pending))
    if state.context.leader.leading:
        _add_wake_ups(out, state)
    out.pending_pods, out.batches, out.attempts = len(pending), queue.batches, queue.scheduling_cycle
    return out


def summary(state: FrontendState) -> scheduler_status_pb2.SchedulerStatus:
    """What insight is sent each second, without preemptions and missed wake-ups."""
    instruments, scheduling = state.context.metrics.instruments, state.scheduling
    attempts = instruments.schedule_attempts.totals("result")
    leader = state.context.leader
    out = scheduler_status_pb2.SchedulerStatus(
        at_ms=round(state.context.clocks.wall() * 1000),
        version=_installed_version()["trireme"],
        leader="" if leader.term is None else leader.term.holder,
        lease=leader.lease,
        bound_total=int(attempts.get("scheduled", 0)),
        unschedulable_total=int(attempts.get("unschedulable", 0)),
        error_total=int(attempts.get("error", 0)),
        attempt_latency=_histogram_message(instruments.attempt_seconds, "result", "scheduled"),
        pod_latency=_histogram_message(instruments.sli_seconds),
        replicas=_replicas(state),
        plugins=state.plugins(),
        missing_phases=state.phases.links.missing() if leader.leading else (),
    )
    queue = scheduling.queue.statistics()
    pending = queue.pending
    out.queue.active, out.queue.backoff = pending["active"], pending["backoff"]
    out.queue.unschedulable, out.queue.gated = pending["unschedulable"], pending["gated"]
    out.queue.in_flight, out.queue.binding = queue.in_flight, scheduling.binding.binding_count
    out.queue.waiting_on_permit = len(scheduling.waiting.pods())
    return out


@functools.cache
def _installed_version() -> dict[str, str]:
    return release.installed_version()


def _histogram_message(histogram: Histogram, label: str = "", value: str = "") -> scheduler_status_pb2.LatencyHistogram:
    """The buckets of a histogram; with a label of its series with this value."""
    counts = histogram.bucket_counts(label, value)
    return scheduler_status_pb2.LatencyHistogram(bounds_s=histogram.bounds, counts=[int(count) for count in counts])


def _add_configuration(out: scheduler_status_pb2.ConfigurationStatus, state: FrontendState) -> None:
    """Add the configuration in force: the hash of its files and that of calls to phases, and the last refusal."""
    reloads = state.reloads()
    out.hash, out.call_hash = reloads.content_hash, f"{state.context.settings.config_hash():016x}"
    out.loaded_at_ms = round(reloads.loaded_at * 1000)
    out.reloads, out.refused_reloads = reloads.succeeded, reloads.refused
    if reloads.last_refusal:
        # A path that is not UTF-8 is in the text as it came.
        text = reloads.last_refusal.encode("utf-8", "replace").decode()
        out.last_refusal.at_ms, out.last_refusal.error = round(reloads.last_refusal_at * 1000), text
        out.last_refusal.current = reloads.is_refused


def _profiles(completed: commandline.CompletedConfig) -> Iterator[scheduler_status_pb2.ProfileStatus]:
    """The profiles of the configuration in force; those that a reload removed are none of it."""
    default = profile_differences.default_profile(completed.gates)
    for profile in completed.profiles:
        if profile.scheduler_name not in completed.retired_profiles:
            found = profile_differences.differences(profile, default)
            yield scheduler_status_pb2.ProfileStatus(
                scheduler_name=profile.scheduler_name,
                added_plugins=found.added,
                removed_plugins=found.removed,
                changed_plugins=found.changed,
            )


def _add_wake_ups(out: scheduler_status_pb2.SchedulerStatus, state: FrontendState) -> None:
    """Add what the check of waiting pods has found, or that there is none."""
    if state.wake_ups is None:
        out.wake_up_check.problem = "requires insight: set insight.endpoints"
        return
    out.wake_up_check.CopyFrom(state.wake_ups.status())
    out.missed_wake_ups.extend(state.wake_ups.history)


def _endpoints(state: FrontendState) -> Iterator[scheduler_status_pb2.EndpointStatus]:
    """The configured DNS names and Services: what each stands for, or why it cannot be looked up."""
    for phase, lookups in state.phases.lookups.items():
        for lookup in lookups.values():
            yield scheduler_status_pb2.EndpointStatus(
                phase=phase,
                endpoint=lookup.endpoint,
                addresses=lookup.addresses,
                listed=lookup.listed,
                last_error=lookup.error(),
            )


def _replicas(state: FrontendState) -> Iterator[scheduler_status_pb2.ReplicaStatus]:
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
                sent_bytes=link.sent_bytes,
                full_syncs=link.full_syncs,
                last_error=link.last_error,
                stands_in=link.address in own,
                self_check=link.self_check,
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
