"""The raw client over a real socket: what it sends, and what becomes of every kind of answer."""

import asyncio
import base64
import pathlib
import stat
import time
from typing import Any

import pytest
from aiohttp import web

from tests.contract import kube_fake_server as fake
from tests.contract.kube_fake_server import Authority, Seen, answer, failure, serving, write_kubeconfig
from trireme.framework import release
from trireme_kube.apimachinery import api_writes
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig import connection
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError, ApiSilent, ApiUnreachable


def _settings(server: str, **more: Any) -> client.ClientSettings:
    more = {"qps": -1.0, "user_agent": "trireme/test", **more}
    return client.ClientSettings(credentials.Source(master=server), **more)


def _from_kubeconfig(path: str) -> client.ClientSettings:
    return client.ClientSettings(credentials.Source(kubeconfig=path), qps=-1.0)


async def _ok(_request: web.Request, _seen: Seen) -> web.StreamResponse:
    return answer({"kind": "Thing"})


async def test_a_request_goes_out_as_it_was_meant() -> None:
    """If this fails, the API server gets a wrong path, body, content type or user agent."""
    async with serving(_ok) as server, await client.connect(_settings(server.url)) as api:
        response = await api.patch("/api/v1/nodes/a", {"x": 1}, {"fieldSelector": "a!=b,c=d", "limit": 5})
        assert response.json() == {"kind": "Thing"}
        await api.post("/api/v1/nodes", b"{}")
        await api.delete("/api/v1/nodes/a")
    patch, post, delete = server.seen
    assert (patch.method, patch.path, patch.body) == ("PATCH", "/api/v1/nodes/a", b'{"x":1}')
    assert patch.query == {"fieldSelector": "a!=b,c=d", "limit": "5"}
    assert patch.headers["Content-Type"] == api_writes.STRATEGIC_MERGE
    assert patch.headers["User-Agent"] == "trireme/test"
    assert post.headers["Content-Type"] == "application/json"
    assert (delete.method, delete.body) == ("DELETE", b"")


async def test_connections_are_reused() -> None:
    """If this fails, each request pays for a connection, and with TLS for a handshake."""
    peers = set()

    async def remember(request: web.Request, _seen: Seen) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return answer({})

    async with serving(remember) as server, await client.connect(_settings(server.url)) as api:
        for _ in range(5):
            await api.get("/x")
    assert len(peers) == 1


@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        pytest.param(lambda: failure(409, "Conflict"), 409, "Conflict", id="conflict"),
        pytest.param(lambda: web.Response(status=502, text="<html>"), 502, "", id="proxy"),
        pytest.param(
            lambda: web.Response(status=302, headers={"Location": "/login"}), 302, "", id="redirect-is-not-followed"
        ),
    ],
)
async def test_an_error_of_the_server_is_an_api_error(response: Any, status: int, reason: str) -> None:
    """If this fails, callers take an error for a success, or cannot tell what went wrong."""

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        result: web.StreamResponse = response()
        return result

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        with pytest.raises(ApiError) as caught:
            await api.post("/x", {})
        assert (caught.value.status, caught.value.reason) == (status, reason)
        assert api.statistics().failures == 1


async def test_an_answer_that_is_no_json_is_an_error() -> None:
    """If this fails, a login page where the API server should be ends a process with a traceback."""

    async def page(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return web.Response(text="<html>sign in")

    async with serving(page) as server, await client.connect(_settings(server.url)) as api:
        with pytest.raises(ApiError, match="not JSON: '<html>sign in'"):
            (await api.get("/x")).json()


async def test_a_refused_connection_was_certainly_not_sent() -> None:
    """If this fails, a write that never left is treated as uncertain, or an uncertain one as safe to repeat."""
    async with serving(_ok) as server:
        url = server.url
    async with await client.connect(_settings(url)) as api:
        with pytest.raises(ApiUnreachable) as caught:
            await api.post("/x", {})
    assert (caught.value.sent, caught.value.refused) == (False, True)


@pytest.mark.parametrize("way", ["silence", "hang-up"])
async def test_a_request_without_an_answer_may_have_been_carried_out(way: str) -> None:
    """If this fails, bind takes a binding that may exist for one that does not."""

    async def script(request: web.Request, _seen: Seen) -> web.StreamResponse:
        if way == "silence":
            await asyncio.sleep(30)
        assert request.transport is not None
        request.transport.abort()
        return answer({})

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        started = time.monotonic()
        with pytest.raises(ApiUnreachable) as caught:
            await api.post("/x", {}, deadline=0.3)
        assert caught.value.sent
        assert time.monotonic() - started < 5


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("PUT", 1), ("DELETE", 1), ("POST", 1)])
async def test_only_reads_are_retried_when_an_idle_connection_closes(method: str, times: int) -> None:
    """If this fails, a write is carried out twice unseen, or each idle connection costs a failed read."""
    calls = 0

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal calls
        calls += 1
        if calls == 2:
            assert request.transport is not None
            request.transport.abort()
        return answer({})

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        await api.get("/first")
        if times == 2:
            await api.request(method, "/x")
        else:
            with pytest.raises(ApiUnreachable) as caught:
                await api.request(method, "/x")
            assert caught.value.sent
    assert len(server.seen) == 1 + times


