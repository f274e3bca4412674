"""What the consumer of the informers tells the queue of, beside what objects say of themselves."""

from typing import Any

import pytest

from tests.helpers.cluster_objects import KINDS
from tests.helpers.queue_builders import exact
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.framework.cluster_event import ClusterEvent
from trireme.frontend import scheduler_metrics
from trireme.queueing.assembly import build_queue
from trireme.queueing.hints import hint_evaluation, queueing_hint_map
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.scheduling import event_handlers
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

PROFILE = "default-scheduler"
Json = dict[str, Any]


class RecordingQueue:
    """A queue that wants every event, and writes down which it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any, Any]] = []
        hints = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap({PROFILE: ()}))
        self._queue = build_queue(hints, lambda pod: PreEnqueueResult.ALLOWED, policy=exact())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def needs_events(self) -> bool:
        return True

    def on_event(self, event: ClusterEvent, old: Any, new: Any, now: float, *more: Any) -> Any:
        self.events.append((event.label, old, new))
        return self._queue.on_event(event, old, new, now, *more)


class Watched:
    """A watch over an empty cluster."""

    def __init__(self) -> None:
        self.metrics = scheduler_metrics.SchedulerMetrics()
        self.cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
        self.queue = RecordingQueue()
        self.watch = event_handlers.EventHandlers(
            self.cache,
            self.queue,
            frozenset({PROFILE}),
            now=lambda: 0.0,
            execute=lambda _: None,
            deleted=lambda _: None,
            bound=lambda _: None,
            observer=self.metrics,
        )

    def show_pod(self, version: int, **status: Any) -> None:
        """The pending pod p is so."""
        metadata = {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": str(version)}
        raw = {"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": []}, "status": status}
        self.watch.on_pods([Event(EventKind.MODIFIED, pod_projection.parse(raw))])

    def show(self, kind: str, change: EventKind = EventKind.MODIFIED, **fields: Any) -> None:
        """The object changed so."""
        message = decode.decode(fields, KINDS[kind].message)
        self.watch.on_objects(KINDS[kind], [Event(change, message)])

    def take(self) -> list[tuple[str, Any, Any]]:
        """The events since the last time."""
        events, self.queue.events = self.queue.events, []
        return events


@pytest.mark.parametrize("then", ["", "n2"], ids=["cleared", "moved"])
def test_the_event_of_an_ended_nomination_has_its_node(then: str) -> None:
    watched = Watched()
    watched.show_pod(1, nominatedNodeName="n1")
    assert watched.take() == []
    watched.show_pod(2, nominatedNodeName=then)
    ((label, old, new),) = watched.take()
    assert (label, old.nominated_node, new) == ("AssignedPodDelete", "n1", None)


def _claim(version: int, *devices: str) -> Json:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": name} for name in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    metadata = {"namespace": "ns", "name": "c", "uid": "c", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": status}


def _devices(claim: Any) -> list[str]:
    return [result.device for result in claim.status.allocation.devices.results]


def _assumed(*devices: str) -> snapshot_pb2.ClusterObject:
    message = decode.decode(_claim(1, *devices), KINDS["ResourceClaim"].message)
    entry = snapshot_pb2.ClusterObject()
    entry.resource_claim.CopyFrom(message)
    return entry


def test_assuming_and_restoring_an_allocation_are_events() -> None:
    watched = Watched()
    watched.show("ResourceClaim", **_claim(1))
    watched.take()
    watched.watch.on_assumed(watched.cache.assume_objects("u", [_assumed("d1")]))
    ((label, old, new),) = watched.take()
    assert (label, _devices(old), _devices(new)) == ("resource.k8s.io/ResourceClaimUpdate", [], ["d1"])
    watched.watch.on_assumed(watched.cache.forget_objects("u"))
    ((label, old, new),) = watched.take()
    assert (label, _devices(old), _devices(new)) == ("resource.k8s.io/ResourceClaimUpdate", ["d1"], [])


def test_a_claims_update_is_compared_with_its_assumed_state() -> None:
    watched = Watched()
    watched.show("ResourceClaim", **_claim(1))
    watched.watch.on_assumed(watched.cache.assume_objects("u", [_assumed("d1")]))
    watched.take()
    watched.show("ResourceClaim", **_claim(2))
    assert watched.take() == []
    watched.show("ResourceClaim", **_claim(3, "d2"))
    ((_, old, new),) = watched.take()
    assert (_devices(old), _devices(new)) == (["d1"], ["d2"])


def test_giving_up_an_assumed_claim_is_an_event() -> None:
    watched = Watched()
    to_be_made = _assumed("d1")
    to_be_made.resource_claim.metadata.resource_version = ""
    watched.watch.on_assumed(watched.cache.assume_objects("u", [to_be_made]))
    assert watched.take() == []
    watched.watch.on_assumed(watched.cache.forget_objects("u"))
    ((label, old, new),) = watched.take()
    assert (label, _devices(old), new) == ("resource.k8s.io/ResourceClaimDelete", ["d1"], None)


SLICE: Json = {
    "metadata": {"name": "s"},
    "spec": {"driver": "gpu.example.com", "pool": {"name": "n1"}, "devices": [{"name": "gpu-0"}]},
}


def _rule(selector: Json | None, effect: str = "NoSchedule") -> Json:
    taint = {"key": "k", "effect": effect}
    return {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}}


@pytest.mark.parametrize(
    ("selector", "helps"),
    [
        pytest.param({"driver": "gpu.example.com"}, True, id="driver"),
        pytest.param({"driver": "other"}, False, id="other-driver"),
        pytest.param({"pool": "n1", "device": "gpu-0"}, True, id="device"),
        pytest.param({"pool": "n2"}, False, id="other-pool"),
        pytest.param({"device": "gpu-1"}, False, id="other-device"),
        pytest.param({}, True, id="all"),
        pytest.param(None, False, id="none"),
    ],
)
def test_a_weaker_taint_rule_is_an_event_of_its_slices(selector: Json | None, helps: bool) -> None:
    watched = Watched()
    watched.show("ResourceSlice", **SLICE)
    watched.take()
    watched.show("DeviceTaintRule", **_rule(selector))
    assert watched.take() == []
    expected = ["resource.k8s.io/ResourceSliceUpdate"] if helps else []
    watched.show("DeviceTaintRule", **_rule(selector, "NoExecute"))
    assert [label for label, _, _ in watched.take()] == expected
    watched.show("DeviceTaintRule", EventKind.DELETED, **_rule(selector, "NoExecute"))
    assert [label for label, _, _ in watched.take()] == expected


def test_each_change_is_timed_by_what_it_was() -> None:
    watched = Watched()
    watched.show_pod(1)
    watched.show_pod(2, nominatedNodeName="n1")
    watched.show("ResourceClaim", **_claim(1))
    samples = watched.metrics.instruments.event_seconds.family().samples
    counts = {sample.labels["event"]: sample.value for sample in samples if sample.name.endswith("_count")}
    assert counts == {"UnscheduledPodAdd": 1, "UnscheduledPodUpdate": 1, "resource.k8s.io/ResourceClaimAdd": 1}
