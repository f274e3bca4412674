"""The console on a recording: its pages as of the moment, and what moves that."""

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import test_utils

from tests.helpers import console_states
from tests.helpers.phase_calls import PROFILE
from tests.helpers.recorded_decisions import SMALL, RecordedCluster
from tests.helpers.recordings import BEGIN, SECOND, encoded, end_frame
from trireme.insight import recorded_insight
from trireme.insight.http_api import recorded_moments, recorded_site
from trireme.recording import segment_reader
from trireme.v1 import cycle_pb2, recording_pb2, snapshot_pb2

BEGIN_MS = BEGIN // 1_000_000


async def recording(path: pathlib.Path, *, waiting: str = "waits", profile: str = "") -> RecordedCluster:
    """A pod is placed after one second, a second one waits after two."""
    cluster = await RecordedCluster(2).open()
    await cluster.schedule(SMALL, 1)
    waits = cycle_pb2.PodIdentity(namespace="default", name=waiting, uid="u-waits")
    state = snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    queued = snapshot_pb2.QueuedPod(
        pod=waits, pod_class=SMALL, profile=profile, state=state, plugins=["NodeResourcesFit"]
    )
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


def as_of(seconds: float, page: str) -> str:
    """The path of a page as of so long after the beginning."""
    return f"/v1/recorded/{BEGIN_MS + round(seconds * 1000)}/{page}"


async def test_pages_are_as_of_their_moment_in_any_order(client: test_utils.TestClient[Any, Any]) -> None:
    """The page would mix what was before with what came after."""
    span = {"file": "incident.trireme", "fromMs": BEGIN_MS, "toMs": BEGIN_MS + 2000, "live": False, "gaps": []}
    span |= {"missingDecisions": 0, "uncountedGaps": 0}
    assert await get(client, "/v1/recording") == {**span, "atMs": BEGIN_MS + 2000}
    for seconds, placed, queued in ((2, 1, 1), (0.5, 0, 0), (1.2, 1, 0), (2, 1, 1), (0, 0, 0)):
        overview = await get(client, as_of(seconds, "overview"))
        assert (overview["cluster"]["pods"], overview["cluster"]["queued"]) == (placed, queued)
        assert overview["nowMs"] == overview["recording"]["atMs"] == BEGIN_MS + seconds * 1000
        assert (await get(client, as_of(seconds, "pending")))["total"] == queued
        nodes = await get(client, as_of(seconds, "nodes?label=zone"))
        assert sum(nodes["podCount"]) == placed
    assert (await get(client, "/v1/overview"))["recording"] == {**span, "atMs": BEGIN_MS + 2000}


async def test_readers_do_not_move_the_moment_of_others(client: test_utils.TestClient[Any, Any]) -> None:
    """A reader of an incident would see another one's moment in the middle of it."""

    async def look(seconds: float, placed: int, queued: int) -> None:
        for _ in range(5):
            cluster = (await get(client, as_of(seconds, "overview")))["cluster"]
            assert (cluster["pods"], cluster["queued"]) == (placed, queued)

    # One more than there are states kept.
    before = [(0.5 + number / 100, 0, 0) for number in range(recorded_moments.MOMENTS - 1)]
    moments = (*before, (1.5, 1, 0), (2, 1, 1))
    await asyncio.gather(*(look(*moment) for moment in moments))


async def test_a_pod_has_its_decision_once_it_is_placed(client: test_utils.TestClient[Any, Any]) -> None:
    """The explanation is what a moment is looked for."""
    page = "namespaces/default/pods/pod-0/decision"
    assert (await get(client, as_of(2, page)))["feasibleCount"] == 2
    assert (await get(client, as_of(0.5, page)))["code"] == 404
    assert (await get(client, f"/v1/{page}"))["feasibleCount"] == 2


async def test_a_pod_with_the_longest_name_has_its_pages(tmp_path: pathlib.Path) -> None:
    """The pages of most pods that operators make would be missing from a recording."""
    name = "w" * 253
    path = tmp_path / "incident.trireme"
    await recording(path, waiting=name, profile=PROFILE)
    site = recorded_site.RecordedSite(path)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        for pod in (as_of(2, f"namespaces/default/pods/{name}"), f"/v1/namespaces/default/pods/{name}"):
            assert (await get(client, f"{pod}/explanation"))["queuedPod"]["pod"]["name"] == name
            assert (await get(client, f"{pod}/timeline"))["known"]
            assert "is on no node" in (await get(client, f"{pod}/decision"))["message"]
        async with client.post(as_of(2, "simulation"), json={"scenario": {}}) as response:
            assert name in (await response.read()).decode()
    site.close()


