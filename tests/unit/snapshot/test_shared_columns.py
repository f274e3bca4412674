"""What snapshots and their forks share, while all of them change and are read in any order."""

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import changed_clusters
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting, view
from trireme.snapshot import forkable_columns, pods, snapshot
from trireme.v1 import core_pb2, cycle_pb2, meta_pb2, snapshot_pb2

SETTINGS = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
NONE = (np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


class _Branch(SnapshotBuilder):
    """A snapshot, and all deltas by which one that shares nothing becomes equal to it."""

    def __init__(self) -> None:
        self.deltas: list[snapshot_pb2.Delta] = []
        super().__init__()
        self.deltas.append(snapshot_pb2.Delta(reset=True, to_generation=1))

    def apply(self, **fields: Any) -> None:
        generation = self.snap.generation
        delta = snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, **fields)
        self.deltas.append(delta)
        self.snap.apply(delta)

    def fork(self) -> "_Branch":
        out = _Branch()
        out.snap, out.deltas = self.snap.fork(*NONE), list(self.deltas)
        out._slots, out._rows = dict(self._slots), self._rows
        return out

    def alone(self) -> snapshot.Snapshot:
        out = snapshot.Snapshot()
        for delta in self.deltas:
            out.apply(delta)
        return out

    def use_a_row_again(self, draw: random.Random) -> None:
        """A pod takes the row of another one, which is gone, or moves to another node."""
        table = self.snap.pods
        rows = np.flatnonzero(table.slot[: table.size] >= 0).tolist()
        if not rows:
            return
        row, where = draw.choice(rows), draw.choice(list(self.snap.nodes.slot_of_name.values()))
        again = draw.random() < 0.5
        uid = f"again-{self.snap.generation}" if again else ""
        columns = snapshot_pb2.PodColumns(
            row=[row], pod_class=[draw.choice(list(self.snap.classes))], slot=[where], uid=[uid], name=[uid],
            start_time_s=[draw.randint(0, 3)], flags=[draw.choice((0, pods.TERMINATING))],
        )  # fmt: skip
        self.apply(pods=columns, removed_pods=[row] if again else [])


def _seen(snap: snapshot.Snapshot) -> Any:
    """All that one can read of a snapshot, but for generations."""
    table = snap.pods
    uids = list(table.uids)
    rows = {uid: table.row_of(uid) for uid in uids if uid}
    texts = uids, list(table.names), [table.names[row] for row in range(table.size)], rows
    columns = {
        name: getattr(each, name)[..., : each.size].tolist()
        for each in (table, snap.nodes)
        for name in each.COLUMNS
        if name not in ("taint_set", "feature_set", "allocatable", "requested")
    }
    objects = sorted(each.SerializeToString(deterministic=True) for each in snap.objects.entries())
    return view(snap), texts, columns, objects, snap.statistics()


def _verdicts(snap: snapshot.Snapshot) -> Any:
    return [changed_clusters.verdicts(snap, name) for name in ("NodeResourcesFit", "InterPodAffinity")]


def _live(change: changed_clusters.Change) -> _Branch:
    out = _Branch()
    for number, node in enumerate(change.nodes):
        out.set_node(f"n{number}", **node)
    for pod_class, pod in change.classes.items():
        out.add_class(pod_class, pod)
    for pod_class, number, _ in change.placed:
        out.place(pod_class, f"n{number}")
    out.apply(objects=list(changed_clusters.claims_and_volumes()))
    return out


@pytest.mark.parametrize("copied_part", [0, 4], ids=["entries", "copies"])
@SETTINGS
@given(change=changed_clusters.changes(), seed=st.integers(0, 1 << 30))
def test_snapshots_and_forks_of_forks_are_as_if_they_shared_nothing(
    copied_part: int, change: changed_clusters.Change, seed: int
) -> None:
    """A change that shows in another snapshot is a wrong answer, or a live decision on what was only supposed."""
    draw = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkable_columns, "COPIED_PART", copied_part)
        live = _live(change)
        branches = [live]
        for _ in range(40):
            branch = draw.choice(branches)
            step = draw.random()
            if step < 0.15:
                branches.append(branch.fork())
            elif step < 0.25 and len(branches) > 1:
                branches.remove(draw.choice(branches[1:]))
            elif step < 0.4:
                assert _seen(branch.snap) == _seen(branch.alone())
            elif step < 0.55:
                branch.use_a_row_again(draw)
            else:
                changed_clusters.change_at_random(branch, draw)
        for branch in branches:
            alone = branch.alone()
            assert _seen(branch.snap) == _seen(alone)
            assert _verdicts(branch.snap) == _verdicts(alone)
        for branch in reversed(branches):
            assert _seen(branch.snap) == _seen(branch.alone())


