"""Pods come, change, run and go: the queue has exactly those that wait, and what a pod held is given back."""

from typing import Any

import pytest

from tests.helpers.cluster_objects import KINDS
from tests.helpers.watched_events import PROFILE, Watched
from trireme.cache import event_log, pod_projection
from trireme.framework import cluster_event, sort_key
from trireme.queueing import pending_pod
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

Json = dict[str, Any]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def _pod(name: str = "p", version: int = 1, node: str = "", *, labels: Json | None = None, **more: Any) -> Any:
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version), "labels": labels or {}}
    conditions, nominated = more.pop("conditions", ()), more.pop("nominated", "")
    spec = {"schedulerName": PROFILE, "containers": [], "nodeName": node, **more}
    status = {"conditions": list(conditions), "nominatedNodeName": nominated}
    return pod_projection.parse({"metadata": metadata, "spec": spec, "status": status})


def _show(watched: Watched, *pods: Any, kind: EventKind = EventKind.MODIFIED) -> None:
    watched.watch.pods.on_pods([Event(kind, pod) for pod in pods])


def _waiting(watched: Watched) -> list[str]:
    return sorted(pod.uid for pod in watched.queue.contents.waiting_pods())


def test_a_pod_that_got_a_node_waits_no_more() -> None:
    watched = Watched()
    _show(watched, _pod("p", labels={"a": "b"}), _pod("q"))
    _show(watched, _pod("p", 2, "n", labels={"a": "b"}))
    assert _waiting(watched) == ["q"]
    assert (watched.bound, watched.deleted) == (["p"], [])
    assert [label for label, _, _ in watched.take()] == ["AssignedPodAdd"]


def test_no_class_outlives_its_pods() -> None:
    """Classes that nobody has any more would fill the memory of every replica."""
    watched = Watched()
    requests = [{"name": "c", "resources": {"requests": {"cpu": f"{number}m"}}} for number in range(1, 6)]
    _show(watched, *(_pod(f"p{number}", containers=[each]) for number, each in enumerate(requests)))
    assert len(watched.registry) == 5
    _show(watched, _pod("p0", 2, containers=[requests[4]]))  # it waits, and changes
    assert len(watched.registry) == 4
    _show(watched, _pod("p1", 2, "n", containers=[requests[4]]))  # it runs
    _show(watched, _pod("p2", containers=[requests[2]]), kind=EventKind.DELETED)
    assert len(watched.registry) == 2
    for number in range(5):
        _show(watched, _pod(f"p{number}"), kind=EventKind.DELETED)
    assert len(watched.registry) == 0
    assert _waiting(watched) == []
    assert watched.deleted == ["p2", "p0", "p3", "p4"]


def test_an_older_version_changes_nothing() -> None:
    watched = Watched()
    _show(watched, _pod("p", 3, nominated="n"), _pod("q", 3, "n"))
    watched.take()
    _show(watched, _pod("p", 2), _pod("q", 2, "m"))
    assert watched.take() == []
    assert [pod.node_name for pod in watched.cache.pods()] == ["n"]
    _show(watched, _pod("q", 2))
    assert _waiting(watched) == ["p"], "a pod that has a node keeps it"


@pytest.mark.parametrize(
    ("then", "kind"),
    [
        (_pod(version=2), EventKind.MODIFIED),
        (_pod(version=2, nominated="m"), EventKind.MODIFIED),
        (_pod(), EventKind.DELETED),
    ],
    ids=["cleared", "moved", "deleted"],
)
def test_the_room_that_a_nomination_kept_is_free_when_it_ends(then: Any, kind: EventKind) -> None:
    watched = Watched()
    _show(watched, _pod(nominated="n"))
    _show(watched, _pod(nominated="n", version=1))
    assert watched.take() == []
    _show(watched, then, kind=kind)
    assert [(label, old.nominated_node) for label, old, _ in watched.take()] == [("AssignedPodDelete", "n")]


