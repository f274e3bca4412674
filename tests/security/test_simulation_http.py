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
