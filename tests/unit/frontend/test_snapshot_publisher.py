"""SnapshotPublisher: who gets which delta, and how long a full sync is kept."""

from typing import Any

import pytest

from trireme.cache import class_registry, cluster_cache
from trireme.frontend.phase_clients import snapshot_publisher
from trireme.v1 import core_pb2, snapshot_pb2


class Followers:
    """Replicas that keep what is published to them."""

    def __init__(self, *, followed: bool = True) -> None:
        self.followed = followed
        self.got: list[tuple[int, int]] = []

    def publish(self, request: bytes, generation: int) -> None:
        delta = snapshot_pb2.SyncRequest.FromString(request).delta
        assert delta.to_generation == generation
        self.got.append((len(delta.nodes), generation))


class Publishing:
    """A publisher and its cache."""

    def __init__(self, *followers: Any) -> None:
        self.cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
        self.publisher = snapshot_publisher.SnapshotPublisher(self.cache, snapshot_pb2.Hello)
        for each in followers:
            self.publisher.add_followers(each)

    def set_node(self, name: str, label: str = "") -> None:
        node = core_pb2.Node()
        node.metadata.name, node.metadata.labels["l"] = name, label
        self.cache.set_node(node)

    def full_sync(self) -> list[tuple[int, int]]:
        """From and to which generation each part goes."""
        deltas = [snapshot_pb2.SyncRequest.FromString(each).delta for each in self.publisher.full_sync()]
        return [(each.from_generation, each.to_generation) for each in deltas]


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_each_change_goes_to_all_once_any_replica_has_a_stream(order: tuple[bool, bool]) -> None:
    """Which of them have one is known to their links."""
    followers = [Followers(followed=followed) for followed in order]
    world = Publishing(*followers)
    world.set_node("a")
    assert world.publisher.publish() == 1
    world.set_node("b")
    assert (world.publisher.publish(), world.publisher.publish()) == (2, 2)
    assert [each.got for each in followers] == [[(1, 1), (1, 2)]] * 2
    gone: Any = followers[0]
    world.publisher.remove_followers(gone)
    followers[1].followed = True
    world.set_node("c")
    world.publisher.publish()
    assert [len(each.got) for each in followers] == [2, 3]


def test_nothing_is_made_for_nobody() -> None:
    world = Publishing(Followers(followed=False))
    world.set_node("a")
    assert world.publisher.publish() == world.cache.generation
    assert not world.cache.has_changes
    assert not world.publisher.followed


def test_a_full_sync_has_what_the_present_followers_were_sent() -> None:
    """A replica that begins would otherwise be ahead of the others, or miss what comes between."""
    followers = Followers()
    world = Publishing(followers)
    world.set_node("a")
    assert {to for _, to in world.full_sync()} == {1}
    assert followers.got == [(1, 1)]
    world.set_node("b")
    assert world.full_sync()[-1] == (1, 2)
    assert followers.got == [(1, 1), (1, 2)]
    assert world.publisher.full_sync() == world.publisher.full_sync()


def test_a_full_sync_goes_on_while_nobody_follows_yet() -> None:
    """It was made for a replica that is about to begin, which lacks what comes meanwhile."""
    world = Publishing(Followers(followed=False))
    world.set_node("a")
    world.full_sync()
    world.set_node("b")
    assert world.publisher.publish() == 2
    assert world.full_sync()[-1] == (1, 2)


@pytest.mark.parametrize(("more", "kept"), [(-1, True), (0, True), (1, False)])
def test_a_full_sync_is_kept_while_what_followed_is_no_more_than_it_is(more: int, kept: bool) -> None:
    world = Publishing(Followers())
    world.set_node("a")
    first = world.publisher.full_sync()
    size = sum(map(len, first))
    for part in (b"d" * (size - 10), b"d" * (10 + more)):
        world.publisher._extend_full_sync(part)
    assert len(world.publisher.full_sync()) == len(first) + (2 if kept else 0)
    assert world.publisher.full_sync()[: len(first)] == first
    if not kept:
        world.publisher._extend_full_sync(b"d" * size)
        assert len(world.publisher.full_sync()) == len(first) + 1, "it is counted from the new one on"


def test_what_nobody_follows_is_dropped() -> None:
    """The first stream begins with all of the cluster."""
    followers = Followers(followed=False)
    world = Publishing(followers)
    world.set_node("a")
    assert world.publisher.publish() == 1
    assert followers.got == []
    assert not world.cache.has_changes
    assert world.full_sync()[-1][1] == 1
