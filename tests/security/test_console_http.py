"""The console over HTTP: who may read which view, which files are served, and how the page is kept from others."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yarl

from tests.helpers import insight_http as support
from trireme.insight.console import assets, views
from trireme.v1 import core_pb2, snapshot_pb2

VIEWS = [view.path.format(namespace="default", name="large") for view in views.VIEWS]
TRAVERSALS = [
    "/../visibility.py",
    "/static/../../service.py",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/console.js/../../service.py",
    "//etc/passwd",
    "/console.js%00.html",
    "/static/console.js",
    "/index.html",
    "/.",
    "/C:/console.js",
    "/%5cconsole.js",
]


async def _raw_get(served: support.Served, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
    """A request whose path is sent as it is."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.get(yarl.URL(served.url + path, encoded=True), headers=headers or {}) as response,
    ):
        return response.status, await response.read(), response.headers


@pytest.mark.parametrize("path", VIEWS)
async def test_views_need_credentials(tmp_path: Path, path: str) -> None:
    """The state of the cluster would be everybody's who reaches the port."""
    async with support.served(tmp_path) as served:
        assert (await served.get(path))[0] == 401
        assert (await served.get(path, headers={"Authorization": "Bearer wrong"}))[0] == 401


async def test_each_view_is_for_those_who_may_list_what_it_shows(tmp_path: Path) -> None:
    """A reader of one pod would read all nodes, pods and addresses."""
    async with support.served(tmp_path) as served:
        codes = {}
        for view in views.VIEWS:
            path = view.path.format(namespace="default", name="n0" if "nodes" in view.path else "large")
            code, document, _ = await served.get(path, "developer")
            codes[path] = code
            if code == 403:
                assert "which this page needs" in document["message"]
            assert (await served.get(path, "operator"))[0] == 200
        listing = [view.nodes or view.pods for view in views.VIEWS]
        assert list(codes.values()) == [403 if needed else 200 for needed in listing]


async def test_a_timeline_is_for_those_who_may_get_the_pod(tmp_path: Path) -> None:
    """Whether a pod exists, and what happens to it, would be everybody's."""
    async with support.served(tmp_path) as served:
        for name in ("large", "absent"):
            assert (await served.get(f"/v1/namespaces/default/pods/{name}/timeline", "nobody"))[0] == 403
        code, document, _ = await served.get("/v1/namespaces/default/pods/pod-0/timeline", "developer")
        assert (code, document["node"]) == (200, "(a node)")


async def test_names_of_what_is_gone_are_hidden_too(tmp_path: Path) -> None:
    """A pod's reason stays as it was; its node's name would show as soon as an autoscaler removes the node."""
    async with support.served(tmp_path) as served:
        cluster = served.service.cluster
        before, size = cluster.snap.generation, cluster.snap.nodes.size

        def take(delta: snapshot_pb2.Delta) -> None:
            cluster.apply(delta)
            served.service.take(snapshot_pb2.SyncRequest(delta=delta))

        node = core_pb2.Node(metadata={"name": "vault-7"})
        entry = snapshot_pb2.NodeEntry(slot=size, node=node)
        take(snapshot_pb2.Delta(from_generation=before, to_generation=before + 1, nodes=[entry]))
        large = support.queued("large", 2)
        large.reason = "Licences refused it at Reserve, on node vault-7"
        cluster.apply_queue(snapshot_pb2.QueueDelta(pods=[large]))
        take(snapshot_pb2.Delta(from_generation=before + 1, to_generation=before + 2, removed_slots=[size]))
        for path in (support.PATH, support.PATH.replace("explanation", "timeline"), "/v1/pending"):
            code, document, _ = await served.get(path, "developer")
            assert code == 200
            assert "vault" not in str(document)
        assert "vault-7" in str((await served.get(support.PATH, "operator"))[1])


async def test_names_are_hidden_from_those_who_may_list_neither(tmp_path: Path) -> None:
    """Reasons and counts are for everybody with a token; names are not."""
    async with support.served(tmp_path) as served:
        for path in ("/v1/overview", "/v1/pending", "/v1/preemptions"):
            text = str((await served.get(path, "developer"))[1])
            assert not any(name in text for name in (*support.NODES, "large", "small", "pod-0"))


@pytest.mark.parametrize("path", TRAVERSALS)
async def test_no_path_leads_to_other_files(tmp_path: Path, path: str) -> None:
    """The server's files would be open to anybody who reaches the port."""
    async with support.served(tmp_path) as served:
        code, body, _ = await _raw_get(served, path)
        assert code in (400, 401, 404)
        assert b"import" not in body
        assert b"root:" not in body


async def test_the_page_is_served_without_credentials_and_guarded(tmp_path: Path) -> None:
    """The login is part of the page. No script of elsewhere may run in it, and no other page may embed it."""
    async with support.served(tmp_path) as served:
        for path in ("/", "/console.js", "/console.css", "/icon.svg"):
            code, body, headers = await _raw_get(served, path)
            assert (code, len(body) > 100) == (200, True)
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in headers
            again = await _raw_get(served, path, {"If-None-Match": headers["ETag"]})
            assert (again[0], again[1]) == (304, b"")


async def test_a_view_that_did_not_change_is_not_sent_again(tmp_path: Path) -> None:
    """Pages that are left open would have every document made again each second. The right to read is checked first."""
    async with support.served(tmp_path) as served:
        _, _, headers = await served.get("/v1/nodes", "operator")
        known = {"If-None-Match": headers["ETag"]}
        operator = {"Authorization": "Bearer operator-token", **known}
        assert (await _raw_get(served, "/v1/nodes", operator))[0] == 304
        assert (await _raw_get(served, "/v1/nodes", {"Authorization": "Bearer developer-token", **known}))[0] == 403
        assert (await _raw_get(served, "/v1/nodes?label=other", operator))[0] == 200


async def test_a_query_that_is_wrong_is_named(tmp_path: Path) -> None:
    """A misspelt name would be passed over."""
    async with support.served(tmp_path) as served:
        code, document, _ = await served.get("/v1/nodes?zone=a", "operator")
        assert (code, document["message"]) == (
            400,
            "the query has an unknown name; known are after, incarnation, label and pretty",
        )
        assert (await served.get("/v1/nodes/n9", "operator"))[0] == 404


@pytest.mark.parametrize("path", ["/", "/v1/overview"])
async def test_the_console_only_reads(tmp_path: Path, path: str) -> None:
    """A page of elsewhere could have a reader's browser send something."""
    async with (
        support.served(tmp_path, reviews=False, tls=False) as served,
        aiohttp.ClientSession() as session,
        session.post(served.url + path, data=b"x") as response,
    ):
        assert response.status == 405


async def test_on_loopback_no_page_of_elsewhere_reads_views(tmp_path: Path) -> None:
    """A name that resolves to this machine would let any page read the cluster (DNS rebinding)."""
    async with support.served(tmp_path, reviews=False, tls=False) as served:
        assert (await _raw_get(served, "/v1/overview"))[0] == 200
        assert (await _raw_get(served, "/v1/overview", {"Host": "evil.example"}))[0] == 403


def test_files_are_named_and_not_looked_up() -> None:
    """Another file in the folder would be served."""
    assert assets.find("/console.js") is not None
    assert assets.find("/index.html") is None
    assert assets.find("/../console_state.py") is None