def _large(pods_there: int = 400) -> _Branch:
    out = _Branch()
    for number in range(40):
        out.set_node(f"n{number}", labels={"zone": "a"})
    out.add_class(1, pod_of(requesting(cpu="10m")))
    out.place(1, *[f"n{number % 40}" for number in range(pods_there)])
    return out


def test_a_fork_reads_the_columns_of_the_snapshot_until_one_of_them_changes() -> None:
    """A fork that changed nothing costs nothing, however large the cluster is."""
    live = _large()
    one, other = live.fork(), live.fork()
    for fork in (one, other):
        assert np.shares_memory(fork.snap.pods.slot, live.snap.pods.slot)
        assert np.shares_memory(fork.snap.nodes.requested, live.snap.nodes.requested)
        assert fork.snap.nodes.slot_of_name is live.snap.nodes.slot_of_name
        assert fork.snap.classes is live.snap.classes
        assert fork.snap.differing_nbytes == 0
    before = _seen(one.snap)
    live.place(1, "n0", "n1")
    live.remove(0)
    assert not np.shares_memory(one.snap.pods.slot, live.snap.pods.slot)
    assert _seen(one.snap) == _seen(other.snap) == before


def test_what_a_fork_shares_is_copied_once() -> None:
    """Each change of the live snapshot would take as long as the cluster is large."""
    live = _large()
    service = core_pb2.Service(metadata=meta_pb2.ObjectMeta(namespace="x", name="s"))
    nominated = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="u"), pod_class=1, slot=0)

    def change(number: int) -> list[object]:
        """Change something of each table; returns what holds it."""
        live.set_node("n0", labels={"zone": f"z{number}"}, images={f"i:{number}": 1})
        live.remove_node("n1")
        live.set_node("n1", labels={"zone": f"z{number}", "rack": str(number)})
        live.add_class(number, pod_of(requesting(cpu="1")))
        live.apply(objects=[snapshot_pb2.ClusterObject(service=service)], nominations=[nominated])
        live.place(1, "n0")
        nodes, snap = live.snap.nodes, live.snap
        labels, images = nodes.labels, nodes.images
        held = (nodes.names, nodes.slot_of_name, nodes.messages, snap.classes, snap.nominations)
        tables = (labels._keys, labels._columns["zone"], images._by_name, images._lists, snap.objects._kinds["service"])
        return [*held, *tables]

    change(7)
    fork = live.fork()
    before = _seen(fork.snap)
    change(7)
    first, second = change(8), change(9)
    assert all(one is other for one, other in zip(first, second, strict=True))
    assert _seen(fork.snap) == before


def test_nobody_can_write_to_what_a_fork_shares() -> None:
    """Such a write would change the live snapshot."""
    fork = _large().fork()
    with pytest.raises(ValueError, match="read-only"):
        fork.snap.nodes.requested[0, 0] = 1


@pytest.mark.parametrize("changes_between", [False, True], ids=["of-one-generation", "of-several"])
def test_a_fork_that_is_not_in_use_takes_memory_for_its_changes_alone(changes_between: bool) -> None:
    """Sixteen simulations at once would take sixteen copies of the cluster."""
    live, forks = _large(), list[_Branch]()
    for number in range(8):
        forks.append(live.fork())
        if changes_between:
            live.place(1, f"n{number}")
    for number, fork in enumerate(forks):
        fork.place(1, f"n{number}")
        fork.remove(number)
    whole = sum(getattr(live.snap.pods, name).nbytes for name in pods.PodTable.COLUMNS)
    whole += sum(getattr(live.snap.nodes, name).nbytes for name in live.snap.nodes.COLUMNS)
    assert [fork.snap.differing_nbytes * 10 < whole for fork in forks] == [True] * 7 + [False]
    assert [_seen(fork.snap) == _seen(fork.alone()) for fork in forks] == [True] * 8


