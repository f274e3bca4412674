"""Deltas of a group's attempt are marked as a trial: insight does not take what is assumed then for what is."""

from tests.helpers.pod_group_builders import pod_group
from tests.helpers.pod_group_cluster import Cluster
from trireme.insight import observed_cluster
from trireme.snapshot import snapshot


class ObservedGroups(Cluster):
    """A cluster whose deltas a replica of insight follows; `shown` are the pods that it showed on nodes each time."""

    shown: tuple[frozenset[str], ...] = ()
    marks: tuple[bool, ...] = ()

    def publish(self) -> int:
        if not self.shown:
            self.observed = observed_cluster.ObservedCluster(snapshot.Snapshot())
            while self.cache.take_delta() is not None:
                pass
            for delta in self.cache.full_sync():
                self.observed.apply(delta)
        while (delta := self.cache.take_delta()) is not None:
            self.marks += (delta.trial,)
            self.observed.apply(delta)
        self.shown += (frozenset(filter(None, self.observed.snap.pods.names)),)
        return self.cache.generation


async def test_members_that_are_taken_back_are_never_shown() -> None:
    cluster = ObservedGroups([1, 1])
    cluster.publish()
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert cluster.nodes == {}
    cluster.publish()
    assert True in cluster.marks
    assert cluster.marks[-1] is False
    assert set(cluster.shown) == {frozenset()}


async def test_members_that_stay_are_shown_after_the_attempt() -> None:
    cluster = ObservedGroups([2, 2])
    cluster.publish()
    cluster.group(pod_group("g", 3))
    for number in range(3):
        cluster.add(f"p{number}", "g")
    await cluster.run()
    assert len(cluster.nodes) == 3
    cluster.publish()
    assert cluster.shown[-1] == {"p0", "p1", "p2"}
    assert set(cluster.shown[:-1]) == {frozenset()}
