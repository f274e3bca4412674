"""The console on a recording: its pages as of the moment, and what moves that."""

import pathlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import test_utils
from recorded_decisions import SMALL, RecordedCluster
from recordings import BEGIN, SECOND, encoded, end_frame

from trireme.insight.http_api import recorded_site
from trireme.recording import segment_reader
from trireme.v1 import cycle_pb2, recording_pb2, snapshot_pb2

BEGIN_MS = BEGIN // 1_000_000


async def recording(path: pathlib.Path) -> RecordedCluster:
    """A pod is placed after one second, a second one waits after two."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    waits = cycle_pb2.PodIdentity(namespace="default", name="waits", uid="u-waits")
    state = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    queued = snapshot_pb2.QueuedPod(pod=waits, pod_class=SMALL, state=state, plugins=["NodeResourcesFit"])
    message = snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(pods=[queued]))
    late = recording_pb2.RecordedFrame(unix_time_ns=BEGIN + 2 * SECOND, message=message)
    frames = [*cluster.frames(), late, end_frame(BEGIN + 2 * SECOND)]
    path.write_bytes(b"".join(encoded(cluster.header, frames)))
    return cluster


@pytest.fixture(name="client")
async def _client(tmp_path: pathlib.Path) -> AsyncIterator[test_utils.TestClient[Any, Any]]:
    """The pages of the recording, at its end."""
    path = tmp_path / "incident.trireme"
    await recording(path)
    site = recorded_site.RecordedSite(path)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        yield client
    site.close()


async def get(client: test_utils.TestClient[Any, Any], path: str) -> Any:
    async with client.get(path) as response:
        return orjson.loads(await response.read())


async def move(client: test_utils.TestClient[Any, Any], seconds: float) -> Any:
    async with client.post("/v1/recording", json={"atMs": BEGIN_MS + round(seconds * 1000)}) as response:
        assert response.status == 200, await response.text()
        return orjson.loads(await response.read())


async def test_pages_are_as_of_the_moment_in_both_directions(client: test_utils.TestClient[Any, Any]) -> None:
    """The page would mix what was before with what came after."""
    span = {"file": "incident.trireme", "fromMs": BEGIN_MS, "toMs": BEGIN_MS + 2000}
    assert await get(client, "/v1/recording") == {**span, "atMs": BEGIN_MS + 2000}
    for seconds, placed, queued in ((2, 1, 1), (0.5, 0, 0), (1.2, 1, 0), (2, 1, 1), (0, 0, 0)):
        assert (await move(client, seconds))["atMs"] == BEGIN_MS + seconds * 1000
        overview = await get(client, "/v1/overview")
        assert (overview["cluster"]["pods"], overview["cluster"]["queued"]) == (placed, queued)
        assert overview["nowMs"] == overview["recording"]["atMs"] == BEGIN_MS + seconds * 1000
        assert (await get(client, "/v1/pending"))["total"] == queued
        nodes = await get(client, "/v1/nodes")
        assert sum(nodes["podCount"]) == placed


async def test_a_pod_has_its_decision_once_it_is_placed(client: test_utils.TestClient[Any, Any]) -> None:
    """The explanation is what a moment is looked for."""
    path = "/v1/namespaces/default/pods/pod-0/decision"
    assert (await get(client, path))["feasibleCount"] == 2
    await move(client, 0.5)
    assert (await get(client, path))["code"] == 404


BAD: list[Any] = [
    pytest.param(b"{", 400, "the body is no JSON", id="no JSON"),
    pytest.param(b'{"atMs": "1"}', 400, "a whole number", id="a text"),
    pytest.param(b'{"atMs": true}', 400, "a whole number", id="a boolean"),
    pytest.param(b'{"at": 1}', 400, "a whole number", id="another field"),
    pytest.param(b'{"atMs": 5}', 400, "atMs: must be from", id="before it"),
    pytest.param(b'{"atMs": %d}' % 10**30, 400, "", id="a number without end"),
]


@pytest.mark.parametrize(("body", "code", "text"), BAD)
async def test_a_moment_that_is_none_is_refused(
    client: test_utils.TestClient[Any, Any], body: bytes, code: int, text: str
) -> None:
    """It would be shown as of another moment than was meant."""
    async with client.post("/v1/recording", data=body, headers={"Content-Type": "application/json"}) as response:
        refusal = orjson.loads(await response.read())
        assert (response.status, refusal["kind"]) == (code, "Status")
        assert text in refusal["message"]
    assert (await get(client, "/v1/recording"))["atMs"] == BEGIN_MS + 2000


async def test_pages_of_other_sites_do_not_move_it(client: test_utils.TestClient[Any, Any]) -> None:
    """A browser sends a form to any address, and a name may be made to mean this machine."""
    body = b'{"atMs": %d}' % BEGIN_MS
    async with client.post("/v1/recording", data=body, headers={"Content-Type": "text/plain"}) as response:
        assert response.status == 415
    headers = {"Content-Type": "application/json", "Host": "evil.example"}
    async with client.post("/v1/recording", data=body, headers=headers) as response:
        assert response.status == 403
    async with client.delete("/v1/recording") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, POST"
    assert (await get(client, "/v1/recording"))["atMs"] == BEGIN_MS + 2000


async def test_what_is_no_recording_is_not_served(tmp_path: pathlib.Path) -> None:
    """A page of an empty cluster would be shown."""
    path = tmp_path / "r.trireme"
    cluster = await recording(path)
    content = path.read_bytes()
    for damaged, error in (
        (b"", ValueError),
        (b"x" * 40, segment_reader.RecordingError),
        (content[: len(content) // 2] + b"\x00" + content[len(content) // 2 + 1 :], segment_reader.RecordingError),
    ):
        path.write_bytes(damaged)
        site = recorded_site.RecordedSite(path)
        with pytest.raises(error):
            await site.open(None)
        site.close()
    path.write_bytes(content)
    site = recorded_site.RecordedSite(path)
    with pytest.raises(ValueError, match="the recording begins later"):
        await site.open(cluster.header.start_unix_ns - SECOND)
    site.close()
