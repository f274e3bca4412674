"""Pods that were refused are found by each plugin that refused them, and by none once they are taken out."""

from tests.helpers.queue_builders import T0, record
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.unschedulable import UnschedulablePods

PROFILE = "default-scheduler"


def _refused(name: str, *rejectors: str, since: float = T0, class_id: int = 1) -> QueuedPodInfo:
    pod = QueuedPodInfo(record(name, class_id), since)
    pod.rejectors = frozenset(rejectors)
    return pod


def _found(pods: UnschedulablePods, *plugins: str) -> list[list[str]]:
    return [[key.removeprefix("ns/") for key in group.pods] for group in pods.groups_refused_by(PROFILE, plugins)]


def test_a_pod_is_found_by_each_plugin_that_refused_it_until_it_is_taken_out() -> None:
    pods = UnschedulablePods()
    both, other = _refused("both", "Fit", "Taint"), _refused("other", "Fit", "Taint", "Ports")
    for pod in (both, other):
        pods.add(pod)
    assert _found(pods, "Taint") == _found(pods, "Fit") == _found(pods, "Fit", "Taint") == [["both"], ["other"]]
    assert _found(pods, "Ports") == [["other"]]
    assert pods.groups_refused_by("another", ["Fit"]) == []
    assert both.container is not None
    both.container.discard(both)
    assert _found(pods, "Taint") == _found(pods, "Fit") == [["other"]]
    assert other.container is not None
    other.container.discard(other)
    for plugin in ("Fit", "Taint", "Ports"):
        assert _found(pods, plugin) == []
    pods.add(_refused("later", "Ports"))
    assert [_found(pods, plugin) for plugin in ("Fit", "Taint", "Ports")] == [[], [], [["later"]]]


def test_gated_and_refused_pods_are_counted_apart() -> None:
    pods = UnschedulablePods()
    gated, refused = _refused("gated", "Gate"), _refused("refused", "Gate")
    pods.add(gated, "Gate")
    pods.add(refused)
    assert (pods.gated, pods.refused, pods.group_count, len(list(pods))) == (1, 1, 2, 2)
    for pod, left in ((gated, (0, 1)), (refused, (0, 0))):
        assert pod.container is not None
        pod.container.discard(pod)
        assert (pods.gated, pods.refused) == left


def test_pods_are_found_by_how_long_they_are_here() -> None:
    """Only the older ones of a group; a flush counts as a beginning."""
    pods = UnschedulablePods()
    old, new, flushed = _refused("old", "Fit"), _refused("new", "Fit", since=T0 + 9), _refused("flushed", "Fit")
    flushed.flushed_at = T0 + 9
    for pod in (new, old, flushed, _refused("other", "Fit", since=T0 + 9, class_id=2)):
        pods.add(pod)
    assert pods.pods_since_before(T0) == []
    since_then = UnschedulablePods()
    for pod in (_refused("before", "Fit"), _refused("then", "Fit", since=T0 + 9)):
        since_then.add(pod)
    assert [pod.record.key for pod in since_then.pods_since_before(T0 + 9)] == ["ns/before"]
    found = pods.pods_since_before(T0 + 1)
    assert found == [old]
    assert old.container is not None
    old.container.discard(old)
    assert pods.pods_since_before(T0 + 9) == []
    assert {pod.record.key for pod in pods.pods_since_before(T0 + 10)} == {"ns/new", "ns/flushed", "ns/other"}
