"""What the frontend sends insight of itself, from a frontend's records."""

import dataclasses
from types import SimpleNamespace
from typing import Any

from tests.contract import serving_frontend
from tests.helpers import console_states
from trireme.frontend.phase_clients import bind_link, insight_replicas, replica_link
from trireme.frontend.serving import insight_status_feed
from trireme.queueing import queued_pod
from trireme.scheduling import preemption_history
from trireme.v1 import bind_pb2, scheduler_status_pb2

_PLUGIN = scheduler_status_pb2.PluginStatus(
    name="quota",
    address="127.0.0.1:9000",
    version="1.2",
    health="failing",
    problem="it refuses connections",
    failure_policy="Ignore",
    breaker="open",
    calls=7,
    failed_calls=5,
)


def frontend() -> serving_frontend.FakeFrontend:
    """A leader with a replica of filter and of bind, a plugin, and a pod that waits."""
    fake: Any = serving_frontend.FakeFrontend()
    fake.preemptions.history = preemption_history.PreemptionHistory(lambda: 5.0)
    fake.filters.links = [replica_link.LinkStatistics("10.0.0.1:7001", True, 0, 12, 34, 2, "", 0)]
    fake.binders.links = [bind_link.BindLinkStatistics("10.0.0.2:7003", False, 3, "unreachable")]
    fake.plugins = lambda: [_PLUGIN]
    return fake


def feed_of(fake: Any) -> tuple[insight_status_feed.InsightStatusFeed, Any]:
    """The feed of a frontend, and the replicas that it sends to."""
    replicas: Any = SimpleNamespace(streams=1)
    return insight_status_feed.InsightStatusFeed(replicas, fake.parts()), replicas


def _evict(fake: Any, name: str) -> None:
    """Remember a preemption."""
    victim = bind_pb2.Action(evict=bind_pb2.Evict(node_name="n1"))
    victim.pod.namespace, victim.pod.name = "default", name
    pod: queued_pod.QueuedPodInfo = fake.queue.contents.get("default/waiting")
    fake.preemptions.history.add(pod, "n1", [victim])


def test_counts_latencies_replicas_and_plugins_are_those_of_the_frontend() -> None:
    """The console would show another scheduler than the one that runs."""
    fake = frontend()
    pod = fake.wait(serving_frontend.pod("waiting"))
    pod.popped_at, pod.initial_attempt_timestamp, pod.attempts = 10.0, 9.0, 1
    fake.metrics.on_pod_bound(pod, 10.25)
    fake.metrics.on_attempt_failed(pod, "unschedulable", "", 11.0)
    feed, _ = feed_of(fake)
    status = scheduler_status_pb2.SchedulerStatus.FromString(feed.take_status().SerializeToString())
    assert (status.leader, status.lease) == ("me", "kube-system/kube-scheduler")
    assert (status.bound_total, status.unschedulable_total, status.error_total) == (1, 1, 0)
    assert status.queue.active == 1
    (bound,) = [
        bound
        for bound, count in zip(status.attempt_latency.bounds_s, status.attempt_latency.counts, strict=False)
        if count
    ]
    assert bound / 2 < 0.25 <= bound
    assert sum(status.attempt_latency.counts) == sum(status.pod_latency.counts) == 1
    assert [(each.phase, each.address, each.in_step, each.full_syncs) for each in status.replicas] == [
        ("filter", "10.0.0.1:7001", True, 2),
        ("bind", "10.0.0.2:7003", False, 0),
    ]
    assert (status.replicas[1].calls_in_flight, status.replicas[1].last_error) == (3, "unreachable")
    (plugin,) = status.plugins
    assert (plugin.name, plugin.breaker, plugin.failed_calls, plugin.HasField("p99_s")) == ("quota", "open", 5, False)


def test_preemptions_are_sent_once_and_again_on_a_new_stream() -> None:
    """A replica would show each of them every second, or after its restart none."""
    fake: Any = frontend()
    fake.wait(serving_frontend.pod("waiting"))
    feed, replicas = feed_of(fake)
    _evict(fake, "victim-0")
    (first,) = feed.take_status().preemptions
    assert (first.preemptor.namespace, first.preemptor.name, first.at_ms) == ("default", "waiting", 5000)
    assert [victim.pod.name for victim in first.victims] == ["victim-0"]
    assert not feed.take_status().preemptions
    _evict(fake, "victim-1")
    assert [each.number for each in feed.take_status().preemptions] == [2]
    replicas.streams += 1
    assert [each.number for each in feed.take_status().preemptions] == [1, 2]


def test_missed_wake_ups_are_sent_once_and_again_on_a_new_stream() -> None:
    """If this fails, a recording lacks them, or has each of them every second."""
    fake: Any = frontend()
    history = [console_states.missed_wake_up(1)]
    replicas: Any = SimpleNamespace(streams=1)
    state = dataclasses.replace(fake.parts(), wake_ups=SimpleNamespace(history=history))
    feed = insight_status_feed.InsightStatusFeed(replicas, state)
    assert list(feed.take_status().missed_wake_ups) == history
    assert not feed.take_status().missed_wake_ups
    history.append(console_states.missed_wake_up(2))
    assert [each.number for each in feed.take_status().missed_wake_ups] == [2]
    replicas.streams += 1
    assert [each.number for each in feed.take_status().missed_wake_ups] == [1, 2]


def test_the_state_travels_as_a_change_of_the_queue() -> None:
    """A replica that is older than the field would not acknowledge it, and its stream be opened again and again."""
    sent: list[Any] = []
    replicas = SimpleNamespace(publish=lambda request, generation: sent.append((request, generation)))
    insight: Any = SimpleNamespace(replicas=replicas)
    insight.publish_queue = lambda delta, generation: insight_replicas.InsightReplicas.publish_queue(
        insight, delta, generation
    )
    status = scheduler_status_pb2.SchedulerStatus(at_ms=5)
    insight_replicas.InsightReplicas.publish_status(insight, status, 9)
    ((request, generation),) = sent
    from_wire = insight_replicas.snapshot_pb2.SyncRequest.FromString(request)
    assert (from_wire.WhichOneof("message"), from_wire.queue.scheduler_status.at_ms, generation) == ("queue", 5, 9)
