"""Bind's writes: what is sent, what is tried again, and which outcome says what is certain."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import FakeServer, Seen, answer, failure, serving
from trireme_kube.apimachinery import api_writes
from trireme_kube.apimachinery.api_writes import (
    Conflict,
    Gone,
    PodName,
    Refused,
    Unavailable,
    Unbound,
    Uncertain,
    Written,
)
from trireme_kube.client import writes
from trireme_kube.client.rest import client, credentials

POD = PodName("default", "web", "u1")
CREATED = {"kind": "Status", "status": "Success", "code": 201}


class Script:
    """Answers writes from a list (the last one forever), and reads with a pod."""

    def __init__(self, *answers: Any, node: str = "", uid: str = "u1", exists: bool = True) -> None:
        self.answers = list(answers) or [None]
        self.node = node
        self.uid = uid
        self.exists = exists

    async def __call__(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        if seen.method == "GET":
            if not self.exists:
                return failure(404, "NotFound", 'pods "web" not found')
            return answer({"metadata": {"uid": self.uid}, "spec": {"nodeName": self.node} if self.node else {}})
        step = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if step is None:
            return answer(CREATED, 201)
        if step == "hang-up":
            assert request.transport is not None
            request.transport.abort()
            return answer({})
        if step == "silence":
            await asyncio.sleep(20)
        code, reason, *headers = step
        return failure(code, reason, f"said {code}", headers[0] if headers else None)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    """A server that accepts everything until a test says otherwise."""
    async with serving(Script()) as running:
        yield running


@pytest.fixture
async def writer(server: FakeServer) -> AsyncIterator[writes.Writer]:
    """A writer to that server."""
    settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
    async with await client.connect(settings) as api:
        yield writes.Writer(api, rng=lambda: 0.0)


async def test_a_binding_is_posted_as_kube_scheduler_posts_it(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, the API server binds nothing, or a later pod of the same name."""
    assert await writer.bind(POD, "node-a", 5) == Written(CREATED)
    (post,) = server.seen
    assert (post.method, post.path) == ("POST", "/api/v1/namespaces/default/pods/web/binding")
    assert post.query == {"timeout": "5s"}
    assert post.json == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "target": {"kind": "Node", "name": "node-a"},
    }


BUSY = (500, "InternalError")


@pytest.mark.parametrize(
    ("answers", "expected", "tries"),
    [
        pytest.param([BUSY, BUSY, BUSY, None], Written, 4, id="fourth-try-succeeds"),
        pytest.param([BUSY], Uncertain, 4, id="only-500"),
        pytest.param([(503, "ServiceUnavailable"), None], Written, 2, id="503-then-fine"),
        pytest.param([(503, "ServiceUnavailable", {"Retry-After": "0"})], Unavailable, 4, id="503-turned-away"),
        pytest.param([(429, "TooManyRequests", {"Retry-After": "0"}), None], Written, 2, id="429-then-fine"),
        pytest.param([(429, "TooManyRequests", {"Retry-After": "60"})], Unavailable, 1, id="429-for-long"),
        pytest.param([(409, "Conflict")], Conflict, 1, id="conflict-is-final"),
        pytest.param([BUSY, (409, "Conflict")], Uncertain, 2, id="conflict-perhaps-with-ourselves"),
        pytest.param([(404, "NotFound")], Gone, 1, id="no-such-pod"),
        pytest.param([(422, "Invalid")], Refused, 1, id="invalid"),
        pytest.param([(403, "Forbidden")], Refused, 1, id="forbidden"),
        pytest.param([(504, "Timeout")], Uncertain, 1, id="timeout-behind-the-server"),
        pytest.param(["hang-up"], Uncertain, 1, id="connection-lost"),
    ],
)
async def test_outcomes_of_a_binding_request(
    server: FakeServer, writer: writes.Writer, answers: list[Any], expected: type, tries: int
) -> None:
    """If this fails, a pod is bound twice, given up too early, or reported unbound though it may be bound."""
    server.script = Script(*answers)
    outcome = await writer.bind(POD, "node-a", 10)
    assert isinstance(outcome, expected)
    assert len(server.of("POST")) == tries