def test_a_nomination_that_stays_frees_nothing() -> None:
    watched = Watched()
    _show(watched, _pod(nominated="n"), _pod(nominated="n", version=2, labels={"a": "b"}))
    assert "AssignedPodDelete" not in [label for label, _, _ in watched.take()]


def test_a_pod_that_is_placed_counts_for_its_group_until_it_is_gone() -> None:
    watched = Watched()
    group = {"schedulingGroup": {"podGroupName": "g"}}
    _show(watched, _pod("p", 1, "n", **group))
    assert watched.group_calls == [("member_placed", "ns/g", "p")]
    _show(watched, _pod("p", 1, "n", **group), kind=EventKind.DELETED)
    assert watched.group_calls[1:] == [("member_removed", "p")]


def test_groups_are_shown_to_the_queue() -> None:
    watched = Watched()
    fields = {"metadata": {"namespace": "ns", "name": "g", "uid": "u"}}
    for change in (EventKind.ADDED, EventKind.DELETED):
        watched.show("PodGroup", change, **fields)
    group = decode.decode(fields, KINDS["PodGroup"].message)
    assert watched.group_calls == [("set_group", group), ("remove_group", "ns/g", "u", False)]


def test_a_running_pod_waits_while_its_resize_is_deferred() -> None:
    watched = Watched()
    _show(watched, _pod("p", 1, "n"), _pod("q", 1, "n", conditions=DEFERRED))
    assert _waiting(watched) == ["q"]
    _show(watched, _pod("p", 2, "n", conditions=DEFERRED))
    assert _waiting(watched) == ["p", "q"]
    _show(watched, _pod("p", 3, "n"))
    assert _waiting(watched) == ["q"]
    _show(watched, _pod("q", 1, "n"), kind=EventKind.DELETED)
    assert _waiting(watched) == []
    assert watched.deleted == ["p", "q"]
    _show(watched, _pod("p", 3, "n"), kind=EventKind.DELETED)
    assert len(watched.registry) == 0


def test_a_deferred_resize_is_nobodys_when_its_profile_is_gone() -> None:
    watched = Watched()
    _show(watched, _pod("q", 1, "n", conditions=DEFERRED))
    watched.watch.pods.set_profiles(frozenset({PROFILE, "more"}))
    assert _waiting(watched) == ["q"]
    watched.watch.pods.set_profiles(frozenset({"more"}))
    assert _waiting(watched) == []
    _show(watched, _pod("q", 2, "n", conditions=DEFERRED))
    assert _waiting(watched) == []
    assert [pod.uid for pod in watched.cache.pods()] == ["q"], "it runs all the same"


def test_pods_are_told_apart_by_labels_once_something_selects_by_them() -> None:
    """Pending, running or with a deferred resize: otherwise a selector matches all pods of a class or none."""
    watched = Watched()
    names = {"web": {"app": "web"}, "db": {"app": "db"}}
    _show(watched, *(_pod(name, labels=labels) for name, labels in names.items()))
    _show(watched, *(_pod(f"runs-{name}", 1, "n", labels=labels) for name, labels in names.items()))
    for name, labels in names.items():
        _show(watched, _pod(f"resize-{name}", 1, "n", labels=labels, conditions=DEFERRED))
    before = _classes(watched)
    assert before["web"] == before["db"]
    watched.registry.add_selector_keys(["app"])
    _show(watched, _pod("new", labels={"other": "x"}))
    after = _classes(watched)
    for prefix in ("", "runs-", "resize-"):
        assert after[f"{prefix}web"] != after[f"{prefix}db"]
    assert after["web"] != before["web"]
    for name in after:
        _show(watched, _pod(name), kind=EventKind.DELETED)
    assert len(watched.registry) == 0


def _classes(watched: Watched) -> dict[str, int]:
    classes = {pod.uid: pod.class_id for pod in watched.cache.pods()}
    return classes | {pod.uid: pod.record.class_id for pod in watched.queue.contents.waiting_pods()}


