"""The embedded API server over HTTP: watches, bookmarks, pages, races and faults, as a client sees them."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from tests.e2e.embedded_process import eventually
from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.cluster import EmbeddedCluster
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction
from trireme_kube.embedded.kubelet.kubelets import KubeletPace

PODS_PATH = "/api/v1/namespaces/default/pods"
JSON = {"Content-Type": "application/json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
DEADLINE = 10.0


class Client:
    """Plain requests against one cluster."""

    def __init__(self, cluster: EmbeddedCluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self.session = session

    async def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """Status code and decoded body."""
        data = None if body is None else orjson.dumps(body)
        async with self.session.request(
            method, self.cluster.url + path, data=data, headers=headers or JSON
        ) as response:
            return response.status, orjson.loads(await response.read() or b"null")

    async def unwatched(self) -> bool:
        """Whether the server has no watch open."""
        return self.cluster.server.watches == 0

    async def create_pod(self, name: str) -> Any:
        """Creates a pod that nobody schedules."""
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        code, pod = await self.call("POST", PODS_PATH, body)
        assert code == 201, pod
        return pod

    @contextlib.asynccontextmanager
    async def watch(self, query: str, headers: dict[str, str] | None = None) -> AsyncIterator[Watch]:
        """An open watch of pods."""
        url = f"{self.cluster.url}/api/v1/pods?watch=1&{query}"
        async with self.session.get(url, headers=headers) as response:
            assert response.status == 200
            yield Watch(response)


class Watch:
    """Events of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> dict[str, Any] | None:
        """The next event; None where the server ended the watch."""
        async with asyncio.timeout(DEADLINE):
            line = await self._response.content.readline()
        return orjson.loads(line) if line else None


@contextlib.asynccontextmanager
async def serving(nodes: int = 0, **options: Any) -> AsyncIterator[Client]:
    async with EmbeddedCluster(nodes, pace=KubeletPace(start=0, stop=0), **options) as cluster:
        timeout = aiohttp.ClientTimeout(total=DEADLINE * 3)
        async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2**20) as session:
            yield Client(cluster, session)


async def test_a_watch_streams_what_happens() -> None:
    """Every informer lives on this."""
    async with serving() as client, client.watch(f"resourceVersion={client.cluster.store.revision}") as watch:
        created = await client.create_pod("p")
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]) == ("ADDED", created)
        await client.call("DELETE", f"{PODS_PATH}/p")
        kinds = [(await watch.next() or {})["type"] for _ in range(2)]
        assert kinds == ["MODIFIED", "DELETED"]


async def test_bookmarks_carry_the_version_forward() -> None:
    """An informer of a quiet resource resumes from the bookmark instead of listing again."""
    async with serving(bookmark_interval=0.05) as client:
        start = client.cluster.store.revision
        async with client.watch(f"resourceVersion={start}&allowWatchBookmarks=true") as watch:
            await client.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
            while True:
                event = await watch.next()
                assert event is not None
                assert event["type"] == "BOOKMARK"
                assert event["object"]["kind"] == "Pod"
                if event["object"]["metadata"]["resourceVersion"] == str(start + 1):
                    break


async def test_a_watch_list_marks_its_end() -> None:
    """Newer clients list by watching and wait for the mark before they call themselves synced."""
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with serving() as client:
        await client.create_pod("a")
        async with client.watch(query) as watch:
            first, end = await watch.next(), await watch.next()
            assert first is not None
            assert end is not None
            assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
            assert end["type"] == "BOOKMARK"
            assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await client.create_pod("b")
            later = await watch.next()
            assert later is not None
            assert later["object"]["metadata"]["name"] == "b"


async def test_a_resource_version_that_is_too_old_is_an_error_event() -> None:
    """The client has to list again; the real server says so in an ERROR event."""
    async with serving() as client:
        start = client.cluster.store.revision
        await client.create_pod("p")
        client.cluster.store.compact()
        async with client.watch(f"resourceVersion={start}") as watch:
            event = await watch.next()
            assert event is not None
            assert event["type"] == "ERROR"
            assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
            assert await watch.next() is None


async def test_a_client_that_does_not_read_loses_its_watch() -> None:
    """The server's memory is bounded; what was sent before the cut is whole lines."""
    async with serving(watch_buffer=50) as client:
        async with client.watch(f"resourceVersion={client.cluster.store.revision}") as watch:
            blob = "x" * 100_000
            for index in range(400):
                body = {"metadata": {"name": f"p{index}", "annotations": {"blob": blob}}}
                body["spec"] = {"containers": [{"name": "c", "image": "i"}]}
                client.cluster.registry.create(PODS, "default", body)
                if index % 10 == 0:
                    await asyncio.sleep(0)
            seen = 0
            while (event := await watch.next()) is not None:
                assert event["type"] == "ADDED"
                seen += 1
        assert seen < 400
        await eventually(client.unwatched)


async def test_a_client_that_goes_away_is_forgotten() -> None:
    """Watches of dead clients would pile up otherwise, quiet ones for an hour."""
    async with serving() as client:
        async with client.watch("resourceVersion=0"):
            assert client.cluster.server.watches == 1
        await eventually(client.unwatched)
        assert client.cluster.store.statistics().objects.get("pods") is None


