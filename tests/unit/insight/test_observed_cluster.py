"""ObservedCluster: what insight sees while groups are tried, and which pods it knows."""

import pytest

from tests.helpers.snapshot_views import pod_of
from trireme.insight import observed_cluster
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2


def cluster() -> observed_cluster.ObservedCluster:
    """A node with one pod, at generation 1."""
    out = observed_cluster.ObservedCluster(snapshot.Snapshot())
    out.apply(full_sync())
    return out


def full_sync(*, trial: bool = False) -> snapshot_pb2.Delta:
    node = core_pb2.Node(metadata={"name": "n0"})
    pods = snapshot_pb2.PodColumns(
        row=[0], pod_class=[1], slot=[0], uid=["u0"], name=["victim"], start_time_s=[0], flags=[0]
    )
    return snapshot_pb2.Delta(
        reset=True,
        to_generation=1,
        nodes=[snapshot_pb2.NodeEntry(slot=0, node=node)],
        classes=[snapshot_pb2.PodClass(id=1, pod=pod_of())],
        pods=pods,
        trial=trial,
    )


def hidden(*, trial: bool) -> snapshot_pb2.Delta:
    return snapshot_pb2.Delta(from_generation=1, to_generation=2, removed_pods=[0], trial=trial)


def test_victims_do_not_vanish_while_a_group_is_tried() -> None:
    """An explanation during a group's trial shows the cluster as it is, victims included."""
    observed = cluster()
    observed.apply(hidden(trial=True))
    assert (observed.generation, observed.snap.generation) == (2, 1)
    assert observed.node_of("default", "victim") == "n0"
    shown = full_sync().pods
    observed.apply(snapshot_pb2.Delta(from_generation=2, to_generation=3, pods=shown))
    assert (observed.generation, observed.snap.generation) == (3, 3)
    assert observed.node_of("default", "victim") == "n0"


def test_what_a_trial_leaves_is_seen_after_it() -> None:
    observed = cluster()
    observed.apply(hidden(trial=True))
    observed.apply(snapshot_pb2.Delta(from_generation=2, to_generation=3))
    assert observed.node_of("default", "victim") is None


def test_a_full_sync_within_a_trial_counts_after_it() -> None:
    """A replica that starts then would show hypothetical states as its first."""
    observed = observed_cluster.ObservedCluster(snapshot.Snapshot())
    observed.apply(full_sync(trial=True))
    assert not observed.synced
    observed.apply(snapshot_pb2.Delta(from_generation=1, to_generation=2))
    assert observed.synced


def test_a_gap_within_a_trial_needs_a_full_sync() -> None:
    observed = cluster()
    observed.apply(hidden(trial=True))
    with pytest.raises(snapshot.OutOfStepError, match="at generation 2, the delta begins at 5"):
        observed.apply(snapshot_pb2.Delta(from_generation=5, to_generation=6, trial=True))
    assert observed.snap.generation == 1


def test_another_leaders_queue_replaces_the_one_before() -> None:
    """Leaders number classes each for itself: an old entry would name the class of other pods."""
    observed = cluster()
    observed.apply_queue(snapshot_pb2.QueueDelta(pods=[_queued("a", "1")]))
    assert observed.queue.get("default", "a") is not None
    observed.apply(full_sync())
    assert observed.queue.get("default", "a") is None


def test_a_pod_that_was_made_again_is_the_new_one() -> None:
    """The old one may leave the queue after the new one entered."""
    observed = cluster()
    observed.apply_queue(snapshot_pb2.QueueDelta(pods=[_queued("a", "old")]))
    observed.apply_queue(snapshot_pb2.QueueDelta(pods=[_queued("a", "new")]))
    observed.apply_queue(snapshot_pb2.QueueDelta(removed_pods=["old", "unknown"]))
    found = observed.queue.get("default", "a")
    assert found is not None
    assert found.pod.uid == "new"
    assert len(observed.queue) == 1


def test_a_placed_pod_is_found_by_namespace_name_and_uid() -> None:
    """Pods of one name in two namespaces are two pods."""
    observed = cluster()
    assert observed.node_of("default", "victim", "u0") == "n0"
    assert observed.node_of("default", "victim", "u1") is None
    assert observed.node_of("shop", "victim") is None


def _queued(name: str, uid: str) -> snapshot_pb2.QueuedPod:
    pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=uid)
    return snapshot_pb2.QueuedPod(pod=pod, pod_class=1)