async def test_reads_are_repeated_while_the_server_is_busy() -> None:
    """If this fails, one 503 during a restart of the API server fails a read that had seconds left."""
    answers = [failure(503, "ServiceUnavailable"), failure(429, "TooManyRequests", headers={"Retry-After": "0"})]

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return answers.pop(0) if answers else answer({"ok": True})

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        assert (await api.read("/x", deadline=20)).json() == {"ok": True}
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("code", "headers"),
    [
        pytest.param(404, {}, id="a-plain-no"),
        pytest.param(503, {"Retry-After": "60"}, id="more-patience-asked-than-there-is"),
    ],
)
async def test_reads_are_not_repeated_in_vain(code: int, headers: dict[str, str]) -> None:
    """If this fails, a missing object costs a whole deadline, or Retry-After is ignored."""

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return failure(code, "X", headers=headers)

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        with pytest.raises(ApiError):
            await api.read("/x", deadline=5)
    assert len(server.seen) == 1


async def test_the_rate_limit_spaces_requests_and_never_outlasts_a_deadline() -> None:
    """If this fails, qps and burst are ignored, or a throttled request hangs beyond its deadline."""
    async with serving(_ok) as server, await client.connect(_settings(server.url, qps=10.0, burst=1)) as api:
        started = time.monotonic()
        await asyncio.gather(*(api.get("/x") for _ in range(4)))
        assert time.monotonic() - started >= 0.29
        assert api.statistics().throttled == 3
    async with serving(_ok) as server, await client.connect(_settings(server.url, qps=0.01, burst=1)) as api:
        await api.get("/x")
        with pytest.raises(ApiUnreachable, match="rate limit") as caught:
            await api.get("/x", deadline=0.2)
        assert not caught.value.sent


async def test_observers_see_each_request() -> None:
    """If this fails, the metrics of requests to the API server are wrong."""
    seen: list[tuple[str, int]] = []

    async def script(_request: web.Request, request: Seen) -> web.StreamResponse:
        return answer({}) if request.method == "GET" else failure(409, "Conflict")

    async with (
        serving(script) as server,
        await client.connect(
            _settings(server.url), observer=lambda method, status, _seconds, _waited: seen.append((method, status))
        ) as api,
    ):
        await api.get("/x")
        with pytest.raises(ApiError):
            await api.post("/x", {})
    assert seen == [("GET", 200), ("POST", 409)]


def _guarded(tokens: set[str]) -> Any:
    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        known = seen.headers.get("Authorization") in {f"Bearer {token}" for token in tokens}
        return answer({}) if known else failure(401, "Unauthorized")

    return script


async def test_a_rotated_token_file_is_read_again_when_the_old_token_is_rejected(tmp_path: pathlib.Path) -> None:
    """If this fails, the scheduler loses the API server when its token rotates."""
    tokens = {"one"}
    (tmp_path / "token").write_text("one\n")
    authority = Authority(tmp_path, "cluster")
    async with serving(_guarded(tokens), authority.server_context()) as server:
        cluster = {"certificate-authority": str(authority.path)}
        path = write_kubeconfig(tmp_path, server.url, cluster, {"tokenFile": "token"})
        async with await client.connect(_from_kubeconfig(path)) as api:
            await api.get("/x")
            tokens.clear()
            tokens.add("two")
            (tmp_path / "token").write_text("two\n")
            await asyncio.gather(*(api.post("/x", {}) for _ in range(5)))
            tokens.clear()
            with pytest.raises(ApiError, match="401"):
                await api.get("/x")


