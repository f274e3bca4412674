"""Plugins written on the Python SDK at Filter and Score, called over gRPC by the clients that the phases use."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.contract.sdk_hosts import Hosts, PerNode, Stack
from trireme import sdk
from trireme.framework import status
from trireme.plugin_api import scorers
from trireme.remote import remote_score


async def test_a_plugin_may_answer_node_by_node(stack: Stack) -> None:
    """If this fails, the plainest plugin does not work."""
    hosts = await stack.host(PerNode())
    prepared = await hosts.filter.pre_filter(hosts.pod_class, hosts.snap)
    assert prepared.nodes == {"node-1", "node-2"}
    assert await hosts.verdicts(prepared.state.pre_filter) == ["not for shop", 3, 2**31 - 1, 2**31 - 1]
    (refusal,) = hosts.table.statuses
    expected = status.Reason.of("taken", {"by": "somebody"})
    assert refusal == status.unschedulable("PerNode", "not for shop", reasons=(expected,))
    assert await hosts.scores() == [0, 10, 20, 30]


class Vectorised:
    """Answers for all nodes at once."""

    info = sdk.Info("Vectorised", normalization=sdk.Normalization.MAX, node_data=sdk.NodeData.JSON)

    async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
        return [None if node.json() == {"a": 1} and not node.labels else sdk.unresolvable("no JSON") for node in nodes]

    def pre_score(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> bytes:
        return str(len(nodes)).encode()

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> Any:
        return np.arange(len(nodes)) * int(call.state)

    def normalize_scores(self, call: sdk.Call, nodes: Sequence[sdk.Node], raw: Sequence[int]) -> list[int]:
        return [score * 100 // max(raw) for score in raw]


async def test_a_plugin_may_answer_for_all_nodes_at_once(stack: Stack) -> None:
    """If this fails, a plugin that asks something else about many nodes asks it once a node."""
    hosts = await stack.host(Vectorised())
    assert await hosts.verdicts() == [2**31 - 1] * 4
    assert await hosts.scores() == [0, 4, 8, 12]
    assert hosts.score.normalization is scorers.Normalization.CUSTOM
    slots = np.array([1, 3])
    normal = await hosts.score.normalize(
        hosts.pod_class, hosts.snap, remote_score.RemoteScoreState(), slots, np.array([4, 12])
    )
    assert isinstance(normal, np.ndarray)
    assert normal.tolist() == [33, 100]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: 1 / 0, "INTERNAL: plugin Odd: Filter: filter failed: ZeroDivisionError: division by zero"),
        (
            lambda: "no",
            "INTERNAL: plugin Odd: Filter: filter returned 'no': must be None, a number above 0, or a status",
        ),
        (lambda: 0, "INTERNAL: plugin Odd: Filter: filter returned 0"),
        (lambda: True, "INTERNAL: plugin Odd: Filter: filter returned True"),
        (lambda: sdk.SKIP, "INTERNAL: plugin Odd: Filter: filter returned SKIP"),
        (lambda: sdk.error("disk on fire"), "disk on fire"),
    ],
    ids=["an exception", "a text", "no room", "a truth", "a skip", "an error"],
)
async def test_mistakes_of_a_plugin_are_errors_with_a_reason(stack: Stack, answer: Any, words: str) -> None:
    """If this fails, the plugin's process ends, or its author looks for the fault in the scheduler."""

    class Odd:
        info = sdk.Info("Odd")

        def filter(self, call: sdk.Call, node: sdk.Node) -> Any:
            return answer()

    hosts = await stack.host(Odd())
    outcome = await hosts.verdicts()
    assert outcome.code is status.Code.ERROR
    assert words in outcome.message
    # And it goes on.
    assert (await hosts.verdicts()).code is status.Code.ERROR


async def test_concurrent_calls_are_limited_as_the_plugin_declares(stack: Stack) -> None:
    """If this fails, several replicas that ask at once break a plugin that is not made for it."""

    class OneByOne:
        info = sdk.Info("OneByOne", max_concurrent_calls=1)
        running = most = 0

        async def filter_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[sdk.Verdict]:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.005)
            self.running -= 1
            return [None] * len(nodes)

    plugin = OneByOne()
    hosts = await stack.host(plugin)
    others = [Hosts(hosts.config) for _ in range(3)]
    try:
        await asyncio.gather(*(host.verdicts() for host in (hosts, *others) * 3))
    finally:
        for other in others:
            await other.close()
    assert plugin.most == 1