async def test_a_simulation_begins_with_the_moment(client: test_utils.TestClient[Any, Any]) -> None:
    body = {"scenario": {"changes": [{"drain": {"nodeNames": ["n0", "n1"]}}]}}
    for seconds, evicted in ((2, 1), (0.5, 0)):
        async with client.post(as_of(seconds, "simulation"), json=body) as response:
            answer = orjson.loads(await response.read())
            assert response.status == 200, answer
            assert len(answer["evictions"]) == evicted


async def test_preemptions_are_those_of_the_leader_of_then(tmp_path: pathlib.Path) -> None:
    """Whom somebody had to leave for would be known to the live console alone, and numbers of two leaders be mixed."""
    cluster = await RecordedCluster(2).open()
    other = snapshot_pb2.Hello()
    other.CopyFrom(cluster.header.hello)
    other.fence.epoch += 1
    messages = [
        (1, _preempted(1, 2)),
        (2, _preempted(2, 3)),
        (3, snapshot_pb2.SyncRequest(hello=other)),
        (4, _preempted(1)),
    ]
    late = [
        recording_pb2.RecordedFrame(unix_time_ns=BEGIN + second * SECOND, message=message)
        for second, message in messages
    ]
    path = tmp_path / "r.trireme"
    frames = [*cluster.frames(), *late, end_frame(BEGIN + 4 * SECOND)]
    path.write_bytes(b"".join(encoded(cluster.header, frames)))
    site = recorded_site.RecordedSite(path)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        for seconds, numbers in ((0, []), (1, [2, 1]), (2, [3, 2, 1]), (3, []), (4, [1]), (2, [3, 2, 1])):
            found = (await get(client, as_of(seconds, "preemptions")))["preemptions"]
            assert [each["number"] for each in found] == numbers
            assert all(each["preemptor"] == "default/vip" and each["node"] == "n1" for each in found)
    site.close()


async def test_a_moment_for_which_memory_does_not_suffice_is_said_so(
    client: test_utils.TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page would show half of a cluster, or ask forever."""

    def fails(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(recorded_insight.RecordedInsight, "take", fails)
        answer = await get(client, as_of(0.5, "pending"))
        assert (answer["code"], "needs more memory" in answer["message"]) == (503, True)
    # What was begun is let go of.
    assert (await get(client, as_of(0.5, "pending")))["total"] == 0


def _preempted(*numbers: int) -> snapshot_pb2.SyncRequest:
    """What is recorded of a message of the frontend with these preemptions."""
    delta = snapshot_pb2.QueueDelta()
    delta.scheduler_status.preemptions.extend(console_states.preemption(number) for number in numbers)
    return snapshot_pb2.SyncRequest(queue=delta)


BAD: list[Any] = [
    pytest.param("/v1/recorded/5/pending", 410, "the recording begins", id="before it"),
    pytest.param("/v1/recorded/9999999999999999/pending", 400, "name one from", id="after it"),
    pytest.param("/v1/recorded/99999999999999999999/pending", 404, "MILLISECONDS", id="a number without end"),
    pytest.param("/v1/recorded/now/pending", 404, "MILLISECONDS", id="a word"),
    pytest.param("/v1/recorded/", 404, "MILLISECONDS", id="nothing"),
    pytest.param(f"/v1/recorded/{BEGIN_MS}/no-such-page", 404, "no such page", id="no page"),
    pytest.param(f"/v1/recorded/{BEGIN_MS}/recorded/{BEGIN_MS}/pending", 404, "no such page", id="twice"),
]


@pytest.mark.parametrize(("path", "code", "text"), BAD)
async def test_a_moment_that_is_none_is_refused(
    client: test_utils.TestClient[Any, Any], path: str, code: int, text: str
) -> None:
    """It would be shown as of another moment than was meant."""
    async with client.get(path) as response:
        refusal = orjson.loads(await response.read())
        assert (response.status, refusal["kind"]) == (code, "Status")
        assert text in refusal["message"]


async def test_pages_of_other_sites_do_not_read_it(client: test_utils.TestClient[Any, Any]) -> None:
    """A name may be made to mean this machine: its page would read the cluster of the user who opened it."""
    for path in ("/v1/recording", as_of(1, "pending"), "/v1/pending"):
        async with client.get(path, headers={"Host": "evil.example"}) as response:
            assert response.status == 403
    async with client.post("/v1/recording", json={"atMs": BEGIN_MS}) as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET"


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
