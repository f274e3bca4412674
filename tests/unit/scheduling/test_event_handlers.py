"""What the consumer of the informers tells the queue of, beside the objects' own state."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.cluster_objects import KINDS
from tests.helpers.held_entries import held_entries
from tests.helpers.metric_values import counts, sums
from tests.helpers.queue_builders import record
from tests.helpers.virtual_time import Clock
from tests.helpers.watched_events import PROFILE, Watched
from trireme.cache import pod_projection
from trireme.framework import cluster_event
from trireme.frontend import scheduler_metrics
from trireme.scheduling import object_event_handlers, queue_notifier
from trireme.v1 import core_pb2, scheduling_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

Json = dict[str, Any]


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
    watched.watch.notifier.notify_of_assumed(watched.cache.assume_objects("u", [_assumed("d1")]))
    ((label, old, new),) = watched.take()
    assert (label, _devices(old), _devices(new)) == ("resource.k8s.io/ResourceClaimUpdate", [], ["d1"])
    watched.watch.notifier.notify_of_assumed(watched.cache.forget_objects("u"))
    ((label, old, new),) = watched.take()
    assert (label, _devices(old), _devices(new)) == ("resource.k8s.io/ResourceClaimUpdate", ["d1"], [])


def test_a_claims_update_is_compared_with_its_assumed_state() -> None:
    watched = Watched()
    watched.show("ResourceClaim", **_claim(1))
    watched.watch.notifier.notify_of_assumed(watched.cache.assume_objects("u", [_assumed("d1")]))
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
    watched.watch.notifier.notify_of_assumed(watched.cache.assume_objects("u", [to_be_made]))
    assert watched.take() == []
    watched.watch.notifier.notify_of_assumed(watched.cache.forget_objects("u"))
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
    devices = [{"name": "gpu-0"}, {"name": "gpu-9"}]
    watched.show("ResourceSlice", **{**SLICE, "spec": {**SLICE["spec"], "devices": devices}})
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


def _pod(name: str, scheduler: str = PROFILE, **fields: Any) -> pod_projection.ParsedPod:
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": name,
        "resourceVersion": "1",
        "labels": fields.pop("labels", {}),
    }
    return pod_projection.parse(
        {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [], **fields}, "status": {}}
    )


def test_a_pod_of_another_scheduler_is_known_until_it_is_placed_or_gone() -> None:
    watched = Watched()
    pods = watched.watch.pods
    pods.on_pods([Event(EventKind.ADDED, _pod(name, "other")) for name in ("a", "b")])
    assert [pods.other_scheduler_of(f"ns/{name}") for name in ("a", "b", "c")] == ["other", "other", ""]
    pods.on_pods([Event(EventKind.MODIFIED, _pod("a", "other", nodeName="n"))])
    pods.on_pods([Event(EventKind.DELETED, _pod("b", "other"))])
    assert [pods.other_scheduler_of(f"ns/{name}") for name in ("a", "b")] == ["", ""]


def test_pods_of_a_profile_that_is_gone_are_another_schedulers() -> None:
    watched = Watched()
    pods = watched.watch.pods
    pods.on_pods([Event(EventKind.ADDED, _pod("a"))])
    assert [pod.uid for pod in watched.queue.contents.waiting_pods()] == ["a"]
    pods.set_profiles(frozenset({"other"}))
    assert watched.queue.contents.waiting_pods() == []
    assert pods.other_scheduler_of("ns/a") == PROFILE
    pods.set_profiles(frozenset({"other", PROFILE}))
    assert pods.other_scheduler_of("ns/a") == PROFILE


def test_a_pod_that_a_new_list_leaves_out_is_gone() -> None:
    """Placed or pending, ours or not: its deletion came while nobody watched."""
    watched = Watched()
    pods = watched.watch.pods
    both = [("foreign", "other", ""), ("pending", PROFILE, ""), ("placed", PROFILE, "n"), ("stays", PROFILE, "n")]
    pods.on_pods([Event(EventKind.ADDED, _pod(name, scheduler, nodeName=node)) for name, scheduler, node in both])
    watched.take()
    listed = [
        Event(EventKind.LIST_START, None),
        Event(EventKind.LISTED, _pod("stays", nodeName="n")),
        Event(EventKind.LIST_END, None),
    ]
    pods.on_pods(listed)
    assert pods.other_scheduler_of("ns/foreign") == ""
    assert watched.queue.contents.waiting_pods() == []
    assert [pod.uid for pod in watched.cache.pods()] == ["stays"]
    assert [(label, old.uid) for label, old, _ in watched.take()] == [("AssignedPodDelete", "placed")]


def test_a_node_that_is_shown_again_unchanged_wakes_nobody() -> None:
    watched = Watched()
    node = decode.decode({"metadata": {"name": "n"}, "spec": {}}, core_pb2.Node)
    for kind, label in ((EventKind.ADDED, ["NodeAdd"]), (EventKind.LISTED, []), (EventKind.DELETED, ["NodeDelete"])):
        watched.watch.objects.on_nodes([Event(kind, node)])
        assert [each for each, _, _ in watched.take()] == label


def test_a_taint_rule_that_is_shown_again_unchanged_wakes_nobody() -> None:
    watched = Watched()
    watched.show("ResourceSlice", metadata={"name": "s"}, spec={"driver": "d", "devices": [{"name": "x"}]})
    watched.show("DeviceTaintRule", **_rule({"driver": "d"}, "NoExecute"))
    watched.take()
    rule = _rule({"driver": "d"}, "NoExecute")
    rule["metadata"] |= {"resourceVersion": "9", "labels": {"a": "b"}}
    watched.show("DeviceTaintRule", **rule)
    assert watched.take() == []


@pytest.mark.parametrize("change", ["add", "update", "delete", "event", "lost nomination"])
def test_what_a_change_asks_of_remote_plugins_is_done(change: str) -> None:
    """A pod whose remote hint is not called waits for five minutes."""
    executed: list[Any] = []
    instructions = ["call"]
    clock = Clock(1000.0)

    def answer(*_: object) -> list[str]:
        clock.now += 2.0
        return instructions

    answers = dict.fromkeys(("add", "update", "delete", "on_event"), answer)
    queue: Any = SimpleNamespace(**answers, needs_events=lambda: True)
    metrics = scheduler_metrics.SchedulerMetrics(clock=clock)
    notifier = queue_notifier.QueueNotifier(queue, lambda: 0.0, executed.append, metrics, None)
    pod, pending = record("p"), SimpleNamespace(parsed=SimpleNamespace(priority=0, uid="u"))
    call: dict[str, Any] = {
        "add": lambda: notifier.add(pod),
        "update": lambda: notifier.update(pod, (), None, None),
        "delete": lambda: notifier.delete("ns/p", "u", "gone"),
        "event": lambda: notifier.notify_of_event(cluster_event.NODE_ADD, None, None),
        "lost nomination": lambda: notifier.notify_of_lost_nomination(pending, None),
    }
    call[change]()
    assert executed == [instructions]
    assert [found for found in sums(metrics.instruments.event_seconds).values() if found[0]] == [(1, 2.0)]


def _node(**fields: Any) -> core_pb2.Node:
    return decode.decode({"metadata": {"name": "n"}, **fields}, core_pb2.Node)


def test_each_change_of_a_node_is_an_event_once() -> None:
    """A pod that waits for the node, for its label, or for its room is tried."""
    watched = Watched()
    labelled = {"metadata": {"name": "n", "labels": {"a": "b"}}}

    def show(node: core_pb2.Node, kind: EventKind = EventKind.MODIFIED) -> list[str]:
        watched.watch.objects.on_nodes([Event(kind, node)])
        return [label for label, _, _ in watched.take()]

    assert show(_node()) == ["NodeAdd"]
    assert show(_node()) == []
    assert show(_node(**labelled)) == ["NodeUpdateNodeLabel"]
    both = _node(metadata={"name": "n"}, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})
    assert sorted(show(both)) == ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"]
    assert show(both, EventKind.DELETED) == ["NodeDelete"]
    assert show(both, EventKind.DELETED) == []
    assert watched.cache.node_count == 0


def test_an_object_that_is_gone_is_an_event_and_is_not_there_any_more() -> None:
    watched = Watched()
    watched.show("ResourceSlice", **SLICE)
    watched.take()
    watched.show("ResourceSlice", EventKind.DELETED, **SLICE)
    ((label, before, after),) = watched.take()
    assert (label, before.metadata.name, after) == ("resource.k8s.io/ResourceSliceDelete", "s", None)
    assert not watched.cache.object_keys("resource_slice")
    watched.show("ResourceSlice", EventKind.DELETED, **SLICE)
    assert watched.take() == []


def test_an_objects_selector_tells_the_pods_apart_that_wait() -> None:
    """A budget that selects by a label protects none of the pods otherwise, or all of a class."""
    watched = Watched()
    pods = []
    for app in ("web", "db"):
        metadata = {"namespace": "ns", "name": app, "uid": app, "resourceVersion": "1", "labels": {"app": app}}
        pods.append(pod_projection.parse({"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": []}}))
    watched.watch.pods.on_pods([Event(EventKind.ADDED, pod) for pod in pods])
    classes = {pod.uid: pod.record.class_id for pod in watched.queue.contents.waiting_pods()}
    assert len(set(classes.values())) == 1
    budget = {"metadata": {"namespace": "ns", "name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    watched.show("PodDisruptionBudget", **budget)
    classes = {pod.uid: pod.record.class_id for pod in watched.queue.contents.waiting_pods()}
    assert len(set(classes.values())) == 2


@pytest.mark.parametrize("wanted", [True, False], ids=["someone waits", "nobody waits"])
def test_each_event_is_counted_once_whether_or_not_it_helps(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(watched.queue, "needs_events", lambda: wanted)

    def pod(version: int, node: str = "", **status: Any) -> Any:
        metadata = {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": str(version)}
        spec = {"schedulerName": PROFILE, "containers": [], "nodeName": node}
        return pod_projection.parse({"metadata": metadata, "spec": spec, "status": status})

    counted: dict[str, float] = {}

    def changes(kind: EventKind, shown: Any) -> dict[str, float]:
        nonlocal counted
        take = watched.watch.objects.on_nodes if isinstance(shown, core_pb2.Node) else watched.watch.pods.on_pods
        take([Event(kind, shown)])
        before, counted = counted, counts(watched.metrics.instruments.event_seconds)
        return {label: count - before.get(label, 0) for label, count in counted.items() if count != before.get(label)}

    assert changes(EventKind.ADDED, _node()) == {"NodeAdd": 1}
    assert changes(EventKind.ADDED, pod(1, nominatedNodeName="n")) == {"UnscheduledPodAdd": 1}
    assert changes(EventKind.MODIFIED, pod(2)) == {"UnscheduledPodUpdate": 1, "AssignedPodDelete": 1}
    assert changes(EventKind.MODIFIED, pod(3, "n")) == {"UnscheduledPodDelete": 1, "AssignedPodAdd": 1}
    assert changes(EventKind.MODIFIED, pod(4, "n")) == {"AssignedPodUpdate": 1}
    assert changes(EventKind.DELETED, pod(4, "n")) == {"AssignedPodDelete": 1}
    assert changes(EventKind.DELETED, _node()) == {"NodeDelete": 1}


def test_each_way_in_which_a_pending_pod_changes_is_counted() -> None:
    watched = Watched()
    watched.registry.add_selector_keys(["a"])
    for version, value in ((1, "b"), (2, "c")):
        metadata = {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": str(version), "labels": {"a": value}}
        shown = pod_projection.parse({"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": []}})
        watched.watch.pods.on_pods([Event(EventKind.MODIFIED, shown)])
    assert counts(watched.metrics.instruments.event_seconds) == {
        "UnscheduledPodAdd": 1,
        "UnscheduledPodUpdate": 1,
        "UnscheduledPodUpdatePodLabel": 1,
    }


@pytest.mark.parametrize("kind", ["PodGroup", "CompositePodGroup"])
def test_a_group_that_was_made_again_unseen_is_another_one(kind: str) -> None:
    """kubernetes/kubernetes#142950: pods that wait for another group of the name were woken by no event."""
    watched = Watched()
    shown = {"metadata": {"namespace": "ns", "name": "g", "uid": "one", "resourceVersion": "1"}}
    watched.show(kind, **shown)
    watched.take()
    shown["metadata"] |= {"uid": "other", "resourceVersion": "2"}
    watched.show(kind, **shown)
    (gone, before, after), (made, old, new) = watched.take()
    assert (gone, before.metadata.uid, after) == (f"scheduling.k8s.io/{kind}Delete", "one", None)
    assert (made, old, new.metadata.uid) == (f"scheduling.k8s.io/{kind}Add", None, "other")
    shown["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "3"}
    watched.show(kind, **shown)
    assert [label for label, _, _ in watched.take()] == [f"scheduling.k8s.io/{kind}Update"]


def test_without_groups_nobody_is_told_of_members() -> None:
    """A pod may name a group whatever the feature gates say."""
    watched = Watched()
    queue: Any = watched.queue
    executed: list[object] = []
    notifier = queue_notifier.QueueNotifier(queue, lambda: 0.0, executed.append, watched.metrics, None)
    notifier.member_placed("ns/g", "u")
    notifier.member_removed("u")
    notifier.set_group(scheduling_pb2.PodGroup())
    notifier.remove_group("ns/g", "u", composite=False)
    assert executed == []


def test_a_node_is_kept_with_the_json_that_extenders_want(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    kept: list[tuple[str, bytes]] = []
    set_node = watched.cache.set_node

    def note(node: core_pb2.Node, json: bytes = b"") -> Any:
        kept.append((node.metadata.name, json))
        return set_node(node, json)

    monkeypatch.setattr(watched.cache, "set_node", note)
    handlers = object_event_handlers.ObjectEventHandlers(
        watched.cache, watched.watch.notifier, lambda node: node.metadata.name.encode(), reclassify=lambda: None
    )
    handlers.on_nodes([Event(EventKind.ADDED, _node())])
    assert kept == [("n", b"n")]


def test_the_queue_is_told_of_no_event_that_helps_nobody() -> None:
    queue: Any = SimpleNamespace(needs_events=lambda: False)
    metrics = scheduler_metrics.SchedulerMetrics()
    notifier = queue_notifier.QueueNotifier(queue, lambda: 0.0, lambda _: None, metrics, None)
    notifier.notify_of_event(cluster_event.NODE_ADD, None, None)
    assert counts(metrics.instruments.event_seconds) == {"NodeAdd": 1}


@pytest.mark.parametrize("kind", ["Node", "ResourceSlice"])
def test_of_a_list_that_is_started_over_what_is_missing_is_gone_and_nothing_else(kind: str) -> None:
    watched = Watched()

    def show(change: EventKind, name: str = "") -> None:
        fields: Json = {"metadata": {"name": name}, "spec": {}}
        if kind == "Node":
            watched.watch.objects.on_nodes([Event(change, decode.decode(fields, core_pb2.Node) if name else None)])
            return
        entry = decode.decode(fields, KINDS[kind].message) if name else None
        watched.watch.objects.on_objects(KINDS[kind], [Event(change, entry)])

    for name in ("a", "b", "c"):
        show(EventKind.ADDED, name)
    show(EventKind.LIST_START)
    show(EventKind.LISTED, "a")
    show(EventKind.LISTED, "b")
    watched.take()
    show(EventKind.LIST_END)
    assert [(label.endswith("Delete"), old.metadata.name) for label, old, _ in watched.take()] == [(True, "c")]


def test_a_weaker_taint_rule_is_an_event_of_each_of_its_slices() -> None:
    watched = Watched()
    for name in ("s1", "s2"):
        watched.show("ResourceSlice", **{**SLICE, "metadata": {"name": name}})
    watched.show("DeviceTaintRule", **_rule({}))
    watched.take()
    watched.show("DeviceTaintRule", EventKind.DELETED, **_rule({}))
    assert [old.metadata.name for _, old, _ in watched.take()] == ["s1", "s2"]


def test_all_pods_of_a_profile_that_is_gone_are_dropped() -> None:
    watched = Watched()
    watched.watch.pods.on_pods([Event(EventKind.ADDED, _pod(name)) for name in ("a", "b")])
    watched.watch.pods.set_profiles(frozenset({"more"}))
    assert watched.deleted == ["a", "b"]


def test_a_claim_that_is_assumed_beside_a_volume_is_an_event() -> None:
    watched = Watched()
    volume = snapshot_pb2.ClusterObject()
    volume.persistent_volume.metadata.name = "v"
    watched.watch.notifier.notify_of_assumed([(volume, volume), (_assumed(), _assumed("d1"))])
    assert [label for label, _, _ in watched.take()] == ["resource.k8s.io/ResourceClaimUpdate"]


def test_an_object_that_was_made_again_unseen_has_changed() -> None:
    """Only a group is another one then: its members count anew."""
    watched = Watched()
    for uid in ("1", "2"):
        watched.show("ResourceSlice", **{**SLICE, "metadata": {"name": "s", "uid": uid, "resourceVersion": uid}})
    labels = ["resource.k8s.io/ResourceSliceAdd", "resource.k8s.io/ResourceSliceUpdate"]
    assert [label for label, _, _ in watched.take()] == labels
    assert watched.group_calls == []


def test_nothing_is_kept_of_objects_that_come_outside_of_a_list() -> None:
    watched = Watched()
    watched.show("ResourceSlice", **SLICE)
    watched.watch.objects.on_nodes([Event(EventKind.ADDED, _node())])
    assert not +held_entries(watched.watch.objects._relists)


def test_of_several_objects_that_are_gone_at_once_each_is_an_event() -> None:
    watched = Watched()
    kind = KINDS["ResourceSlice"]
    entries = [decode.decode({**SLICE, "metadata": {"name": name}}, kind.message) for name in ("s1", "s2")]
    watched.watch.objects.on_objects(kind, [Event(EventKind.ADDED, entry) for entry in entries])
    watched.take()
    watched.watch.objects.on_objects(kind, [Event(EventKind.DELETED, entry) for entry in entries])
    assert [old.metadata.name for _, old, _ in watched.take()] == ["s1", "s2"]


def test_a_volume_claim_that_is_shown_as_it_was_assumed_is_an_event() -> None:
    """The queue hears of the scheduler's own changes of claims for devices alone, when they are assumed."""
    watched = Watched()

    def claim(version: int, volume: str = "") -> Json:
        metadata = {"namespace": "ns", "name": "c", "uid": "c", "resourceVersion": str(version)}
        return {"metadata": metadata, "spec": {"volumeName": volume}}

    watched.show("PersistentVolumeClaim", **claim(1))
    assumed = snapshot_pb2.ClusterObject()
    assumed.persistent_volume_claim.CopyFrom(decode.decode(claim(1, "v"), KINDS["PersistentVolumeClaim"].message))
    watched.watch.notifier.notify_of_assumed(watched.cache.assume_objects("u", [assumed]))
    watched.take()
    watched.show("PersistentVolumeClaim", **claim(2, "v"))
    assert [label for label, _, _ in watched.take()] == ["PersistentVolumeClaimUpdate"]


def test_a_group_that_is_shown_again_unchanged_is_not_set_again() -> None:
    watched = Watched()
    for _ in range(2):
        watched.show("PodGroup", metadata={"namespace": "ns", "name": "g", "uid": "u"})
    assert [name for name, *_ in watched.group_calls] == ["set_group"]


def test_a_disruption_budget_that_changes_wakes_nobody() -> None:
    """It says who may be evicted, not where there is room."""
    watched = Watched()
    for app in ("web", "db"):
        spec = {"selector": {"matchLabels": {"app": app}}}
        watched.show("PodDisruptionBudget", metadata={"namespace": "ns", "name": "b"}, spec=spec)
    assert watched.take() == []


def test_an_older_version_of_an_object_changes_nothing() -> None:
    watched = Watched()
    for version, driver in ((2, "new"), (1, "old")):
        metadata = {"name": "s", "uid": "u", "resourceVersion": str(version)}
        watched.show("ResourceSlice", metadata=metadata, spec={"driver": driver})
    assert [label for label, _, _ in watched.take()] == ["resource.k8s.io/ResourceSliceAdd"]
    kept = watched.cache.get_object("resource_slice", "", "s")
    assert kept is not None
    assert kept.resource_slice.spec.driver == "new"
