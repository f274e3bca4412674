"""PluginStreams: which plugins have a stream after each configuration, and which are reported as unsynced."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trireme.frontend.phase_clients import follower_replicas, plugin_streams, snapshot_publisher
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision


class Replicas:
    """The replicas of one plugin."""

    def __init__(
        self, phase: str, source: object, dialer: object, seconds: float, clock: object, changed: Callable[[], None]
    ) -> None:
        self.phase, self.seconds = phase, seconds
        self._changed = changed
        self._synced = False
        self.supervisor = supervision.Supervisor()
        self.addresses: Sequence[str] = ()
        self.links: list[Any] = []
        self.restarts = 0
        self.closed = False

    @property
    def synced(self) -> bool:
        return self._synced

    @synced.setter
    def synced(self, synced: bool) -> None:
        self._synced = synced
        self._changed()

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        self.addresses = addresses

    def statistics(self) -> list[Any]:
        return self.links

    def restart(self) -> None:
        self.restarts += 1

    async def close(self) -> None:
        self.closed = True
        self._changed()


class Publisher:
    """Keeps who follows."""

    def __init__(self) -> None:
        self.followers: list[Any] = []

    def add_followers(self, followers: Any) -> None:
        self.followers.append(followers)

    def remove_followers(self, followers: Any) -> None:
        self.followers.remove(followers)

    def hello(self) -> snapshot_pb2.Hello:
        out = snapshot_pb2.Hello(config_hash=7)
        out.configuration.remote_plugins.add(name="secret")
        out.configuration.profiles.add(scheduler_name="p")
        return out

    def full_sync(self) -> list[bytes]:
        return [b"all"]


class Streams:
    """The streams, their clock, and what was reported."""

    def __init__(self) -> None:
        self.now = 100.0
        self.publisher = Publisher()
        self.reported: list[set[str]] = []
        publisher = cast("snapshot_publisher.SnapshotPublisher", self.publisher)
        self.streams = plugin_streams.PluginStreams(publisher, lambda: self.now)
        self.streams.unsynced_changed = lambda unsynced: self.reported.append(set(unsynced))

    def configure(self, *plugins: tuple[str, str], rejected: str = "", every_node: str = "") -> None:
        """Plugins by name and version; `rejected` are names, and `every_node` gets the nodes with each call."""
        configuration = snapshot_pb2.Configuration()
        for name, version in plugins:
            data = plugin_pb2.NODE_DATA_NAMES if name == every_node else plugin_pb2.NODE_DATA_SNAPSHOT
            info = plugin_pb2.PluginInfo(name=name, version=version, node_data=data)
            configuration.remote_plugins.add(name=name, endpoints=[f"{name}:1"], deadline_ms=1500, info=info)
        self.streams.configure(configuration, lambda plugin: plugin in rejected.split())

    @property
    def open(self) -> dict[str, Any]:
        return {each.phase: each for each in self.publisher.followers}


@pytest.fixture(autouse=True)
def _fake_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_replicas, "FollowerReplicas", Replicas)


async def test_each_configuration_opens_goes_on_with_and_ends_streams() -> None:
    world = Streams()
    world.configure(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), every_node="d")
    assert list(world.open) == ["plugin a", "plugin b", "plugin c"]
    before = world.open
    assert [(each.addresses, each.seconds) for each in before.values()] == [
        ([f"{name}:1"], 1.5) for name in ("a", "b", "c")
    ]
    world.configure(("a", "1"), ("b", "2"), ("e", "1"))
    after = world.open
    assert sorted(after) == ["plugin a", "plugin b", "plugin e"]
    assert after["plugin a"] is before["plugin a"]
    assert after["plugin b"] is not before["plugin b"]
    assert {name: each.restarts for name, each in (before | after).items()} == {
        "plugin a": 1,
        "plugin b": 0,
        "plugin c": 0,
        "plugin e": 0,
    }
    await asyncio.sleep(0)
    while not before["plugin c"].closed:
        await asyncio.sleep(0)
    assert [each.closed for each in before.values()] == [False, True, True]
    await world.streams.close()
    assert all(each.closed for each in after.values())
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("now", "goes_on"), [((("b", "1"),), True), ((("a", "2"),), False)])
async def test_the_stream_to_a_plugin_that_is_rejected_goes_on_unless_it_has_another(
    now: tuple[tuple[str, str], ...], goes_on: bool
) -> None:
    world = Streams()
    world.configure(("a", "1"), ("b", "1"), ("c", "1"))
    before = world.open
    world.configure(*now, rejected="a")
    assert (world.open["plugin a"] is before["plugin a"]) is goes_on
    assert before["plugin a"].restarts == int(goes_on)
    assert "plugin c" not in world.open
    await world.streams.close()


async def test_the_streams_to_all_rejected_plugins_go_on() -> None:
    world = Streams()
    world.configure(("a", "1"), ("b", "1"), ("c", "1"))
    before = world.open
    world.configure(("b", "1"), rejected="a c")
    assert world.open == before
    assert [each.restarts for each in before.values()] == [1, 1, 1]
    await world.streams.close()


async def test_plugins_are_reported_while_they_lack_the_cluster_and_since_when() -> None:
    world = Streams()
    world.configure(("a", "1"), ("b", "1"))
    assert world.reported == [{"a", "b"}]
    world.now = 103.0
    a, b = world.open["plugin a"], world.open["plugin b"]
    a.synced = a.synced = True
    assert world.reported == [{"a", "b"}, {"b"}]
    assert [world.streams.unsynced_seconds(name) for name in ("a", "b", "c")] == [0.0, 3.0, 0.0]
    world.now = 105.0
    a.synced = False
    world.now = 106.0
    assert [world.streams.unsynced_seconds(name) for name in ("a", "b")] == [1.0, 6.0]
    a.synced = b.synced = True
    world.configure(("a", "1"))
    assert world.reported[2:] == [{"a", "b"}, {"b"}, set()]
    a.synced = False
    await world.streams.close()
    assert world.reported[-1] == {"a"}, "that all are unsynced once they are closed is no news"
    assert len(world.reported) == 6


async def test_the_state_of_a_stream_is_that_of_its_worst_endpoint() -> None:
    world = Streams()
    world.configure(("a", "1"), ("b", "1"))
    assert world.streams.statistics() == {}
    links = {
        each: SimpleNamespace(in_step=each[0], acknowledged=each[1]) for each in ((True, 3), (True, 2), (False, 9))
    }
    world.open["plugin a"].links = [links[True, 3], links[True, 2]]
    assert world.streams.statistics() == {"a": links[True, 2]}
    world.open["plugin b"].links = list(links.values())
    assert world.streams.statistics() == {"a": links[True, 2], "b": links[False, 9]}
    await world.streams.close()


async def test_a_plugin_learns_nothing_of_other_plugins() -> None:
    world = Streams()
    hello = world.streams.hello()
    assert (hello.config_hash, len(hello.configuration.profiles), list(hello.configuration.remote_plugins)) == (
        7,
        1,
        [],
    )
    assert world.streams.full_sync() == [b"all"]
    await world.streams.close()