def test_what_is_saved_for_a_fork_is_no_larger_than_a_copy() -> None:
    """Entries that are saved one by one have their places beside them."""
    live = _large()
    fork = live.fork()
    before = _seen(fork.alone())
    for row in range(400):
        live.remove(row)
    for table, of_fork in ((live.snap.pods, fork.snap.pods), (live.snap.nodes, fork.snap.nodes)):
        version = of_fork._source
        assert version is not None
        assert 0 < version.nbytes <= sum(getattr(table, name).nbytes for name in table.COLUMNS)
    assert _seen(fork.snap) == before


@pytest.mark.slow
def test_a_snapshot_saves_nothing_once_no_fork_needs_it() -> None:
    """Deltas of the live snapshot would take longer forever."""
    live = _large()
    fork = live.fork()
    version = weakref.ref(live.snap.pods.newest_version())
    assert version() is not None
    del fork
    gc.collect()
    assert version() is None
    assert live.snap.pods.newest_version() is None


def test_forks_of_one_generation_save_a_change_once() -> None:
    live = _large()
    forks = [live.fork() for _ in range(3)]
    live.place(1, "n0")
    live.remove(5)
    versions = {id(fork.snap.pods._source) for fork in forks}
    assert len(versions) == 1


def test_an_independent_fork_shares_no_column_with_what_changes() -> None:
    """The recorder's thread reads it while deltas change the live snapshot."""
    live = _large()
    fork = live.fork()
    fork.snap.make_independent()
    before = _seen(fork.snap)
    assert not np.shares_memory(fork.snap.pods.slot, live.snap.pods.slot)
    assert live.snap.pods.newest_version() is None
    assert live.snap.nodes.newest_version() is None
    live.remove(*range(100))
    assert _seen(fork.snap) == before


def test_reading_a_fork_of_forks_takes_a_step_for_each() -> None:
    """Two reads of the one before, for UID and name, took twice the time with each fork: minutes, and then years."""
    branch = _Branch()
    branch.set_node("n0", allocatable={"cpu": "4", "pods": "9"})
    branch.add_class(1, pod_of(requesting(cpu="1")))
    branch.place(1, *["n0"] * 9)
    forks = [branch]
    for _ in range(60):
        forks.append(forks[-1].fork())
        forks[-1].place(1, "n0")
    last = forks[-1].snap.pods
    assert (last.uids[0], last.names[0]) == (branch.snap.pods.uids[0], branch.snap.pods.names[0])
    assert last.row_of(branch.snap.pods.uids[0]) == 0


def test_pods_added_to_a_fork_have_nothing_of_pods_that_came_after_it() -> None:
    """A pod added in thought would be one that is being deleted, which spread and affinity do not count."""
    live = _large()
    fork = live.fork()
    row = live.place(1, "n0", flags=pods.TERMINATING)[0]
    later = live.fork()
    live.remove(row)
    added = np.array([1], dtype=np.int32), np.array([0], dtype=np.int32)
    seen = fork.snap.fork(np.zeros(0, dtype=np.intp), *added)
    assert seen.pods.flags[: seen.pods.size].tolist() == [0] * (row + 1)
    assert later.snap.pods.flags[row] == pods.TERMINATING


def test_a_delta_of_a_fork_copies_only_what_it_changes() -> None:
    live = _large()
    fork = live.snap.fork(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
    generation = fork.generation
    fork.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1))
    assert fork.differing_nbytes == 0
    assert fork.nominations is live.snap.nominations
    assert fork.classes is live.snap.classes
    # A pod that starts again changes nothing of its node.
    row = np.flatnonzero(fork.pods.slot[: fork.pods.size] >= 0)[0]
    columns = snapshot_pb2.PodColumns(
        row=[row], pod_class=[fork.pods.pod_class[row]], slot=[fork.pods.slot[row]], uid=[""], name=[""],
        start_time_s=[77], flags=[fork.pods.flags[row]],
    )  # fmt: skip
    fork.apply(snapshot_pb2.Delta(from_generation=generation + 1, to_generation=generation + 2, pods=columns))
    assert fork.nodes.differing_nbytes == 0
    assert fork.pods.start[row] == 77