async def test_a_table_watch_has_headers_once() -> None:
    """`kubectl get -w` prints the header from the first event only."""
    async with serving() as client, client.watch("resourceVersion=0", TABLE) as watch:
        for name in ("a", "b"):
            await client.create_pod(name)
        first, second = await watch.next(), await watch.next()
        assert first is not None
        assert second is not None
        assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][:3] == ["b", "0/1", "Pending"]


async def test_of_many_bindings_of_one_pod_one_wins() -> None:
    """However the requests interleave, a pod has one node."""
    async with serving(nodes=20) as client:
        await client.create_pod("p")
        bindings = [
            client.call(
                "POST", f"{PODS_PATH}/p/binding", {"metadata": {"name": "p"}, "target": {"name": f"node-{index}"}}
            )
            for index in range(20)
        ]
        codes = [code for code, _ in await asyncio.gather(*bindings)]
        assert sorted(codes) == [201] + [409] * 19
        _, pod = await client.call("GET", f"{PODS_PATH}/p")
        assert pod["spec"]["nodeName"] == f"node-{codes.index(201)}"


async def test_of_many_writes_with_one_version_one_wins() -> None:
    """Leader election rests on this."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    async with serving() as client:
        _, lease = await client.call("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "nobody"}})
        takers = [
            client.call("PUT", path, {**lease, "spec": {"holderIdentity": f"taker-{index}"}}) for index in range(10)
        ]
        codes = [code for code, _ in await asyncio.gather(*takers)]
        assert sorted(codes) == [200] + [409] * 9


@pytest.mark.parametrize(
    ("fault", "happened"),
    [
        pytest.param(Fault(FaultAction.DROP_BEFORE, method="POST"), False, id="dropped before"),
        pytest.param(Fault(FaultAction.DROP_AFTER, method="POST"), True, id="reply lost"),
        pytest.param(Fault(FaultAction.HANG, method="POST", seconds=0.01), False, id="hangs"),
    ],
)
async def test_faults_that_cost_the_reply(fault: Fault, happened: bool) -> None:
    """Bind must find out by reading whether its write happened: both cases have to be producible."""
    async with serving() as client:
        client.cluster.faults.add(fault)
        with pytest.raises(aiohttp.ClientError):
            await client.create_pod("p")
        assert fault.struck == 1
        code, _ = await client.call("GET", f"{PODS_PATH}/p")
        assert (code == 200) is happened
        await client.create_pod("next")


async def test_faults_that_answer_or_delay() -> None:
    """Retries with and without Retry-After are tested with these; the fault strikes as often as it was told."""
    async with serving() as client:
        client.cluster.faults.add(Fault(FaultAction.STATUS, path=r"/pods", code=429, retry_after=7, times=2))
        for _ in range(2):
            async with client.session.get(client.cluster.url + PODS_PATH) as response:
                assert response.status == 429
                assert response.headers["Retry-After"] == "7"
                assert orjson.loads(await response.read())["reason"] == "TooManyRequests"
        client.cluster.faults.add(Fault(FaultAction.DELAY, method="LIST", seconds=0.2))
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert (await client.call("GET", PODS_PATH))[0] == 200
        assert loop.time() - started >= 0.2


async def test_faults_from_another_process() -> None:
    """End-to-end tests run the cluster as its own process; without the flag nobody can arm anything."""
    async with serving(remote_faults=True) as client:
        code, state = await client.call("POST", "/trireme/faults", {"action": "status", "path": "/pods", "code": 503})
        assert (code, state["faults"][0]["times"]) == (200, 1)
        assert (await client.call("GET", PODS_PATH))[0] == 503
        assert (await client.call("GET", "/trireme/faults"))[1]["faults"][0]["struck"] == 1
        assert (await client.call("POST", "/trireme/faults", {"action": "explode"}))[0] == 400
        async with client.watch("resourceVersion=0") as watch:
            await client.call("DELETE", "/trireme/watches?resource=pods")
            assert await watch.next() is None
    async with serving() as client, client.session.post(client.cluster.url + "/trireme/faults", json={}) as response:
        assert response.status == 404


async def test_collections_are_deleted_by_selector() -> None:
    """`kubectl delete -l` and the namespace's end use it."""
    async with serving() as client:
        for index in range(4):
            await client.create_pod(f"p{index}")
        code, answer = await client.call("DELETE", f"{PODS_PATH}?fieldSelector=metadata.name!=p2")
        assert (code, len(answer["items"])) == (200, 3)
        assert [one.name for one in client.cluster.store.scan(PODS)] == ["p2"]


