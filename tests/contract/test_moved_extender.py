"""The example of an extender that became a plugin: both decide alike about the same nodes."""

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import aiohttp
import grpc
import pytest

from tests.contract.contract_services import CYCLE, DEADLINE, ROOT
from trireme.v1 import core_pb2, filter_pb2, filter_pb2_grpc, score_pb2, score_pb2_grpc, status_pb2

_EXAMPLE = ROOT / "examples" / "moved-extender"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where the extender and the plugin serve."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    target = f"unix:{tmp_path_factory.mktemp('racks')}/plugin.sock"
    with ExitStack() as stack:
        for command in ([_EXAMPLE / "extender.py", port], [_EXAMPLE / "plugin.py", "--listen", target]):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
            )
            stack.callback(process.terminate)
            assert process.stdout is not None
            assert process.stdout.readline().startswith("listening on ")
        yield f"http://127.0.0.1:{port}", target


def _drawn_nodes() -> dict[str, dict[str, str]]:
    """The labels of two hundred nodes, by name."""
    draw = random.Random(5)
    values = ["", "0", "4", "10", "11", "-1", "many"]
    nodes: dict[str, dict[str, str]] = {}
    for number in range(200):
        labels = {"example.com/rack": f"r{draw.randrange(9)}", "example.com/free-kilowatts": draw.choice(values)}
        nodes[f"n{number}"] = {key: value for key, value in labels.items() if draw.random() < 0.9}
    return nodes


async def _ask_extender(url: str, verb: str, nodes: dict[str, dict[str, str]]) -> Any:
    """The extender's answer about the nodes."""
    items = [{"metadata": {"name": name, "labels": labels}} for name, labels in nodes.items()]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/{verb}", json={"pod": {}, "nodes": {"items": items}}) as response,
    ):
        return await response.json()


async def test_plugin_and_extender_decide_alike(addresses: tuple[str, str]) -> None:
    """If this fails, somebody who follows the example gets other placements than before."""
    url, target = addresses
    nodes = _drawn_nodes()
    failed = (await _ask_extender(url, "filter", nodes))["failedAndUnresolvableNodes"]
    scores = {each["host"]: each["score"] for each in await _ask_extender(url, "prioritize", nodes)}
    views = [
        filter_pb2.NodeView(name=name, node=core_pb2.Node(metadata={"name": name, "labels": labels}))
        for name, labels in nodes.items()
    ]
    selection = filter_pb2.NodeSelection(nodes=views)
    with grpc.insecure_channel(target) as channel:
        filtered = filter_pb2_grpc.FilterPluginStub(channel).Filter(
            filter_pb2.FilterRequest(cycle=CYCLE, nodes=selection), timeout=DEADLINE
        )
        scored = score_pb2_grpc.ScorePluginStub(channel).Score(
            score_pb2.ScoreRequest(cycle=CYCLE, nodes=selection), timeout=DEADLINE
        )
    statuses = [filtered.columns.statuses[index - 1] if index else None for index in filtered.columns.status_index]
    refused = {name: status.messages[0] for name, status in zip(nodes, statuses, strict=True) if status}
    assert failed
    assert refused == failed
    unresolvable = status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE
    assert {status.code for status in filtered.columns.statuses} == {unresolvable}
    # kube-scheduler multiplies an extender's score by ten and its weight.
    assert list(scored.scores) == [scores[name] * 10 for name in nodes]
    assert set(scored.scores) == {0, 40, 100}
