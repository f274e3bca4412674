"""Several replicas of a plugin: by addresses and by a DNS name, with calls that are spread, moved and hedged."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.plugin_servers import on_the_sdk
from trireme import sdk
from trireme.remote import endpoint_set, recent_durations, remote_client, remote_connection
from trireme.rpc import dialing
from trireme.v1 import filter_pb2, snapshot_pb2

_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)


class Replica:
    """A replica that lets calls wait when told so."""

    def __init__(self, at_once: int, idempotent: bool) -> None:
        self.info = sdk.Info("R", depends_on=sdk.Dependency.NODE, idempotent=idempotent, max_concurrent_calls=at_once)
        self.calls = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        self.calls += 1
        await self.may_answer.wait()
        return [None] * len(nodes)


class Plugin:
    """Replicas of one plugin, and a connection to them."""

    def __init__(self, replicas: Sequence[Replica], config: snapshot_pb2.RemotePlugin) -> None:
        self.replicas = replicas
        self.connection = remote_connection.PluginConnection(config)

    async def call(self) -> None:
        """Ask about no node."""
        await self.connection.call(_FILTER, filter_pb2.FilterRequest().SerializeToString(), lambda response: None)

    @property
    def calls(self) -> list[int]:
        """How often each replica was called."""
        return [replica.calls for replica in self.replicas]


@pytest.fixture(name="opened")
async def _opened() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def _open(
    stack: AsyncExitStack, folder: Path, count: int, *, at_once: int = 0, idempotent: bool = True, **fields: Any
) -> Plugin:
    replicas = [Replica(at_once, idempotent) for _ in range(count)]
    addresses = [
        await stack.enter_async_context(on_the_sdk(replica, folder, f"{number}.sock"))
        for number, replica in enumerate(replicas)
    ]
    info = await remote_client.handshake("R", addresses[0], deadline_seconds=30)
    config = snapshot_pb2.RemotePlugin(name="R", endpoints=addresses, deadline_ms=30_000, info=info, **fields)
    plugin = Plugin(replicas, config)
    stack.push_async_callback(plugin.connection.close)
    return plugin


async def test_calls_at_once_are_spread_over_all_replicas(opened: AsyncExitStack, tmp_path: Path) -> None:
    """If this fails, one replica does all the work, and the others are there for nothing."""
    plugin = await _open(opened, tmp_path, 4, at_once=1)
    for replica in plugin.replicas:
        replica.may_answer.clear()
    calls = [asyncio.create_task(plugin.call()) for _ in range(4)]
    async with asyncio.timeout(60):
        while plugin.calls != [1, 1, 1, 1]:
            await asyncio.sleep(0.01)
    for replica in plugin.replicas:
        replica.may_answer.set()
    await asyncio.gather(*calls)


async def test_a_call_that_takes_long_is_made_at_another_replica(opened: AsyncExitStack, tmp_path: Path) -> None:
    """If this fails, a replica that pauses keeps a pod waiting until the deadline."""
    plugin = await _open(opened, tmp_path, 2, hedging=True)
    for _ in range(recent_durations.ENOUGH + recent_durations.RECOMPUTE):
        await plugin.call()
    plugin.replicas[0].may_answer.clear()
    before = plugin.replicas[1].calls
    async with asyncio.timeout(25):
        await plugin.call()
    assert plugin.replicas[1].calls == before + 1
    assert plugin.connection.statistics().hedged >= 1


@pytest.mark.parametrize(
    ("hedging", "idempotent"),
    [pytest.param(False, True, id="not-configured"), pytest.param(True, False, id="not-idempotent")],
)
async def test_a_call_is_made_twice_only_where_both_sides_allow_it(
    opened: AsyncExitStack, tmp_path: Path, hedging: bool, idempotent: bool
) -> None:
    """If this fails, a plugin that counts its calls is called twice."""
    plugin = await _open(opened, tmp_path, 2, hedging=hedging, idempotent=idempotent)
    for _ in range(40):
        await plugin.call()
    assert sum(plugin.calls) == 40
    assert plugin.connection.statistics().hedged == 0


async def test_a_name_stands_for_all_of_its_addresses_and_is_looked_up_again() -> None:
    """If this fails, all calls go to one replica behind a headless Service, and to none that comes later."""
    time = 0.0
    answers: list[Sequence[str]] = [["10.0.0.1:9000", "10.0.0.2:9000"], ["10.0.0.2:9000", "10.0.0.3:9000"]]
    asked: list[str] = []

    async def find(name: str) -> Sequence[str]:
        asked.append(name)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0)

    endpoints = endpoint_set.EndpointSet(
        ["dns:///plugin.ns.svc:9000", "unix:/own.sock"], dialing.Dialer(), 1, lambda: time, find=find
    )

    async def targets() -> set[str]:
        assert endpoints.current
        while endpoints._lookup is not None:
            await asyncio.wait({endpoints._lookup})
        return {endpoint.target for endpoint in endpoints.current}

    assert await targets() == {"10.0.0.1:9000", "10.0.0.2:9000", "unix:/own.sock"}
    kept = next(endpoint for endpoint in endpoints.current if endpoint.target == "10.0.0.2:9000")
    assert await targets() == {"10.0.0.1:9000", "10.0.0.2:9000", "unix:/own.sock"}
    assert len(asked) == 1
    time = endpoint_set.RESOLVE_SECONDS
    assert await targets() == {"10.0.0.2:9000", "10.0.0.3:9000", "unix:/own.sock"}
    assert kept in endpoints.current
    time *= 2
    assert await targets() == {"10.0.0.2:9000", "10.0.0.3:9000", "unix:/own.sock"}
    await endpoints.close()


async def test_the_addresses_of_a_name_are_targets() -> None:
    """If this fails, a name on this machine cannot be called."""
    assert "127.0.0.1:9000" in await endpoint_set.resolve("localhost:9000")


async def test_a_plugin_over_its_budget_is_left_out_under_ignore(opened: AsyncExitStack, tmp_path: Path) -> None:
    """If this fails, a plugin that is slow and never fails slows all pods of its profiles."""
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE
    plugin = await _open(opened, tmp_path, 1, budget_ms_per_second=1, failure_policy=policy)
    plugin.connection._budget.spend(1.0)
    with pytest.raises(remote_connection.PluginError, match="used up its budget"):
        await plugin.call()
    statistics = plugin.connection.statistics()
    assert (plugin.calls, statistics.bypassed, statistics.over_budget) == ([0], 1, True)


async def test_no_caller_waits_long_for_a_trial_call(opened: AsyncExitStack, tmp_path: Path) -> None:
    """If this fails, a plugin that hangs costs the pods of all profiles its deadline, again and again."""
    plugin = await _open(opened, tmp_path, 1, breaker_failures=1, breaker_open_ms=1)
    (replica,) = plugin.replicas
    replica.may_answer.clear()
    health = plugin.connection._health
    period = health.admit("Filter")
    assert isinstance(period, int)
    health.record_failure("Filter", period, "no answer")
    await asyncio.sleep(0.01)
    async with asyncio.timeout(25):  # the deadline is 30 seconds
        with pytest.raises(remote_connection.PluginError, match="a test call is under way; the circuit"):
            await plugin.call()
    replica.may_answer.set()
    async with asyncio.timeout(25):
        while plugin.connection.statistics().answered == 0:
            await asyncio.sleep(0.01)
    await plugin.call()