def test_a_pod_whose_labels_change_is_found_by_the_new_ones() -> None:
    watched = Watched()
    _show(watched, _pod("p", 1, labels={"old": "x"}), _pod("p", 2, labels={"new": "x"}))
    before = _classes(watched)["p"]
    watched.registry.add_selector_keys(["old"])
    watched.watch.pods.reclassify()
    assert _classes(watched)["p"] == before
    watched.registry.add_selector_keys(["new"])
    watched.watch.pods.reclassify()
    assert _classes(watched)["p"] != before


@pytest.mark.parametrize("ends", ["bound", "deleted", "another profile's", "no longer resized", "changed and deleted"])
def test_a_pod_that_waits_no_more_is_found_by_no_label(ends: str) -> None:
    """A selector that is new would be looked for in a pod that nobody knows any more."""
    watched = Watched()
    labels = {"app": "web"}
    if ends == "no longer resized":
        _show(watched, _pod("p", 1, "n", labels=labels, conditions=DEFERRED), _pod("p", 2, "n", labels=labels))
    else:
        _show(watched, _pod("p", labels=labels))
    if ends == "bound":
        _show(watched, _pod("p", 2, "n", labels=labels))
    elif ends == "deleted":
        _show(watched, _pod("p", labels=labels), kind=EventKind.DELETED)
    elif ends == "another profile's":
        watched.watch.pods.set_profiles(frozenset({"more"}))
    elif ends == "changed and deleted":
        _show(watched, _pod("p", 2, labels={"other": "x"}))
        _show(watched, _pod("p", 2), kind=EventKind.DELETED)
    watched.registry.add_selector_keys(["app", "other"])
    watched.watch.pods.reclassify()
    assert _waiting(watched) == []


def test_a_pod_of_which_more_is_read_changes_its_class_in_the_queue_too() -> None:
    """After a reload pods are listed again, and their versions are the same."""
    watched = Watched()
    raw = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "p", "resourceVersion": "1", "labels": {"app": "web"}},
        "spec": {"schedulerName": PROFILE, "containers": [], "restartPolicy": "Never"},
        "status": {},
    }
    _show(watched, pod_projection.parse(raw))
    before = _classes(watched)["p"]
    _show(watched, pod_projection.parse(raw), kind=EventKind.LISTED)
    assert _classes(watched)["p"] == before
    _show(watched, pod_projection.parse(raw, frozenset({"spec.restartPolicy"})), kind=EventKind.LISTED)
    assert _classes(watched)["p"] != before
    assert len(watched.registry) == 1
    watched.registry.add_selector_keys(["app"])
    watched.watch.pods.reclassify()
    _show(watched, pod_projection.parse(raw), kind=EventKind.DELETED)
    assert len(watched.registry) == 0


_INVALID = [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]


@pytest.mark.parametrize(
    ("now", "again"),
    [
        (_pod(), 0),
        (_pod(labels={"app": "web"}), 1),
        (_pod(containers=_INVALID), 0),
    ],
    ids=["the same class", "another class", "invalid"],
)
def test_a_pod_that_is_listed_again_unchanged_keeps_its_class_unless_it_has_another(now: Any, again: int) -> None:
    """In the queue it would go behind the pods that came after it."""
    watched = Watched()
    watched.registry.use_all_labels()
    _show(watched, _pod())
    told: list[Any] = []
    watched.watch.notifier.reclassify = lambda *about: told.append(about)  # type: ignore[method-assign]
    _show(watched, now, kind=EventKind.LISTED)
    assert len(told) == again
    assert len(watched.registry) == 1
    _show(watched, now, kind=EventKind.DELETED)
    assert len(watched.registry) == 0


def test_an_invalid_pod_that_is_listed_again_has_no_class_to_give_back() -> None:
    watched = Watched()
    watched.registry.use_all_labels()
    for _ in range(2):
        _show(watched, _pod(containers=_INVALID), kind=EventKind.LISTED)
    _show(watched, _pod(), kind=EventKind.LISTED)
    assert len(watched.registry) == 0
    assert _waiting(watched) == ["p"]


