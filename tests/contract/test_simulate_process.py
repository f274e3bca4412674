"""Simulate over gRPC, by an insight process that follows a frontend: answers, refusals, and too many questions."""

import asyncio
import contextlib
import functools
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from grpc import aio

from tests.contract import followed_frontend
from trireme.frontend.phase_clients import insight_replicas
from trireme.insight.simulations import turns
from trireme.v1 import cycle_pb2, insight_pb2, insight_pb2_grpc, simulation_pb2, snapshot_pb2

pytestmark = pytest.mark.processes

FLOODING_CALLERS = 4
QUESTIONS = 10_000
# With each number as N.
REFUSALS = {
    "N explanations of the same caller wait already: wait for their answers",
    "N simulations of the same caller wait already: wait for their answers",
    "N explanations wait already: ask again later, or another replica",
    "N simulations wait already: ask again later, or another replica",
}
_OK, _EXHAUSTED = grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED


def question(*changes: Any) -> simulation_pb2.SimulateRequest:
    return json_format.ParseDict({"scenario": {"changes": list(changes)}}, simulation_pb2.SimulateRequest())


def manifest(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


@contextlib.asynccontextmanager
async def following(tmp_path: Path) -> AsyncIterator[tuple[followed_frontend.Frontend, str]]:
    """A frontend of two nodes, a pod on one of them, one that waits, and the address of the insight that follows it."""
    with followed_frontend.process("127.0.0.1:0") as address:
        frontend = followed_frontend.Frontend(address)
        frontend.add_node("small", "2")
        frontend.add_node("large", "8")
        frontend.assume("placed", "2", "small")
        async with frontend.leading():
            frontend.enqueue("waits", "9")
            await frontend.explained("waits")
            yield frontend, address


async def refusal_of(frontend: followed_frontend.Frontend, *changes: Any) -> str:
    with pytest.raises(insight_replicas.InsightRefusal) as caught:
        await frontend.simulate(question(*changes))
    return str(caught.value)


async def test_a_simulation_is_answered_over_the_wire(tmp_path: Path) -> None:
    """Pods of the queue and of a manifest, on the cluster that the stream brought."""
    async with following(tmp_path) as (frontend, _):
        answer = await frontend.simulate(
            question({"addNodes": {"likeNode": "large"}}, {"addPods": {"count": 20, "manifest": manifest()}})
        )
        assert Counter(each.node_name for each in answer.placements) == {"large": 8, "large-added-1": 8}
        assert sorted(pod.name for group in answer.pending for pod in group.pods)[-1] == "waits"
        assert answer.evaluated_generation >= frontend.cache.generation


async def test_what_cannot_be_simulated_is_refused_with_its_field(tmp_path: Path) -> None:
    """A caller who is only told that the request is bad has to guess; one bad request must not end the process."""
    async with following(tmp_path) as (frontend, _):
        refusals = [
            ({"drain": {"nodeNames": ["gone"]}}, "scenario.changes[0].drain.nodeNames: there is no node gone"),
            ({"addNodes": {"likeNode": "gone"}}, "addNodes.likeNode: there is no node gone"),
            ({"delete": {"kind": "pod", "namespace": "ns", "name": "gone"}}, "delete.name: there is no pod ns/gone"),
            ({"delete": {"kind": "node", "name": "gone"}}, "delete.name: there is no node gone"),
            ({"delete": {"kind": "cat", "name": "x"}}, "there is no cat"),
            (
                {"scale": {"kind": "deployment", "namespace": "ns", "name": "gone", "replicas": 2}},
                "there is no ReplicaSet of deployment/gone in ns",
            ),
            ({"addPods": {"manifest": manifest(tolerations="all")}}, "addPods.manifest: spec.tolerations"),
            ({"addPods": {"manifest": manifest(nodeName="gone")}}, "spec.nodeName: there is no node gone"),
        ]
        for change, text in refusals:
            assert text in await refusal_of(frontend, change)
        assert (await frontend.simulate(question())).evaluated_generation


async def test_a_pod_that_is_being_deleted_is_there_until_it_is_gone(tmp_path: Path) -> None:
    """Its room is not free yet: who asks where another pod goes must not be told that it is."""
    async with following(tmp_path) as (frontend, _):
        frontend.delete("placed", "2", "small")
        frontend.publisher.publish()
        assert (await frontend.explained("placed")).node_name == "small"
        added = {"addPods": {"count": 9, "manifest": manifest()}}
        assert len((await frontend.simulate(question(added))).placements) == 8
        delete = {"delete": {"kind": "pod", "namespace": "ns", "name": "placed"}}
        assert len((await frontend.simulate(question(delete, added))).placements) == 9

        frontend.cache.remove_pod("uid-placed")
        frontend.publisher.publish()
        removed = snapshot_pb2.QueueDelta(removed_pods=["uid-waits"])
        frontend.insight.publish_queue(removed, frontend.cache.generation)

        async with asyncio.timeout(followed_frontend.SIMULATION_DEADLINE):
            while (await frontend.simulate(question())).evaluated_generation < frontend.cache.generation:
                await asyncio.sleep(0.01)
        assert "there is no pod ns/placed" in await refusal_of(frontend, delete)
        with pytest.raises(insight_replicas.InsightRefusal, match="neither in the queue nor on a node"):
            await frontend.explain("waits")


@pytest.mark.timeout(300)
async def test_ten_thousand_questions_at_once_are_bounded_and_nobody_starves(tmp_path: Path) -> None:
    """Some callers ask without end: another one has its answers, and what the frontend publishes arrives meanwhile.

    The frontend waits for nothing of it: it publishes, and insight follows between two attempts.
    """
    async with following(tmp_path) as (frontend, address), contextlib.AsyncExitStack() as stack:
        asked = question({"addPods": {"count": 50, "manifest": manifest()}})
        explained_pod = insight_pb2.ExplainRequest(pod=cycle_pb2.PodIdentity(namespace="ns", name="waits"))
        calls: list[Callable[[], Awaitable[Any]]] = []
        for _ in range(FLOODING_CALLERS):
            # With a pool of its own each channel has a connection, and so is another caller.
            channel = aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
            await stack.enter_async_context(channel)
            stub: Any = insight_pb2_grpc.InsightServiceStub(channel)
            seconds = followed_frontend.SIMULATION_DEADLINE
            calls += 3 * [functools.partial(stub.Simulate, asked, timeout=seconds)]
            calls.append(functools.partial(stub.Explain, explained_pod, timeout=seconds))
        refusals: set[str] = set()

        async def code_of(number: int) -> grpc.StatusCode:
            try:
                await calls[number % len(calls)]()
            except aio.AioRpcError as error:
                refusals.add(re.sub(r"[0-9]+", "N", error.details() or ""))
                return error.code()
            return _OK

        flood = [asyncio.create_task(code_of(number)) for number in range(QUESTIONS)]
        await asyncio.sleep(0)
        answered_meanwhile = 0
        while not all(task.done() for task in flood):
            frontend.add_node(f"added-{answered_meanwhile}", "1")
            frontend.publisher.publish()
            answer = await frontend.simulate(question({"drain": {"nodeNames": ["small"]}}))
            assert answer.placements or answer.evictions
            explained = await frontend.explained("waits", followed_frontend.SIMULATION_DEADLINE)
            assert explained.node_count == 3 + answered_meanwhile
            answered_meanwhile += 1
        codes = Counter(task.result() for task in flood)
        assert set(codes) == {_OK, _EXHAUSTED}, (codes, refusals)
        assert refusals <= REFUSALS
        assert codes[_OK] >= turns.MAX_WAITING_OF_CALLER
        assert answered_meanwhile
