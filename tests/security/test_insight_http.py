"""Insight's HTTP API: who gets an explanation, with which names, and what hostile callers can do to it."""

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
import pytest
from aiohttp import test_utils, web

from tests.contract import certificates
from tests.contract import kube_fake_server as fake
from tests.helpers import insight_http as support
from trireme.insight import http_metrics, service
from trireme.insight.console import console_state
from trireme.insight.http_api import access, api, visibility
from trireme.v1 import insight_pb2, simulation_pb2, snapshot_pb2
from trireme_kube.componentbase.server import connection_limits
from trireme_kube.componentbase.server.authentication import User
from trireme_kube.componentbase.tls import tls_acceptor

_SECONDS = 10.0


@contextlib.asynccontextmanager
async def _connection(
    served: support.Served,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _raw(served: support.Served, request: bytes) -> tuple[int, bytes]:
    """The code and the text of the answer to bytes as they are."""
    async with asyncio.timeout(_SECONDS), _connection(served) as (reader, writer):
        writer.write(request)
        answer = await reader.read(1 << 16)
        return int(answer.split(b" ", 2)[1]), answer


def _request(path: str = support.PATH, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Authorization: Bearer developer-token", *headers]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def _is_status(document: Any, code: int, reason: str) -> bool:
    """Whether this is Kubernetes' object for a failure."""
    wanted = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return bool(document["message"]) and wanted.items() <= document.items()


# Who may what.


async def test_an_operator_gets_what_the_rpc_answers(tmp_path: Path) -> None:
    """The JSON would be another answer than that of the RPC."""
    async with support.served(tmp_path) as served:
        code, document, headers = await served.get(f"{support.PATH}?scores=true", "operator")
        assert code == 200
        assert headers["Content-Type"] == "application/json"
        (refusal,) = document["refusals"]
        assert (refusal["nodes"], refusal["nodeCount"]) == (["n0", "n1", "n2"], 3)
        assert refusal["status"]["plugin"] == "NodeResourcesFit"
        assert document["queuedPod"]["pod"] == {"namespace": "default", "name": "large", "uid": "uid-of-large"}
        assert (document["nodeCount"], document["feasibleCount"]) == (3, 0)
        one = (await served.get(f"{support.PATH}?nodes=n1", "operator"))[1]
        assert one["refusals"][0]["nodes"] == ["n1"]


async def test_who_may_get_the_pod_sees_no_names_of_nodes(tmp_path: Path) -> None:
    """The names of nodes and of other pods are not everybody's who may read one pod."""
    async with support.served(tmp_path) as served:
        code, document, _ = await served.get(user="developer")
        assert code == 200
        (refusal,) = document["refusals"]
        assert (refusal["nodes"], refusal["nodeCount"]) == ([], 3)
        assert refusal["status"]["messages"] == ["Insufficient cpu"]
        assert not any(name in json.dumps(document) for name in support.NODES)
        placed = (await served.get("/v1/namespaces/default/pods/pod-0/explanation", "developer"))[1]
        assert placed["nodeName"] == visibility.SOME_NODE


@pytest.mark.parametrize("name", ["n1", "unknown"])
async def test_guessing_the_name_of_a_node_says_nothing(tmp_path: Path, name: str) -> None:
    """Whether a node exists, and its verdict on the pod, would be learnt name by name."""
    async with support.served(tmp_path) as served:
        code, document, _ = await served.get(f"{support.PATH}?nodes={name}", "developer")
        assert _is_status(document, 403, "Forbidden")
        assert code == 403
        assert document["message"] == (
            'nodes is forbidden: User "developer" may not list nodes, so it may not name any: leave nodes out of the '
            "query"
        )


@pytest.mark.parametrize("path", [support.PATH, "/v1/namespaces/other/pods/absent/explanation"])
async def test_a_forbidden_pod_is_refused_whether_it_exists_or_not(tmp_path: Path, path: str) -> None:
    """The codes would tell which pods there are."""
    async with support.served(tmp_path) as served:
        code, document, _ = await served.get(path, "nobody")
        assert code == 403
        assert _is_status(document, 403, "Forbidden")
        assert 'User "nobody" cannot get resource "pods"' in document["message"]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic ZGV2OmRldg=="}])
async def test_no_token_and_a_bad_token_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    """An anonymous user may have rights in a cluster; it has none here."""
    async with support.served(tmp_path) as served:
        code, document, answered = await served.get(headers=headers)
        assert code == 401
        assert _is_status(document, 401, "Unauthorized")
        assert answered["WWW-Authenticate"] == "Bearer"
        assert "wrong" not in document["message"]
        assert not [seen for seen in served.api.seen if seen.path.endswith("subjectaccessreviews")]


async def test_a_client_certificate_names_its_user(tmp_path: Path) -> None:
    """Users with certificates would need tokens; one of another authority must not count."""
    async with support.served(tmp_path) as served:
        known = served.authority.issue("developer")
        assert (await served.get(certificate=known))[0] == 200
        with pytest.raises((aiohttp.ClientError, OSError)):
            await served.get(certificate=certificates.Authority("other").issue("developer"))


async def test_reviews_that_fail_refuse_everybody_and_say_so(tmp_path: Path) -> None:
    """An API server that is away must open nothing, and is no fault of the caller."""

    async def fail(_: web.Request, seen: fake.Seen) -> web.StreamResponse:
        return fake.failure(500, "InternalError", "secret detail")

    async with support.served(tmp_path, api=fail) as served:
        code, document, headers = await served.get(user="operator")
        assert code == 503
        assert _is_status(document, 503, "ServiceUnavailable")
        assert headers["Retry-After"] == "1"
        assert "secret detail" not in document["message"]


async def test_verdicts_are_cached(tmp_path: Path) -> None:
    """Each request would cost the API server four reviews."""
    async with support.served(tmp_path) as served:
        for _ in range(5):
            assert (await served.get(user="developer"))[0] == 200
        paths = Counter(seen.path.rpartition("/")[2] for seen in served.api.seen)
        assert paths == {"tokenreviews": 1, "subjectaccessreviews": 3}
        assert {seen.method for seen in served.api.seen} == {"POST"}


async def test_the_codes_of_pods_that_cannot_be_explained(tmp_path: Path) -> None:
    """A program could not tell a pod that is gone from a query that is wrong."""

    async def allow(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        if seen.path.endswith("subjectaccessreviews"):
            return fake.answer({"status": {"allowed": True}}, 201)
        return await support.review(request, seen)

    async with support.served(tmp_path, api=allow) as served:
        for path, code, reason in (
            ("/v1/namespaces/default/pods/absent/explanation", 404, "NotFound"),
            ("/v1/namespaces/default/pods/large/other", 404, "NotFound"),
            (f"{support.PATH}?nodes=absent", 400, "BadRequest"),
            (f"{support.PATH}?node=n0", 400, "BadRequest"),
            (f"{support.PATH}?scores=perhaps", 400, "BadRequest"),
            (f"{support.PATH}?nodes={'n' * api.MAX_URL_BYTES}", 414, "RequestURITooLong"),
        ):
            found, document, _ = await served.get(path, "nobody")
            assert (found, _is_status(document, code, reason)) == (code, True), document


async def test_a_pod_with_the_longest_name_has_its_pages(tmp_path: Path) -> None:
    """Operators make names with more than 63 characters and no dot; kubectl shows such a pod, and no page would."""

    async def allow(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        if seen.path.endswith("subjectaccessreviews"):
            return fake.answer({"status": {"allowed": True}}, 201)
        return await support.review(request, seen)

    name = "a" * 253
    async with support.served(tmp_path, api=allow) as served:
        queue = snapshot_pb2.QueueDelta(pods=[support.queued(name, 2)])
        served.service.take_queue(queue)
        pod = f"/v1/namespaces/default/pods/{name}"
        code, answer, _ = await served.get(f"{pod}/explanation", "nobody")
        assert (code, answer["queuedPod"]["pod"]["name"]) == (200, name)
        code, answer, _ = await served.get(f"{pod}/timeline", "nobody")
        assert (code, answer["name"], answer["known"]) == (200, name, True)
        code, answer, _ = await served.get(f"{pod}/decision", "nobody")
        assert (code, "is on no node" in answer["message"]) == (404, True)
        assert (await served.get(f"{pod}a/explanation", "nobody"))[0] == 400


# Hostile requests.


@pytest.mark.parametrize(
    "headers",
    [
        ("X-Remote-User: operator", "X-Remote-Group: system:masters"),
        ("X-Forwarded-User: operator",),
        ("Authorization : Bearer operator-token",),
        ("Authorization: Bearer operator-token",),
        ("Impersonate-User: operator",),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Content-Length: 1", "Content-Length: 2"),
        ("X: a\rAuthorization: Bearer operator-token",),
        ("X-HTTP-Method-Override: DELETE",),
    ],
)
async def test_no_header_makes_another_user(tmp_path: Path, headers: tuple[str, ...]) -> None:
    """What a proxy in front reads in another way, or leaves through, would speak for somebody else."""
    async with support.served(tmp_path) as served:
        code, answer = await _raw(served, _request(support.PATH, *headers))
        assert code in (200, 400), answer
        assert not any(name.encode() in answer for name in support.NODES)
        asked = [seen.json["spec"].get("token") for seen in served.api.seen if seen.path.endswith("tokenreviews")]
        assert "operator-token" not in asked


@pytest.mark.parametrize(
    "path",
    [
        "/v1/namespaces/default/pods/../pods/large/explanation",
        "/v1/namespaces/default/pods/large%2f..%2fother/explanation",
        "/v1/namespaces/default/pods/%2e%2e/explanation",
        "/v1/namespaces/default/pods/../explanation",
        "/v1/namespaces/default%2fpods/large/explanation",
        "//v1/namespaces/default/pods/large/explanation",
        "/v1/namespaces/default/pods/large/explanation/",
        "/v1/namespaces/default/pods/large;a=b/explanation",
        "/v1/namespaces/*/pods/*/explanation",
        "/v1/namespaces//pods//explanation",
        "/../../etc/passwd",
        "/metrics",
        "/debug/pprof",
        "*",
        "http://127.0.0.1/v1/namespaces/other/pods/x/explanation",
        "/v1/namespaces/default/pods/large%00/explanation",
    ],
)
async def test_no_path_leads_past_the_review(tmp_path: Path, path: str) -> None:
    """What is reviewed and what is explained must be the same pod, however the path is spelt."""
    async with support.served(tmp_path) as served:
        code, answer = await _raw(served, _request(path))
        assert code in (400, 403, 404), answer
        assert b"uid-of-large" not in answer
        for seen in served.api.seen:
            attributes = seen.json["spec"].get("resourceAttributes", {})
            assert attributes.get("name", "x").replace("-", "").isalnum()


@pytest.mark.parametrize(
    ("request_bytes", "codes"),
    [
        pytest.param(_request(method="POST"), (405,), id="another-method"),
        pytest.param(_request(method="DELETE"), (405,), id="a-method-that-writes"),
        pytest.param(_request(support.PATH, "Content-Length: 5") + b"hello", (400,), id="a-body"),
        pytest.param(_request(support.PATH, "X: " + "y" * 100_000), (400,), id="a-long-header"),
        pytest.param(_request("/" + "l" * 100_000), (400, 414), id="a-long-path"),
        pytest.param(_request(f"{support.PATH}?nodes=" + "n" * 7000), (414,), id="a-long-query"),
        pytest.param(_request(f"{support.PATH}?%ff%fe=%00"), (400,), id="no-text"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", (400, 505), id="another-version"),
    ],
)
async def test_a_request_that_is_wrong_is_refused(tmp_path: Path, request_bytes: bytes, codes: tuple[int, ...]) -> None:
    """And the next one is answered."""
    async with support.served(tmp_path) as served:
        code, answer = await _raw(served, request_bytes)
        assert code in codes, answer
        assert (await served.get(user="developer"))[0] == 200


async def test_plain_http_is_refused_where_there_is_a_certificate(tmp_path: Path) -> None:
    """A token would go over the network for everybody to read."""
    async with support.served(tmp_path) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(_request())
        assert (await reader.read(1 << 16)).startswith(b"HTTP/1.0 400")
        writer.close()
        assert not served.api.seen


@pytest.mark.parametrize(
    ("host", "code"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example.com", 403), ("10.0.0.1:80", 403)],
)
async def test_loopback_without_reviews_answers_its_own_machine(tmp_path: Path, host: str, code: int) -> None:
    """A web page whose name resolves to 127.0.0.1 would read the cluster through a browser."""
    async with support.served(tmp_path, tls=False, reviews=False) as served:
        found, document, headers = await served.get(headers={"Host": host})
        assert found == code, document
        assert "Access-Control-Allow-Origin" not in headers
        assert not served.api.seen


# Many requests.


class _Users:
    """Callers are whom the header says; each may see all."""

    async def authenticate(self, request: web.Request) -> User:
        return User(request.headers["X-User"])

    async def check_may_get_pod(self, user: User, namespace: str, name: str) -> None:
        pass

    async def find_viewer(self, user: User) -> visibility.Viewer:
        return visibility.Viewer(lists_nodes=True, lists_pods=True)


class _SlowService:
    """Explains when the test says so; counts how many it explains at once."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.console = console_state.ConsoleState(cluster, lambda: 0.0)
        self.running = self.most = 0
        self.goes_on = asyncio.Event()
        self.http_metrics = http_metrics.HttpMetrics()

    def remembered_names(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(), frozenset()

    async def explain_decision(self, request: Any, caller: str) -> None:
        raise AssertionError("nobody asks")

    async def simulate(self, request: Any, caller: str) -> simulation_pb2.SimulateResponse:
        await self._wait()
        return simulation_pb2.SimulateResponse()

    async def explain(self, request: insight_pb2.ExplainRequest, caller: str) -> insight_pb2.ExplainResponse:
        await self._wait()
        return insight_pb2.ExplainResponse(node_count=3)

    async def _wait(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.goes_on.wait()
        finally:
            self.running -= 1


def _made(user: str) -> web.Request:
    transport = mock.Mock(spec=asyncio.Transport)
    transport.is_closing.return_value = False
    headers = {"X-User": user, "Host": "x"}
    return test_utils.make_mocked_request("GET", support.PATH, headers=headers, transport=transport)


async def test_requests_are_counted_by_page_and_code(tmp_path: Path) -> None:
    """Refusals and slow answers would be seen by callers alone; a path of a caller's choice is no label."""
    async with support.served(tmp_path) as site:
        for path, user in (
            (support.PATH, "operator"),
            (support.PATH, "nobody"),
            (support.PATH.replace("explanation", "decision"), "operator"),
            ("/v1/whatever/it/is", "operator"),
        ):
            await site.get(path, user)
        requests, seconds = (each.family() for each in site.service.http_metrics.instruments())
    counts = {tuple(sample.labels.values()): sample.value for sample in requests.samples}
    assert counts == {
        ("explanation", "200"): 1,
        ("explanation", "403"): 1,
        ("decision", "404"): 1,
        ("none", "404"): 1,
    }
    totals = {sample.labels["page"]: sample.value for sample in seconds.samples if sample.name.endswith("_count")}
    assert totals == {"explanation": 2, "decision": 1, "none": 1}


async def test_ten_thousand_requests_of_one_caller_leave_places_for_others() -> None:
    """One user with a loop would keep everybody from answers, or fill the memory."""
    slow = _SlowService((await support.replica()).cluster)
    served = api.HttpApi(slow, _Users())  # type: ignore[arg-type]
    request = _made("greedy")
    flood = [asyncio.create_task(served.reply_to(request)) for _ in range(10_000)]
    await asyncio.sleep(0)
    others = [asyncio.create_task(served.reply_to(_made(f"modest-{number}"))) for number in range(10)]
    while sum(task.done() for task in flood) < 9_900 or slow.running < 20:
        await asyncio.sleep(0)
    assert slow.most < api.MAX_REQUESTS
    slow.goes_on.set()
    codes = Counter([(await task).status for task in flood])
    assert set(codes) == {200, 429}
    assert codes[200] <= api.MAX_REQUESTS // 4
    refused = next(reply for reply in [task.result() for task in flood] if reply.status == 429)
    assert refused.headers["Retry-After"] == "1"
    assert _is_status(json.loads(refused.body), 429, "TooManyRequests")
    assert [(await task).status for task in others] == [200] * 10
    assert (await served.reply_to(_made("greedy"))).status == 200


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
async def test_each_of_many_requests_on_connections_of_their_own_has_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """A connection that is closed without an answer tells its caller nothing.

    `--http-listen` is asked for forty times as much as it takes at once; 10,000 requests to 512 connections are twenty.
    """
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 16)
    monkeypatch.setattr(tls_acceptor, "MAX_HANDSHAKES", 16)
    async with support.served(tmp_path, tls=tls, reviews=tls) as site:
        context = ssl.create_default_context(cadata=site.authority.certificate.decode()) if tls else False
        headers = {"Authorization": "Bearer operator-token"} if tls else {}
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def code() -> int:
                async with session.get(site.url + support.PATH) as response:
                    assert response.status == 200 or _is_status(await response.json(), 429, "TooManyRequests")
                    return response.status

            codes = Counter(await asyncio.gather(*(code() for _ in range(640))))
    assert codes[200]
    assert set(codes) <= {200, 429}


async def test_a_request_that_takes_too_long_ends() -> None:
    """A remote plugin that hangs would hold the places of its callers."""
    slow = _SlowService((await support.replica()).cluster)
    served = api.HttpApi(slow, _Users(), seconds=0.05)  # type: ignore[arg-type]
    reply = await served.reply_to(_made("a"))
    assert _is_status(json.loads(reply.body), 504, "Timeout")
    assert slow.running == 0


@pytest.mark.parametrize("page", [f"GET {support.PATH}", "POST /v1/simulation"])
async def test_what_nobody_waits_for_any_more_ends(tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations of callers who went away would keep the others waiting, and hold the places of their user."""
    slow = _SlowService((await support.replica()).cluster)
    for rpc in ("explain", "simulate"):
        monkeypatch.setattr(service.InsightService, rpc, lambda *call, rpc=rpc: getattr(slow, rpc)(*call[1:]))
    body = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" if page.startswith("POST") else "\r\n"

    async def until(number: int) -> None:
        async with asyncio.timeout(_SECONDS):
            while slow.running != number:
                await asyncio.sleep(0.01)

    async with support.served(tmp_path, tls=False, reviews=False) as served:
        for close in (asyncio.StreamWriter.close, _reset):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(f"{page} HTTP/1.1\r\nHost: localhost\r\n{body}".encode())
            await until(1)
            close(writer)
            await until(0)


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def test_unknown_callers_of_one_address_hold_no_place_of_known_ones(tmp_path: Path) -> None:
    """Reviews of random tokens that are slow would keep out those who are known."""
    arrived, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(_Users):
        async def authenticate(self, request: web.Request) -> User:
            if request.headers["X-User"] == "unknown":
                arrived.set()
                await goes_on.wait()
            return await super().authenticate(request)

    slow: access.Access = Slow()
    replica = await support.replica()
    served = api.HttpApi(replica, slow)
    request = _made("unknown")
    flood = [asyncio.create_task(served.reply_to(request)) for _ in range(1_000)]
    await arrived.wait()
    await asyncio.sleep(0)
    assert served._authentications.in_use <= api.MAX_AUTHENTICATIONS // 4
    assert served._places.in_use == 0
    goes_on.set()
    assert {(await task).status for task in flood} == {200, 429}