async def test_tries_are_spaced_and_end_with_the_deadline(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, a struggling API server is hammered, or binding goes on after its deadline."""
    server.script = Script(BUSY)
    started = time.monotonic()
    await writer.bind(POD, "node-a", 10)
    assert time.monotonic() - started >= sum(writes.PAUSES_SECONDS)
    server.seen.clear()
    await writer.bind(POD, "node-a", 0.2)
    assert len(server.seen) < 4
    server.script = Script("silence")
    started = time.monotonic()
    assert isinstance(await writer.bind(POD, "node-a", 0.2), Uncertain)
    assert time.monotonic() - started < 5


async def test_without_a_server_nothing_happened() -> None:
    """If this fails, pods wait to be read back though nothing was ever sent."""
    async with serving(Script()) as gone:
        pass
    settings = client.ClientSettings(credentials.Source(master=gone.url), qps=-1.0)
    async with await client.connect(settings) as api:
        assert isinstance(await writes.Writer(api).bind(POD, "node-a", 5), Unavailable)
        assert api.statistics().requests == writes.TRIES


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param(Script("hang-up", node="node-a"), Written, id="lost-answer-bound"),
        pytest.param(Script("hang-up"), Unbound, id="lost-answer-not-bound"),
        pytest.param(Script("hang-up", node="node-b"), Conflict, id="lost-answer-bound-elsewhere"),
        pytest.param(Script((409, "Conflict"), node="node-a"), Written, id="bound-by-an-earlier-call"),
        pytest.param(Script((409, "Conflict"), node="node-b"), Conflict, id="bound-elsewhere"),
        pytest.param(Script((409, "Conflict"), uid="u2"), Gone, id="another-pod-of-that-name"),
        pytest.param(Script((409, "Conflict")), Unbound, id="refused-for-another-reason"),
        pytest.param(Script("hang-up", exists=False), Gone, id="deleted-meanwhile"),
    ],
)
async def test_doubt_is_settled_by_reading_the_pod(
    server: FakeServer, writer: writes.Writer, script: Script, expected: type
) -> None:
    """If this fails, binding the same pod again is no success, or a guess decides about a pod."""
    server.script = script
    assert isinstance(await writer.bind(POD, "node-a", 5), (Conflict, Uncertain))
    assert isinstance(await writer.settle_binding(POD, "node-a", 5), expected)


async def test_a_binding_that_cannot_be_read_back_is_uncertain(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, a binding that may exist is reported as one that does not."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return failure(500, "InternalError")

    server.script = script
    assert isinstance(await writer.bind(POD, "node-a", 0.6), Uncertain)
    assert isinstance(await writer.settle_binding(POD, "node-a", 0.6), Uncertain)


async def test_status_patches_survive_conflicts(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, a pod's condition is lost whenever the kubelet writes at the same time."""
    server.script = Script((409, "Conflict"), (409, "Conflict"), None)
    patch = {"status": {"nominatedNodeName": "node-a"}}
    assert isinstance(await writer.patch_pod_status(POD, patch, 5), Written)
    assert len(server.seen) == 3
    assert server.seen[0].path == "/api/v1/namespaces/default/pods/web/status"
    assert server.seen[0].headers["Content-Type"] == api_writes.STRATEGIC_MERGE
    assert server.seen[0].json == patch


async def test_deleting_spares_a_later_pod_of_the_same_name(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, preemption deletes the successor of its victim."""
    assert isinstance(await writer.delete_pod(POD, 5), Written)
    (delete,) = server.seen
    assert (delete.method, delete.path) == ("DELETE", "/api/v1/namespaces/default/pods/web")
    assert delete.json["preconditions"] == {"uid": "u1"}
    server.script = Script((404, "NotFound"))
    assert isinstance(await writer.delete_pod(POD, 5), Gone)


async def test_reading_a_pod_notices_its_successor(server: FakeServer, writer: writes.Writer) -> None:
    """If this fails, bind takes a new pod for the one that it was asked about."""
    assert isinstance(await writer.get_pod(POD, 5), Written)
    server.script = Script(uid="u2")
    assert isinstance(await writer.get_pod(POD, 5), Gone)


async def test_any_object_can_be_written_but_creations_are_not_repeated(
    server: FakeServer, writer: writes.Writer
) -> None:
    """If this fails, claims cannot be written, or a claim is created twice."""
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    claim = {"metadata": {"name": "c", "resourceVersion": "5"}}
    assert isinstance(await writer.put(f"{path}/c/status", claim, 5), Written)
    assert isinstance(await writer.patch(f"{path}/c", {"metadata": {}}, 5, api_writes.MERGE), Written)
    assert isinstance(await writer.delete(f"{path}/c", "u9", 5), Written)
    assert [(seen.method, seen.path) for seen in server.seen] == [
        ("PUT", f"{path}/c/status"),
        ("PATCH", f"{path}/c"),
        ("DELETE", f"{path}/c"),
    ]
    server.seen.clear()
    server.script = Script(BUSY, None)
    assert isinstance(await writer.create(path, claim, 5), Uncertain)
    assert len(server.seen) == 1
    server.script = Script((409, "Conflict"))
    assert isinstance(await writer.put(f"{path}/c", claim, 5), Conflict)