def _plugin(folder: pathlib.Path, script: str) -> dict[str, Any]:
    path = folder / "login"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "interactiveMode": "Never"}}


CREDENTIAL = """cat <<END
{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"$(cat TOKEN)"}}
END"""


async def test_a_credential_plugin_is_run_again_when_its_token_is_rejected(tmp_path: pathlib.Path) -> None:
    """If this fails, clusters whose kubeconfig uses a credential plugin are lost when the token runs out."""
    tokens = {"one"}
    (tmp_path / "t").write_text("one")
    user = _plugin(tmp_path, CREDENTIAL.replace("TOKEN", str(tmp_path / "t")))
    authority = Authority(tmp_path, "cluster")
    async with serving(_guarded(tokens), authority.server_context()) as server:
        path = write_kubeconfig(tmp_path, server.url, {"certificate-authority": str(authority.path)}, user)
        async with await client.connect(_from_kubeconfig(path)) as api:
            await api.get("/x")
            tokens.clear()
            tokens.add("two")
            (tmp_path / "t").write_text("two")
            await api.get("/x")
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        pytest.param("echo denied >&2; exit 3", "exec: process returned 3", id="exit-code"),
        pytest.param("echo '{}'", "malformed response. missing key 'apiVersion'", id="not-a-credential"),
        pytest.param("echo hello", "exec: failed to decode process output", id="not-json"),
    ],
)
async def test_a_credential_plugin_that_fails_is_reported(tmp_path: pathlib.Path, script: str, problem: str) -> None:
    """If this fails, a broken credential plugin shows as a puzzling 401 later on."""
    path = write_kubeconfig(tmp_path, "https://127.0.0.1:1", {}, _plugin(tmp_path, script))
    with pytest.raises(ConfigurationError) as caught:
        await client.connect(_from_kubeconfig(path))
    text = str(caught.value)
    assert text.startswith(f"kubeconfig {path}: users[me].user.exec: ")
    assert problem in text
    assert "\n" not in text


