"""The cluster and the queue as insight shows them to people: always a state that the scheduler stands by.

While the frontend tries a group of pods it hides victims and assumes members, and takes most of that back. The deltas
of such a trial are marked; they are held here and applied together with the first delta after it.

Tests: tests/unit/insight/test_observed_cluster.py, tests/unit/insight/http_api/test_visibility.py.
"""

from collections.abc import Iterator, Mapping, Sequence

from trireme.insight import queued_pods
from trireme.snapshot import classes, snapshot
from trireme.v1 import snapshot_pb2

#: Why a replica cannot answer before its first full sync.
NOT_SYNCED = "no frontend has sent this replica all of the cluster yet; ask again, or another replica"


class ObservedCluster:
    """A snapshot that never shows trials of groups, and the pods in the queue; a follower updates it."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.snap = snap
        self.queue = queued_pods.QueuedPods()
        self._trial: list[snapshot_pb2.Delta] = []

    @property
    def generation(self) -> int:
        """The generation of the last delta received; during a trial the snapshot is at an earlier one."""
        return self._trial[-1].to_generation if self._trial else self.snap.generation

    @property
    def synced(self) -> bool:
        """Whether the snapshot has all of the cluster, as the present leader knows it."""
        return self.snap.synced and not (self._trial and self._trial[0].reset)

    @property
    def classes(self) -> Mapping[int, classes.PodClass]:
        """The pod classes of the snapshot, by number."""
        return self.snap.classes

    @property
    def trial(self) -> Sequence[snapshot_pb2.Delta]:
        """The deltas that are held here: applied after the snapshot's they lead to `generation`."""
        return tuple(self._trial)

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        """Advance to the delta's generation, or hold the delta while a group is being tried.

        Raises: OutOfStepError if a full sync is needed.
        """
        if delta.reset:
            # Another leader numbers classes anew; it sends the queue again behind its full sync.
            self._trial = []
            self.queue.clear()
        elif delta.from_generation != self.generation:
            text = f"at generation {self.generation}, the delta begins at {delta.from_generation}"
            self._trial = []
            raise snapshot.OutOfStepError(text)
        if delta.trial:
            self._trial.append(delta)
            return
        deltas, self._trial = [*self._trial, delta], []
        for each in deltas:
            self.snap.apply(each)

    def apply_queue(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Take over what changed in the queue."""
        self.queue.apply(delta)

    def node_of(self, pod_namespace: str, pod_name: str, uid: str = "") -> str | None:
        """The node of the placed pod of this name, and with this UID unless that is empty; None: there is none."""
        row = self.row_of(pod_namespace, pod_name, uid)
        return None if row is None else self.snap.nodes.names[int(self.snap.pods.slot[row])]

    def group_of(self, pod_namespace: str, pod_name: str) -> str:
        """The name of the group of this pod; empty: it has none, or there is no such pod."""
        queued = self.queue.get(pod_namespace, pod_name)
        if queued is not None:
            return queued.pod_group
        row = self.row_of(pod_namespace, pod_name)
        return "" if row is None else self.snap.classes[int(self.snap.pods.pod_class[row])].pod_group_name

    def group_names(self) -> Iterator[str]:
        """The names of all groups of pods and groups of groups, also of those that are named and do not exist."""
        for kind in ("pod_group", "composite_pod_group"):
            for each in self.snap.objects.all(kind):
                yield each.metadata.name
                yield each.spec.parent_composite_pod_group_name
        yield from (pod.pod_group for pod in self.queue.all())
        yield from (each.pod_group_name for each in self.snap.classes.values())

    def row_of(self, pod_namespace: str, pod_name: str, uid: str = "") -> int | None:
        """The row of the placed pod of this name, and with this UID unless that is empty; None: there is none."""
        table, start = self.snap.pods, 0
        while True:
            try:
                row = table.names.index(pod_name, start)
            except ValueError:
                return None
            start = row + 1
            slot = int(table.slot[row])
            if slot < 0 or (uid and table.uids[row] != uid):
                continue
            if self.snap.classes[int(table.pod_class[row])].namespace == pod_namespace:
                return row