def test_a_pod_that_is_gone_gives_back_the_claims_that_were_assumed_for_it() -> None:
    """Nothing else would: it was never seen bound, and its devices would stay taken."""
    watched = Watched()
    claim = {"metadata": {"namespace": "ns", "name": "c", "uid": "c", "resourceVersion": "1"}, "spec": {}}
    watched.show("ResourceClaim", **claim)
    assumed = snapshot_pb2.ClusterObject()
    assumed.resource_claim.CopyFrom(decode.decode(claim, KINDS["ResourceClaim"].message))
    assumed.resource_claim.status.allocation.devices.results.add(driver="d", pool="p", device="d1")
    _show(watched, _pod("p", 1, "n"))
    watched.watch.notifier.notify_of_assumed(watched.cache.assume_objects("p", [assumed]))
    watched.take()
    _show(watched, _pod("p", 1, "n"), kind=EventKind.DELETED)
    label, before, after = watched.take()[0]
    assert label == "resource.k8s.io/ResourceClaimUpdate"
    assert (len(before.status.allocation.devices.results), len(after.status.allocation.devices.results)) == (1, 0)


@pytest.mark.parametrize("resized", [True, False], ids=["a deferred resize", "a pending pod"])
def test_a_pod_that_changes_keeps_its_place_in_the_queue(resized: bool) -> None:
    """Until the plugin that orders the queue has given it another key."""
    watched = Watched()
    more: Json = {"node": "n", "conditions": DEFERRED} if resized else {}
    _show(watched, _pod("p", 1, **more))
    (before,) = watched.queue.contents.waiting_pods()
    pending = before.record.pod
    key = pending.given_sort_key = pending_pod.GivenSortKey(sort_key.SortKey((7,)), pending.class_id, 1)
    _show(watched, _pod("p", 2, labels={"a": "b"}, **more))
    (after,) = watched.queue.contents.waiting_pods()
    assert after.record.pod is not pending
    assert after.record.pod.given_sort_key == key


def test_a_deferred_resize_that_changes_gives_back_its_class() -> None:
    watched = Watched()
    for version in (1, 2, 3):
        requests = [{"name": "c", "resources": {"requests": {"cpu": f"{version}m"}}}]
        _show(watched, _pod("p", version, "n", conditions=DEFERRED, containers=requests))
        assert len(watched.registry) == 2, "that of the running pod, and that of its resize"
    _show(watched, _pod("p", 4, "n"))
    assert len(watched.registry) == 1


def test_a_pod_that_is_listed_again_unchanged_has_another_class_once_all_labels_are_read() -> None:
    watched = Watched()
    pods = [_pod(name, labels={"app": name}) for name in ("web", "db")]
    _show(watched, *pods)
    watched.registry.use_all_labels()
    _show(watched, *pods, kind=EventKind.LISTED)
    assert len(set(_classes(watched).values())) == 2


@pytest.mark.parametrize(
    ("pod", "alone"),
    [
        (_pod(), False),
        (_pod(containers=_INVALID), True),
        (_pod()._replace(flags=pod_projection.TERMINATING), True),
    ],
    ids=["valid", "invalid", "terminating"],
)
def test_a_pod_that_is_not_tried_as_others_of_its_class_is_alone_in_its_batch(pod: Any, alone: bool) -> None:
    watched = Watched()
    _show(watched, pod)
    (found,) = watched.queue.contents.waiting_pods()
    assert found.record.exclusive is alone


def test_the_version_of_a_pod_is_that_at_which_it_was_last_seen() -> None:
    watched = Watched()
    _show(watched, _pod("waits", 3), _pod("runs", 4, "n"))
    (runs,) = watched.cache.pods()
    watched.cache.assume("ns/new", "new", "n", watched.pending.by_uid["waits"].base, (), runs.class_id)
    versions = [watched.pending.version_of(uid) for uid in ("waits", "runs", "new", "unknown")]
    assert versions == ["3", "4", "", ""], "no watch has shown the one that is assumed alone"


