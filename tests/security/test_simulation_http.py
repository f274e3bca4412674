"""Simulations over HTTP: an answer names all nodes and pods, so it is for those who may list both."""

import io
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.helpers import insight_http

PATH = "/v1/simulation"


async def _post(
    server: insight_http.Served, user: str = "", body: Any = None, path: str = PATH, **more: Any
) -> tuple[int, dict[str, Any]]:
    """The code and the JSON of an answer."""
    headers = {"Authorization": f"Bearer {user}-token"} if user else {}
    sent = {} if body is None else {"data": io.BytesIO(orjson.dumps(body))}
    headers |= {"Content-Type": "application/json"} if sent else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.url + path, headers=headers, ssl=False, **sent, **more) as response,
    ):
        return response.status, await response.json(content_type=None)


async def test_who_may_list_nodes_and_pods_may_simulate(tmp_path: Path) -> None:
    async with insight_http.served(tmp_path) as server:
        question = {"scenario": {"withoutPendingPods": True}}
        assert (await _post(server, "", question))[0] == 401
        for user in ("nobody", "developer"):
            code, refusal = await _post(server, user, question)
            assert code == 403
            assert f'User "{user}" cannot list resource "nodes" at the cluster scope' in refusal["message"]
            assert "pod-0" not in refusal["message"]
        code, answer = await _post(server, "operator", question)
        assert code == 200
        assert answer["before"]["nodeCount"] == 3
        assert answer["before"]["placedPods"] == 1


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ({"scenario": {"changess": []}}, 400, "the body is no SimulateRequest"),
        ({"scenario": {"changes": [{"drain": {"nodeNames": ["x"]}}]}}, 400, "drain.nodeNames: there is no node x"),
        ({}, 400, "the request has no question"),
        (
            {"scenario": {"changes": [{"addPods": {"manifest": {"kind": "Pod", "spec": {"tolerationz": []}}}}]}},
            400,
            "scenario.changes[0].addPods.manifest: spec.tolerationz: unknown field of Pod",
        ),
        (7, 400, "the body is no SimulateRequest"),
        ({"scenario": {"changes": [{"drain": {"nodeNames": ["x" * 2_000_000]}}]}}, 413, "more than 1 MiB"),
    ],
    ids=["unknown field", "unknown node", "no question", "unknown field of a manifest", "a number", "too large"],
)
async def test_bad_questions_are_named(tmp_path: Path, body: Any, code: int, text: str) -> None:
    """Who posts by curl has only the answer to find the mistake."""
    async with insight_http.served(tmp_path) as server:
        status, refusal = await _post(server, "operator", body)
        assert (status, refusal["kind"]) == (code, "Status")
        assert text in refusal["message"]


async def test_only_json_is_posted(tmp_path: Path) -> None:
    """A form of another site could post without a preflight otherwise."""
    async with insight_http.served(tmp_path) as server:
        status, refusal = await _post(server, "operator", data=b"{}")
        assert (status, refusal["reason"]) == (415, "UnsupportedMediaType")
        status, refusal, _ = await server.get(PATH, user="operator")
        assert (status, refusal["reason"]) == (405, "MethodNotAllowed")
        status, refusal = await _post(server, "operator", {"scenario": {}}, f"{PATH}?nodes=a")
        assert status == 400
        assert "known is pretty" in refusal["message"]


MANIFESTS = f"{PATH}/manifests"
POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: new}
spec: {schedulerName: p, containers: [{name: main, image: x}]}
"""


async def _submit(
    server: insight_http.Served, user: str, body: bytes, query: str = "", content_type: str = "application/yaml"
) -> tuple[int, dict[str, Any]]:
    """The code and the JSON of an answer about manifests."""
    headers = {"Authorization": f"Bearer {user}-token", "Content-Type": content_type}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}{MANIFESTS}{query}", headers=headers, ssl=False, data=io.BytesIO(body)) as response,
    ):
        return response.status, await response.json(content_type=None)


async def test_manifests_are_posted_as_they_are_and_have_verdicts(tmp_path: Path) -> None:
    async with insight_http.served(tmp_path) as server:
        code, answer = await _submit(server, "operator", POD, "?namespace=there")
        assert code == 200, answer
        (verdict,) = answer["verdicts"]
        assert (verdict["namespace"], verdict["verdict"]) == ("there", "VERDICT_FITS")
        of_json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "j"},
            "spec": {"containers": [{"name": "c"}]},
        }
        code, answer = await _submit(server, "operator", orjson.dumps(of_json), "", "application/json")
        assert code == 400
        assert answer["message"].startswith("document 1 (Pod j): spec.containers[0].image: Required value")


async def test_manifests_are_for_those_who_may_list_nodes_and_pods(tmp_path: Path) -> None:
    async with insight_http.served(tmp_path) as server:
        assert (await _submit(server, "developer", POD))[0] == 403


@pytest.mark.parametrize(
    ("body", "query", "content_type", "code", "text"),
    [
        (POD, "", "text/plain", 415, "send Content-Type: application/json or application/yaml"),
        (POD, "?nodes=a", "application/yaml", 400, "known is"),
        (b"---\n", "", "application/yaml", 400, "the body has no manifest"),
        (b"kind: [", "", "application/yaml", 400, "the body has no manifests: 2:1: did not find"),
        (
            POD.replace(b"image", b"imagee"),
            "",
            "application/yaml",
            400,
            "document 1 (Pod new): spec.containers[0].imagee",
        ),
        (b"#" * 1_100_000, "", "application/yaml", 413, "more than 1 MiB"),
    ],
    ids=["content type", "unknown query", "empty", "no yaml", "unknown field", "too large"],
)
async def test_bad_manifests_are_named(
    tmp_path: Path, body: bytes, query: str, content_type: str, code: int, text: str
) -> None:
    async with insight_http.served(tmp_path) as server:
        status, refusal = await _submit(server, "operator", body, query, content_type)
        assert (status, refusal["kind"]) == (code, "Status")
        assert text in refusal["message"]


async def test_aliases_that_grow_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 12)]
    async with insight_http.served(tmp_path) as server:
        status, refusal = await _submit(server, "operator", "\n".join(lines).encode())
        assert (status, refusal["kind"]) == (400, "Status")
        assert "excessive aliasing" in refusal["message"]
