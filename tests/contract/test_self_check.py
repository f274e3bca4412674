"""A score that decides otherwise than its snapshot says: insight finds it by deciding a sample again."""

import asyncio
import contextlib
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.frontend_with_phases import Cluster, Server, node
from tests.helpers import polling
from trireme.config import trireme_configuration
from trireme.frontend.serving import frontend_state, scheduler_status
from trireme.insight import process as insight_process
from trireme.insight import self_check
from trireme.insight.flags import InsightFlags
from trireme.score import service as score_service
from trireme.v1 import scheduler_status_pb2
from trireme_kube.componentbase import supervision


@contextlib.asynccontextmanager
async def _scheduling(folder: pathlib.Path, does: str = trireme_configuration.SAMPLE) -> AsyncIterator[Any]:
    """A leader with all phases on two nodes, and insight that records."""
    settings = trireme_configuration.Insight(endpoints=(f"unix:{folder}/insight-0.sock",), self_check=does)
    cluster = Cluster(settings)
    links = cluster.frontend.phases.links
    assert links.insight is not None
    cluster.deliver_nodes([node("a", 20), node("b", 20)])
    followers: dict[str, Any] = {"filter": links.filters, "score": links.scores, "bind": links.binders}
    supervisor = supervision.Supervisor()
    async with contextlib.AsyncExitStack() as stack, cluster.scheduling():
        for phase, replicas in {**followers, "insight": links.insight.replicas}.items():
            server = Server(cluster, phase, folder, 0)
            await server.start()
            stack.push_async_callback(server.stop)
            if phase == "insight":
                flags = InsightFlags(record_dir=str(folder / "recordings"))
                await stack.enter_async_context(insight_process.recording(server.service, flags, supervisor))
            replicas.set_endpoints([server.address])
        await polling.until(lambda: links.insight is not None and links.insight.replicas.available)
        yield cluster


def _status(cluster: Cluster) -> scheduler_status_pb2.SelfCheck | None:
    """What `trireme status` has of insight."""
    found = scheduler_status.status(frontend_state.state_of_app(cluster.frontend, cluster.local))
    (insight,) = [each for each in found.replicas if each.phase == "insight"]
    return insight.self_check if insight.HasField("self_check") else None


async def _schedule(cluster: Cluster, pods: int) -> None:
    for number in range(pods):
        cluster.create(f"p{number}", "1")
        await cluster.until_bound(number + 1, 20)


def _checked(cluster: Cluster) -> int:
    status = _status(cluster)
    return 0 if status is None else status.checked


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample begins at once, and ends with the fifth decision."""
    monkeypatch.setattr(self_check, "PERIOD_SECONDS", 0.0)
    monkeypatch.setattr(self_check, "MAX_DECISIONS", 5)


async def test_a_score_that_decides_otherwise_is_found_and_saved(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, pods land on wrong nodes until somebody wonders about it."""
    place = score_service.ScorePhase.Place

    async def on_the_other_node(self: Any, request: Any, context: Any) -> Any:
        response = await place(self, request, context)
        for index, slot in enumerate(response.slots):
            response.slots[index] = 1 - slot
        return response

    monkeypatch.setattr(score_service.ScorePhase, "Place", on_the_other_node)
    async with _scheduling(tmp_path) as cluster:
        await _schedule(cluster, 12)
        await polling.until(lambda: _checked(cluster) > 0)
        status = _status(cluster)
    assert status is not None
    assert status.different > 0
    assert status.last_difference.call == "Place"
    saved = pathlib.Path(status.last_difference.recording)
    assert saved.parent == tmp_path / "recordings"
    trireme = pathlib.Path(sys.executable).with_name("trireme")
    replayed = subprocess.run([trireme, "replay", saved], capture_output=True, text=True, check=False)
    assert replayed.returncode == 1, replayed.stderr
    assert ": Place of class" in replayed.stdout


async def test_a_scheduler_in_order_decides_the_same(tmp_path: pathlib.Path) -> None:
    async with _scheduling(tmp_path) as cluster:
        await _schedule(cluster, 12)
        await polling.until(lambda: _checked(cluster) > 0)
        status = _status(cluster)
    assert status is not None
    assert (status.different, status.problem, status.HasField("last_difference")) == (0, "", False)
    assert not list((tmp_path / "recordings").glob("difference-*"))


async def test_the_setting_turns_it_off(tmp_path: pathlib.Path) -> None:
    async with _scheduling(tmp_path, trireme_configuration.OFF) as cluster:
        await _schedule(cluster, 8)
        await asyncio.sleep(0.5)
        assert _status(cluster) is None
