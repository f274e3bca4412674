"""`kubectl trireme`: the frontend is found by kubectl, and asked with the identity of the kubeconfig."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.contract import https_server
from trireme.cli import cluster_connection, frontend_connection, main
from trireme.cli.cluster_connection import ClusterLink, FrontendPod, Kubectl, PortForward
from trireme.framework import programs

KUBECONFIG = """{
"apiVersion": "v1", "kind": "Config", "current-context": "c",
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"users": [{"name": "u", "user": {"token": "secret of ann"}}]}"""

# It answers what the file beside it says, and forwards ports by their names alone.
KUBECTL = """#!{python}
import json, os, pathlib, sys, time
said = json.loads(pathlib.Path(__file__).with_name("said.json").read_text())
words = [word for word in sys.argv[1:] if not word.startswith("-")]
with pathlib.Path(__file__).with_name("calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
answer = said[words[0]]
if isinstance(answer, dict) and "items" in answer:
    namespaces = [word.removeprefix("--namespace=") for word in sys.argv if word.startswith("--namespace=")]
    pods = answer["items"]
    answer["items"] = [each for each in pods if each["metadata"]["namespace"] in namespaces or not namespaces]
if words[0] == "port-forward":
    answer = answer.get(words[1].removeprefix("pod/"))
    if answer is None:
        sys.exit("error: unable to forward port because pod is not running")
    print(f"Forwarding from 127.0.0.1:{{answer}} -> 10259", flush=True)
    print("Handling connection for 1\\n" * said.get("connections", 1), flush=True)
    end = time.monotonic() + said.get("seconds", 60)
    while time.monotonic() < end:
        time.sleep(0.05)
    sys.exit()
if isinstance(answer, str):
    sys.exit(answer)
print(json.dumps(answer))
"""


@contextlib.asynccontextmanager
async def _frontend(folder: Path, name: str, holder: str, seen: list[tuple[str, str]]) -> AsyncIterator[int]:
    """A frontend that knows who leads; gives its port. `seen` gets its name and the credentials that it is shown."""

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.append((name, request.headers.get("Authorization", "")))
        leadership = {"leading": holder.startswith(name), "holder": holder}
        return web.json_response({"leadership": leadership, "pendingPods": len(name)})

    async with https_server.serving(folder, answer) as port:
        yield port


def _pod(
    name: str,
    *,
    ready: bool = True,
    container: str = "frontend",
    namespace: str = "trireme-system",
    scheduler: str = "trireme-frontend",
) -> Mapping[str, Any]:
    labels = {"app.kubernetes.io/name": scheduler}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"containers": [{"name": container, "ports": [{"name": "https", "containerPort": 10259}]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def _kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, said: Mapping[str, Any]) -> None:
    program = folder / "kubectl"
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    (folder / "said.json").write_text(json.dumps({"config": json.loads(KUBECONFIG), **said}))
    monkeypatch.setenv("PATH", str(folder))


async def _run(*arguments: str) -> int:
    return await asyncio.to_thread(main.main_under_kubectl, arguments)


@pytest.mark.parametrize(
    ("pods", "asked"),
    [
        pytest.param([_pod("a"), _pod("b")], ["a"], id="a-standby-names-the-leader"),
        pytest.param([_pod("a", ready=False), _pod("b")], ["b"], id="ready-pods-come-first"),
        pytest.param([_pod("gone"), _pod("b")], ["b"], id="a-pod-that-cannot-be-reached-is-passed-over"),
        pytest.param([_pod("i", container="insight"), _pod("b")], ["b"], id="other-pods-are-not-asked"),
        pytest.param([_pod("a", namespace="a"), _pod("b")], ["b"], id="other-namespaces-get-no-token"),
    ],
)
async def test_the_leader_is_asked_as_the_user_of_the_kubeconfig(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pods: Sequence[Mapping[str, Any]],
    asked: Sequence[str],
) -> None:
    seen: list[tuple[str, str]] = []
    async with _frontend(tmp_path, "a", "b_1f", seen) as a, _frontend(tmp_path, "b", "b_1f", seen) as b:
        _kubectl(tmp_path, monkeypatch, {"get": {"items": pods}, "port-forward": {"a": a, "b": b}})
        assert await _run("status", "--output=json") == 0
    assert json.loads(capsys.readouterr().out)["leadership"]["leading"]
    assert seen == [(name, "Bearer secret of ann") for name in [*asked, "b"]]


async def test_a_standby_answers_where_the_leader_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _frontend(tmp_path, "a", "b_1f", []) as a:
        _kubectl(tmp_path, monkeypatch, {"get": {"items": [_pod("a"), _pod("b")]}, "port-forward": {"a": a}})
        assert await _run("status", "--output=json") == 0
    assert not json.loads(capsys.readouterr().out)["leadership"]["leading"]


async def test_flags_choose_the_cluster_and_the_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _frontend(tmp_path, "a", "a_1f", []) as a:
        _kubectl(tmp_path, monkeypatch, {"get": {"items": [_pod("a", namespace="ours")]}, "port-forward": {"a": a}})
        flags = ("--kubeconfig=/k", "--context=other", "--scheduler-namespace=ours")
        assert await asyncio.to_thread(main.main, ["status", "--output=json", *flags]) == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert all(call.startswith("--kubeconfig=/k --context=other ") for call in calls)
    assert any("get pods --namespace=ours --selector=app.kubernetes.io/part-of=trireme" in call for call in calls)


FORBIDDEN = 'Error from server (Forbidden): pods is forbidden: User "ann" cannot list resource "pods"'


@pytest.mark.parametrize(
    ("said", "error"),
    [
        pytest.param(
            {"get": {"items": []}},
            "no frontend of Trireme runs in namespace trireme-system, nor in any other",
            id="not-installed",
        ),
        pytest.param(
            {"get": {"items": [_pod("a", namespace="ours")]}},
            "in namespace trireme-system: name the scheduler's own by --scheduler-namespace; there are some in ours",
            id="elsewhere",
        ),
        pytest.param(
            {"get": {"items": [_pod("a"), _pod("b", scheduler="other-frontend")]}},
            "several schedulers run in namespace trireme-system (other-frontend, trireme-frontend)",
            id="several",
        ),
        pytest.param({"get": FORBIDDEN}, 'User "ann" cannot list resource "pods"', id="forbidden"),
        pytest.param(
            {"get": {"items": [_pod("a")]}, "port-forward": {}},
            "trireme-system/a: kubectl port-forward: unable",
            id="gone",
        ),
    ],
)
async def test_an_error_is_one_line_that_says_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: Mapping[str, Any],
    error: str,
) -> None:
    _kubectl(tmp_path, monkeypatch, said)
    assert await _run("status") == 1
    printed = capsys.readouterr().err
    assert error in printed
    assert len(printed.splitlines()) == 1


async def test_without_kubectl_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await _run("status") == 1
    assert "kubectl cannot be run (No such file or directory)" in capsys.readouterr().err


async def test_commands_that_ask_no_frontend_need_no_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await _run("completion", "bash") == 0


async def test_a_forward_that_ended_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch would go on at a port that may belong to somebody else."""
    async with _frontend(tmp_path, "a", "a_1f", []) as a:
        said = {"get": {"items": [_pod("a")]}, "port-forward": {"a": a}, "seconds": 0.5}
        _kubectl(tmp_path, monkeypatch, said)
        with contextlib.closing(ClusterLink(Kubectl("", ""), "trireme-system")) as link:
            asking = frontend_connection.options_of_link(link)
            for _ in range(2):
                assert await frontend_connection.fetch_report(asking, programs.STATUS_PATH, {})
                await asyncio.sleep(1.0)
    assert sum("port-forward" in call for call in (tmp_path / "calls").read_text().splitlines()) == 2


async def test_a_new_leader_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_connection, "_LEADER_SECONDS", 0.0)
    seen: list[tuple[str, str]] = []
    async with _frontend(tmp_path, "a", "b_1f", seen) as a, _frontend(tmp_path, "b", "b_1f", seen) as b:
        _kubectl(tmp_path, monkeypatch, {"get": {"items": [_pod("a")]}, "port-forward": {"a": a, "b": b}})
        with contextlib.closing(ClusterLink(Kubectl("", ""), "trireme-system")) as link:
            asking = frontend_connection.options_of_link(link)
            assert not (await frontend_connection.fetch_report(asking, programs.STATUS_PATH, {}))["leadership"][
                "leading"
            ]
            said = {"get": {"items": [_pod("a"), _pod("b")]}, "port-forward": {"a": a, "b": b}}
            _kubectl(tmp_path, monkeypatch, said)
            assert (await frontend_connection.fetch_report(asking, programs.STATUS_PATH, {}))["leadership"]["leading"]


async def test_any_number_of_connections_is_forwarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each one kubectl prints a line, and would wait for a reader."""
    async with _frontend(tmp_path, "a", "a_1f", []) as a:
        said = {"get": {"items": [_pod("a")]}, "port-forward": {"a": a}, "connections": 10_000, "seconds": 1.0}
        _kubectl(tmp_path, monkeypatch, said)
        with contextlib.closing(PortForward(Kubectl("", ""), FrontendPod("trireme-system", "a", 10259, ""))) as forward:
            await asyncio.sleep(2.0)
            assert forward.ended


async def test_paths_begin_where_kubectl_has_them_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("secret of bob")
    config = json.loads(KUBECONFIG)
    config["users"][0]["user"] = {"tokenFile": "token", "exec": {"command": "./login"}}
    _kubectl(tmp_path, monkeypatch, {"config": config})
    (user,) = Kubectl(str(tmp_path / "config"), "").kubeconfig_of_context()["users"]
    assert user["user"] == {"tokenFile": f"{tmp_path}/token", "exec": {"command": f"{tmp_path}/login"}}
