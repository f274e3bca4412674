"""Forks: a copy of the snapshot with an overlay's changes, which goes its own way."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import changed_clusters
from tests.helpers.changed_clusters import Change
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting, view
from trireme.snapshot import overlay, snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _answers(snap: snapshot.Snapshot) -> dict[str, Any]:
    return {name: changed_clusters.verdicts(snap, name) for name in changed_clusters.PLUGINS}


def _nodes_of(snap: snapshot.Snapshot) -> Any:
    """All columns of the nodes, and what runs there; rows are as may be."""
    table = snap.pods
    rows = np.flatnonzero(table.slot[: table.size] >= 0)
    pods = zip(table.slot[rows].tolist(), table.pod_class[rows].tolist(), table.flags[rows].tolist(), strict=True)
    return view(snap)["nodes"], view(snap)["classes"], sorted(pods)


def _fork(change: Change, builder: SnapshotBuilder) -> snapshot.Snapshot:
    with overlay.SnapshotOverlay(builder.snap, overlay.Semantics.HYPOTHETICAL) as over:
        changed_clusters.apply(change, over)
        return over.fork()


@SETTINGS
@given(change=changed_clusters.changes())
def test_a_fork_is_a_snapshot_built_anew(change: Change) -> None:
    """Plugins of all kinds, scorers too, may read a fork as they read the snapshot that follows the cluster."""
    builder, truth = changed_clusters.before(change), changed_clusters.after(change).snap
    fork = _fork(change, builder)
    assert _nodes_of(fork) == _nodes_of(truth)
    assert fork.pods.count == truth.pods.count
    assert _answers(fork) == _answers(truth)


@SETTINGS
@given(change=changed_clusters.changes(), seed=st.integers(0, 1 << 30), early=st.booleans())
def test_a_fork_outlives_deltas_of_the_snapshot(change: Change, seed: int, early: bool) -> None:
    """A trial goes on for seconds; what happens in the cluster meanwhile must not change its answers."""
    builder = changed_clusters.before(change)
    fork = _fork(change, builder)
    if early:
        # Derived values are made before the deltas, or after them.
        _answers(fork)
    before = view(fork), _nodes_of(fork)
    draw = random.Random(seed)
    for _ in range(12):
        changed_clusters.change_at_random(builder, draw)
    assert (view(fork), _nodes_of(fork)) == before
    assert _answers(fork) == _answers(changed_clusters.after(change).snap)


@SETTINGS
@given(change=changed_clusters.changes(), seed=st.integers(0, 1 << 30))
def test_a_fork_follows_deltas_of_its_own(change: Change, seed: int) -> None:
    """What is tried on a fork must not show in the snapshot that replicas follow."""
    builder = changed_clusters.before(change)
    other = SnapshotBuilder()
    other.snap = _fork(change, builder)
    other.follow(dict(builder.snap.nodes.slot_of_name))
    before, answers = view(builder.snap), _answers(builder.snap)
    draw = random.Random(seed)
    for _ in range(12):
        if draw.random() < 0.5:
            changed_clusters.change_at_random(other, draw)
    assert view(builder.snap) == before
    assert _answers(builder.snap) == answers


def test_a_fork_knows_nodes_objects_and_nominations_but_not_what_is_derived_from_the_snapshot() -> None:
    """Classes and dictionaries are shared, since thousands of classes are what a copy would spend its time on."""
    builder = SnapshotBuilder()
    builder.set_node("n0", labels={"zone": "a"})
    builder.add_class(1, pod_of(requesting(cpu="1")))
    with overlay.SnapshotOverlay(builder.snap, overlay.Semantics.HYPOTHETICAL) as over:
        over.add(np.array([1], dtype=np.int32), np.array([0], dtype=np.int32))
        fork = over.fork()
    assert fork.classes[1] is builder.snap.classes[1]
    assert fork.nodes.resource_names is builder.snap.nodes.resource_names
    assert fork.statistics().pods == 1
    with pytest.raises(snapshot.OutOfStepError):
        fork.apply(snapshot_pb2.Delta(from_generation=fork.generation + 1, to_generation=fork.generation + 2))


def test_objects_images_and_nominations_of_a_fork_stay() -> None:
    """They are in tables that deltas change in place."""
    builder = SnapshotBuilder()
    builder.set_node("n0", images={"a:1": 5})
    builder.set_node("n1", images={"a:1": 5})
    builder.add_class(1, pod_of(requesting(cpu="1")))
    service = {"metadata": {"name": "s", "namespace": "default"}}
    builder.apply(objects=[snapshot_pb2.ClusterObject(service=decode.decode(service, core_pb2.Service), assumed=True)])
    identity = cycle_pb2.PodIdentity(uid="u")
    builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=1, slot=0)])
    with overlay.SnapshotOverlay(builder.snap, overlay.Semantics.HYPOTHETICAL) as over:
        fork = over.fork()
    builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=1, slot=1)])
    for name in ("n0", "n1"):
        builder.set_node(name, images={"a:1": 7})
    key = snapshot_pb2.ObjectKey(kind="service", namespace="default", name="s")
    builder.apply(removed_objects=[key])
    image = fork.nodes.images.find("a:1")
    assert image is not None
    assert (image.size, image.count) == (5, 2)
    assert fork.nominations.slots.tolist() == [0]
    assert [each.metadata.name for each in fork.objects.all("service")] == ["s"]
    assert fork.objects.get("service", "default", "s") is not None
    assert fork.objects.is_assumed("service", "default", "s")


def test_pods_of_a_fork_are_found_by_uid_whatever_rows_they_have_since() -> None:
    """A fork keeps what changed of the pods, and all of it once much has; both know the pods of that time."""
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of(requesting(cpu="1")))

    def place(*uids: str) -> None:
        size = len(uids)
        builder.apply(
            pods=snapshot_pb2.PodColumns(
                row=range(size), pod_class=[1] * size, slot=[0] * size, uid=uids, name=uids,
                start_time_s=[0] * size, flags=[0] * size,
            )
        )  # fmt: skip

    before = [f"u{number}" for number in range(40)]
    place(*before)
    with overlay.SnapshotOverlay(builder.snap, overlay.Semantics.HYPOTHETICAL) as over:
        fork = over.fork()
    for changed in (1, 40):
        builder.apply(removed_pods=range(changed))
        place(*(f"v{number}" for number in range(changed)))
        assert [fork.pods.row_of(uid) for uid in before] == list(range(40))
        assert [fork.pods.row_of(uid) for uid in ("v0", "", "unknown")] == [None] * 3
        assert builder.snap.pods.row_of("v0") == 0
        assert builder.snap.pods.row_of("u0") is None
    here = fork.generation
    fork.apply(snapshot_pb2.Delta(from_generation=here, to_generation=here + 1, removed_pods=[3]))
    assert [fork.pods.row_of(uid) for uid in ("u2", "u3", "", "u4")] == [2, None, None, 4]