async def test_a_large_cluster_is_listed_in_pages() -> None:
    """Informers ask for pages of 500; all nodes must arrive once."""
    async with serving(nodes=1200) as client:
        names: list[str] = []
        token = ""
        while True:
            _, page = await client.call("GET", f"/api/v1/nodes?limit=500&continue={token}")
            names += [item["metadata"]["name"] for item in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        assert len(names) == len(set(names)) == 1200
        assert len(client.cluster.store.scan(BY_KEY["nodes"])) == 1200


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "code"),
    [
        ("GET", "/nope", None, None, 404),
        ("GET", "/api/v1/nope", None, None, 404),
        ("PUT", PODS_PATH, {}, None, 405),
        ("POST", f"{PODS_PATH}/p/status", {}, None, 405),
        ("POST", PODS_PATH, [], None, 400),
        ("POST", PODS_PATH, "text", None, 400),
        ("POST", PODS_PATH, {"metadata": []}, None, 400),
        ("POST", PODS_PATH, {}, {"Content-Type": "application/cbor"}, 415),
        ("PATCH", f"{PODS_PATH}/p", {}, {"Content-Type": "text/plain"}, 415),
        ("GET", f"{PODS_PATH}?limit=-1", None, None, 400),
        ("GET", f"{PODS_PATH}?watch=1&resourceVersion=x", None, None, 400),
        ("GET", f"{PODS_PATH}?continue=!!", None, None, 400),
        ("POST", PODS_PATH, {"spec": {"containers": [{"name": "x" * 4_000_000}]}}, None, 413),
    ],
)
async def test_requests_that_are_wrong(
    method: str, path: str, body: Any, headers: dict[str, str] | None, code: int
) -> None:
    """Each gets its answer, and the server goes on."""
    async with serving() as client:
        data = None if body is None else io.BytesIO(orjson.dumps(body))
        async with client.session.request(
            method, client.cluster.url + path, data=data, headers=headers or JSON
        ) as response:
            assert response.status == code
            await response.read()
        assert (await client.call("GET", PODS_PATH))[0] == 200


async def test_discovery_is_consistent() -> None:
    """The plain and the aggregated documents must name the same resources, each of which answers a list."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with serving() as client:
        plain: set[tuple[str, str]] = set()
        _, groups = await client.call("GET", "/apis")
        paths = [
            "/api/v1",
            *(f"/apis/{one['groupVersion']}" for group in groups["groups"] for one in group["versions"]),
        ]
        for path in paths:
            _, document = await client.call("GET", path)
            for entry in document["resources"]:
                if "/" not in entry["name"]:
                    plain.add((path, entry["name"]))
                    if "list" in entry["verbs"]:
                        assert (await client.call("GET", f"{path}/{entry['name']}"))[0] == 200
        aggregated: set[tuple[str, str]] = set()
        for root in ("/api", "/apis"):
            _, document = await client.call("GET", root, headers={"Accept": accept})
            for group in document["items"]:
                for version in group["versions"]:
                    parts = (root, group["metadata"].get("name", ""), version["version"])
                    path = "/".join(part for part in parts if part)
                    aggregated |= {(path, one["resource"]) for one in version["resources"]}
        assert plain == aggregated
        assert ("/api/v1", "pods") in plain


WEBSOCKET_HEADERS = {"Origin": "http://127.0.0.1"}


async def test_a_watch_may_be_a_websocket() -> None:
    """fabric8's informers ask for one, and take the first answer for granted."""
    async with serving() as client:
        url = f"{client.cluster.url}/api/v1/pods?watch=1&resourceVersion=0"
        async with client.session.ws_connect(url, headers=WEBSOCKET_HEADERS, protocols=["v4.example"]) as socket:
            assert socket.protocol == "v4.example"
            await client.create_pod("a")
            await client.create_pod("b")
            for name in ("a", "b"):
                event = orjson.loads((await socket.receive_str(timeout=DEADLINE)).encode())
                assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
        await eventually(client.unwatched)


async def test_the_server_ends_a_websocket_as_it_ends_a_watch() -> None:
    """By a close message after the last event, or after the error that a watch begins with."""
    async with serving() as client:
        pods = f"{client.cluster.url}/api/v1/pods?watch=1&resourceVersion="
        async with client.session.ws_connect(pods + "0&timeoutSeconds=1", headers=WEBSOCKET_HEADERS) as socket:
            assert (await socket.receive(timeout=DEADLINE)).type is aiohttp.WSMsgType.CLOSE
        await client.create_pod("a")
        client.cluster.store.compact()
        async with client.session.ws_connect(pods + "1", headers=WEBSOCKET_HEADERS) as socket:
            event = orjson.loads((await socket.receive_str(timeout=DEADLINE)).encode())
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
            assert (await socket.receive(timeout=DEADLINE)).type is aiohttp.WSMsgType.CLOSE


@pytest.mark.parametrize(
    ("headers", "protocols", "code"),
    [({}, [], 403), (WEBSOCKET_HEADERS, ["a.example", "b.example"], 400)],
    ids=["no origin", "two subprotocols"],
)
async def test_handshakes_that_are_refused(headers: dict[str, str], protocols: list[str], code: int) -> None:
    """As the API server refuses them: a client that comes through here would fail there."""
    async with serving() as client:
        url = f"{client.cluster.url}/api/v1/pods?watch=1"
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.session.ws_connect(url, headers=headers, protocols=protocols)
        assert caught.value.status == code
        await eventually(client.unwatched)