async def test_the_service_account_is_used_inside_a_cluster(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the scheduler does not run as a pod."""
    authority = Authority(tmp_path, "cluster")
    (tmp_path / "token").write_text("account")
    (tmp_path / "ca.crt").write_bytes(authority.path.read_bytes())
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)

    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        return answer({"who": seen.headers["Authorization"]})

    async with serving(script, authority.server_context()) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
        async with await client.connect(client.ClientSettings(credentials.Source(), qps=-1)) as api:
            assert (await api.get("/x")).json() == {"who": "Bearer account"}


async def test_outside_a_cluster_without_a_kubeconfig_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a scheduler started without any configuration ends in a traceback."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match=r"^no kubeconfig and no master given, and no service account found"):
        await client.connect(client.ClientSettings(credentials.Source()))


def _held(inline: bool, **files: str) -> dict[str, str]:
    """Fields of a kubeconfig that name files, or hold their content."""
    if not inline:
        return files
    read = {field: pathlib.Path(name).read_bytes() for field, name in files.items()}
    return {f"{field}-data": base64.b64encode(content).decode() for field, content in read.items()}


@pytest.mark.parametrize("inline", [False, True], ids=["files", "in-the-kubeconfig"])
async def test_tls_with_client_certificates(tmp_path: pathlib.Path, inline: bool) -> None:
    """If this fails, clusters whose users have certificates cannot be reached, or servers are not verified."""
    authority, stranger = Authority(tmp_path, "cluster"), Authority(tmp_path, "stranger")
    certificate, key = authority.issue("me")

    async def script(request: web.Request, _seen: Seen) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        return answer({"who": dict(pair for part in peer["subject"] for pair in part)["commonName"]})

    async with serving(script, authority.server_context()) as server:
        user = _held(inline, **{"client-certificate": certificate, "client-key": key})
        known = _held(inline, **{"certificate-authority": str(authority.path)})
        path = write_kubeconfig(tmp_path, server.url, known, user)
        async with await client.connect(_from_kubeconfig(path)) as api:
            assert (await api.get("/x")).json() == {"who": "me"}
        path = write_kubeconfig(tmp_path, server.url, {"certificate-authority": str(stranger.path)}, user)
        async with await client.connect(_from_kubeconfig(path)) as api:
            with pytest.raises(ApiUnreachable, match="certificate verify failed") as caught:
                await api.get("/x")
            assert not caught.value.sent
        path = write_kubeconfig(tmp_path, server.url, {"insecure-skip-tls-verify": True}, user)
        async with await client.connect(_from_kubeconfig(path)) as api:
            assert (await api.get("/x")).json() == {"who": "me"}


async def test_a_plugin_may_renew_the_client_certificate(tmp_path: pathlib.Path) -> None:
    """If this fails, short-lived client certificates end the connection for good when they run out."""
    authority = Authority(tmp_path, "cluster")
    names = {"first"}
    for name in ("first", "second"):
        authority.issue(name)
    code = (
        "import json,pathlib,sys; f=pathlib.Path(sys.argv[1]); n=(f/'who').read_text(); "
        "print(json.dumps(dict(apiVersion='client.authentication.k8s.io/v1',kind='ExecCredential',status=dict("
        "clientCertificateData=(f/(n+'.crt')).read_text(),clientKeyData=(f/(n+'.key')).read_text()))))"
    )
    (tmp_path / "who").write_text("first")
    user = _plugin(tmp_path, f'exec python3 -c "{code}" {tmp_path}')

    async def script(request: web.Request, _seen: Seen) -> web.StreamResponse:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        name = dict(pair for part in subject for pair in part)["commonName"]
        return answer({"who": name}) if name in names else failure(401, "Unauthorized")

    async with serving(script, authority.server_context()) as server:
        path = write_kubeconfig(tmp_path, server.url, {"certificate-authority": str(authority.path)}, user)
        async with await client.connect(_from_kubeconfig(path)) as api:
            assert (await api.get("/x")).json() == {"who": "first"}
            names.clear()
            names.add("second")
            (tmp_path / "who").write_text("second")
            assert (await api.get("/x")).json() == {"who": "second"}


async def test_a_renewed_certificate_is_used_by_all_connections(tmp_path: pathlib.Path) -> None:
    """If this fails, requests and watches go on with a certificate that has run out.

    Connections stay open for as long as the process runs. What is under way when the certificate is renewed still
    ends well.
    """
    authority = Authority(tmp_path, "cluster")
    files = {name: [pathlib.Path(path) for path in authority.issue(name)] for name in ("first", "second")}
    used = [tmp_path / "used.crt", tmp_path / "used.key"]
    now = 0.0
    let_go = asyncio.Event()
    transports: dict[str, asyncio.Transport] = {}

    def install(name: str) -> None:
        for source, target in zip(files[name], used, strict=True):
            target.write_bytes(source.read_bytes())

    async def script(request: web.Request, _seen: Seen) -> web.StreamResponse:
        assert request.transport is not None
        transports[request.path] = request.transport
        subject = request.transport.get_extra_info("peercert")["subject"]
        name = dict(pair for part in subject for pair in part)["commonName"]
        if request.path == "/watch":
            response = await fake.stream(request)
            await response.write(fake.line("ADDED", fake.thing(name, 1)))
            await asyncio.sleep(600)
        if request.path == "/slow":
            await let_go.wait()
        return answer({"who": name})

    async def closed(path: str) -> None:
        async with asyncio.timeout(20):
            while not transports[path].is_closing():
                await asyncio.sleep(0.01)

    install("first")
    async with serving(script, authority.server_context()) as server:
        user = {"client-certificate": str(used[0]), "client-key": str(used[1])}
        path = write_kubeconfig(tmp_path, server.url, {"certificate-authority": str(authority.path)}, user)
        async with await client.connect(_from_kubeconfig(path), clock=lambda: now) as api:
            assert (await api.get("/before")).json() == {"who": "first"}
            slow = asyncio.create_task(api.get("/slow"))
            async with api.stream("/watch", total=600, idle=600) as watch:
                assert b"first" in await watch.chunk()
                while "/slow" not in transports:
                    await asyncio.sleep(0.01)
                used[0].write_bytes(files["second"][0].read_bytes())
                now += 61
                # Half of the pair was not written yet.
                assert (await api.get("/between")).json() == {"who": "first"}
                install("second")
                now += 61
                assert (await api.get("/after")).json() == {"who": "second"}
                with pytest.raises(ApiUnreachable):
                    await asyncio.wait_for(watch.chunk(), 20)
            assert (await api.post("/after", {})).json() == {"who": "second"}
            let_go.set()
            assert (await slow).json() == {"who": "first"}
            for name in ("/before", "/slow", "/watch"):
                await closed(name)
            assert not transports["/after"].is_closing()


def _unusable(folder: pathlib.Path, case: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    authority = Authority(folder, "cluster")
    certificate, key = authority.issue("me")
    _, other_key = authority.issue("other")
    _, locked_key = authority.issue("locked", password=b"pw")
    (folder / "junk").write_text("junk")
    cluster = {"certificate-authority": str(authority.path)}
    user = {"client-certificate": certificate, "client-key": key}
    both = "users[me].user.client-certificate and client-key"
    match case:
        case "authority":
            return {"certificate-authority": "junk"}, user, "clusters[here].cluster.certificate-authority: not a PEM"
        case "mismatch":
            return cluster, {**user, "client-key": other_key}, f"{both}: not a certificate and its key"
        case "locked":
            return cluster, {**user, "client-key": locked_key}, f"{both}: not a certificate and its key"
        case _:
            return cluster, {**user, "client-certificate": "junk"}, f"{both}: not a certificate and its key"


@pytest.mark.parametrize("case", ["authority", "mismatch", "locked", "junk"])
async def test_unusable_certificates_are_named_at_start(tmp_path: pathlib.Path, case: str) -> None:
    """If this fails, a wrong certificate shows only at the first request, or an encrypted key asks on the terminal."""
    cluster, user, problem = _unusable(tmp_path, case)
    path = write_kubeconfig(tmp_path, "https://127.0.0.1:1", cluster, user)
    with pytest.raises(ConfigurationError) as caught:
        await client.connect(_from_kubeconfig(path))
    assert str(caught.value).startswith(f"kubeconfig {path}: {problem}")
    assert "\n" not in str(caught.value)


async def test_a_proxy_of_the_environment_is_used_but_not_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, clusters behind a proxy are out of reach, or the local one is asked for through the proxy."""
    async with serving(_ok) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with await client.connect(_settings("http://cluster.invalid")) as api:
            assert (await api.get("/x")).json() == {"kind": "Thing"}
        assert proxy.seen[0].headers["Host"] == "cluster.invalid"
        async with serving(_ok) as server, await client.connect(_settings(server.url)) as api:
            await api.get("/x")
            assert len(server.seen) == 1


async def test_an_open_watch_ends_when_it_falls_silent_or_is_closed() -> None:
    """If this fails, a connection that died unnoticed freezes an informer forever."""

    async def script(request: web.Request, _seen: Seen) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(30)
        return response

    async with serving(script) as server, await client.connect(_settings(server.url)) as api:
        async with api.stream("/x", total=30, idle=0.3) as stream:
            assert await stream.chunk() == b"one\n"
            with pytest.raises(ApiSilent):
                await stream.chunk()
        async with api.stream("/x", total=30, idle=30) as stream:
            assert await stream.chunk() == b"one\n"
            asyncio.get_running_loop().call_later(0.1, stream.close)
            with pytest.raises(ApiUnreachable):
                await stream.chunk()
        assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("purpose", "version", "agent"),
    [
        ("scheduler", "v1.37.0", "kube-scheduler/v1.37.0 (linux/amd64) kubernetes/trireme-{}/scheduler"),
        (
            "leader-election",
            "v1.37.0-rc.1",
            "kube-scheduler/v1.37.0 (linux/amd64) kubernetes/trireme-{}/leader-election",
        ),
        ("", "v1.37.0", "kube-scheduler/v1.37.0 (linux/amd64) kubernetes/trireme-{}"),
    ],
)
def test_the_user_agent_has_the_form_of_kube_schedulers(
    monkeypatch: pytest.MonkeyPatch, purpose: str, version: str, agent: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert release.user_agent(purpose, version) == agent.format(release.TRIREME)