def test_a_deferred_resize_that_cannot_be_read_has_no_class_to_give_back() -> None:
    watched = Watched()
    _show(watched, _pod("p", 1, "n", conditions=DEFERRED, containers=_INVALID))
    assert _waiting(watched) == ["p"]
    _show(watched, _pod("p", 2, "n", conditions=DEFERRED, containers=_INVALID))
    _show(watched, _pod("p", 3, "n", containers=_INVALID))
    assert _waiting(watched) == []
    assert len(watched.registry) == 1, "that of the running pod, which counts as one without requests"


@pytest.mark.parametrize("logged", [True, False])
def test_each_event_of_a_pod_is_logged_where_that_is_wanted(logged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In kube-scheduler's words, for those who look for them; the marks of a list are no pods."""
    told: list[str] = []
    monkeypatch.setattr(event_log, "logs_each_event", lambda: logged)
    monkeypatch.setattr(event_log, "pod_changed", lambda key, *_: told.append(key))
    watched = Watched()
    watched.watch.pods.on_pods(
        [Event(EventKind.LIST_START, None), Event(EventKind.LISTED, _pod()), Event(EventKind.LIST_END, None)]
    )
    assert told == (["ns/p"] if logged else [])


def test_a_running_pod_that_changes_is_an_event_where_a_plugin_reads_what_changed() -> None:
    watched = Watched()
    watched.registry.use_all_labels()
    _show(watched, _pod("p", 1, "n", labels={"app": "web"}))
    watched.take()
    _show(watched, _pod("p", 2, "n", labels={"app": "web"}))
    assert watched.take() == []
    _show(watched, _pod("p", 3, "n", labels={"app": "db"}))
    ((label, old, new),) = watched.take()
    assert (label, old.uid, new.node_name) == ("AssignedPodUpdatePodLabel", "p", "n")
    assert (dict(old.pod.metadata.labels), dict(new.pod.metadata.labels)) == ({"app": "web"}, {"app": "db"})


@pytest.mark.parametrize("first", [True, False], ids=["valid then", "valid before"])
def test_a_pod_that_becomes_valid_or_invalid_is_updated_in_the_queue(first: bool) -> None:
    watched = Watched()
    valid, invalid = _pod("p", 1 + first), _pod("p", 2 - first, containers=_INVALID)
    _show(watched, *((invalid, valid) if first else (valid, invalid)))
    (found,) = watched.queue.contents.waiting_pods()
    assert bool(found.record.class_id) is first
    assert len(watched.registry) == int(first)


def test_an_invalid_pod_that_another_scheduler_binds_has_no_class_to_give_back() -> None:
    watched = Watched()
    _show(watched, _pod("p", 1, containers=_INVALID), _pod("p", 2, "n", containers=_INVALID))
    assert (_waiting(watched), watched.bound) == ([], ["p"])
    assert len(watched.registry) == 1


def test_each_way_in_which_a_running_pod_changes_is_an_event() -> None:
    watched = Watched()
    watched.registry.use_all_labels()
    requests = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    smaller = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    _show(watched, _pod("p", 1, "n", labels={"app": "web"}, containers=requests))
    watched.take()
    _show(watched, _pod("p", 2, "n", labels={"app": "db"}, containers=smaller))
    labels = sorted(label for label, _, _ in watched.take())
    assert labels == ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodScaleDown"]


def test_a_change_of_a_pod_that_waits_is_an_event_for_that_pod_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own hints decide whether it is tried: it is no event for other pods."""
    watched = Watched()
    watched.registry.use_all_labels()
    _show(watched, _pod("p", 1, labels={"app": "web"}))
    told: list[Any] = []
    monkeypatch.setattr(watched.watch.notifier, "update", lambda _, events, *__: told.extend(events))
    _show(watched, _pod("p", 2, labels={"app": "db"}))
    assert [event.resource for event in told] == [cluster_event.Resource.TARGET_POD]
