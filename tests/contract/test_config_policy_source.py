"""A Policy that is in a ConfigMap of a cluster is read from there, or it is said why not."""

import json
from collections.abc import Callable

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import Seen, answer, failure, serving_in_a_thread
from trireme.cli.main import main

POLICY = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "HostName"}], "priorities": []}


def _convert(url: str) -> int:
    return main(["config", "convert", f"--master={url}", "--policy-configmap=p", "--policy-configmap-namespace=n"])


def test_a_policy_is_read_from_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return answer({"kind": "ConfigMap", "apiVersion": "v1", "data": {"policy.cfg": json.dumps(POLICY)}})

    with serving_in_a_thread(script) as server:
        assert _convert(server.url) == 0
        assert [(seen.method, seen.path) for seen in server.seen] == [("GET", "/api/v1/namespaces/n/configmaps/p")]
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "- name: NodeName" in captured.out


@pytest.mark.parametrize(
    ("response", "error"),
    [
        pytest.param(lambda: failure(404, "NotFound", "not there"), "ConfigMap n/p: ", id="not-found"),
        pytest.param(lambda: answer({"kind": "ConfigMap"}), "ConfigMap n/p: has no policy.cfg", id="no-policy"),
        pytest.param(
            lambda: answer({"kind": "ConfigMap", "data": {"policy.cfg": "[]"}}),
            "ConfigMap n/p: holds no object",
            id="odd",
        ),
    ],
)
def test_a_policy_that_cannot_be_read_is_reported(
    capsys: pytest.CaptureFixture[str], response: Callable[[], web.Response], error: str
) -> None:
    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return response()

    with serving_in_a_thread(script) as server:
        assert _convert(server.url) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"Error: {error}")
