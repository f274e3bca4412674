"""Who may read what of the frontend's server, over TLS and on its Unix socket; certificates that change."""

import asyncio
import re
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from tests.contract import certificates
from tests.contract import kube_fake_server as fake
from tests.contract import serving_frontend as support
from trireme.cache import pod_projection
from trireme.cli import main
from trireme.framework import programs
from trireme.frontend.phase_clients import endpoints
from trireme.frontend.serving import serving
from trireme.scheduling import scheduler
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.componentbase.tls import tls_contexts


async def _get(
    served: support.Served,
    path: str,
    headers: Mapping[str, str] | None = None,
    pair: certificates.Pair | None = None,
) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        context.load_cert_chain(*pair.write(served.folder, "client"))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(f"https://127.0.0.1:{served.port}{path}", headers=headers) as response,
    ):
        return response.status, await response.text()


def _token(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {support.TOKENS[user]}"}


@pytest.fixture
def frontend() -> support.FakeFrontend:
    """A frontend with a pod that waits."""
    made = support.FakeFrontend()
    made.wait(support.pod("waits"))
    return made


@pytest.mark.parametrize("phase", ["filter", "score", "bind"])
async def test_readiness_names_the_phase_that_is_missing(tmp_path: Path, phase: str) -> None:
    """An operator would not know which service to look at."""
    frontend = support.FakeFrontend(absent=[phase])
    async with support.served(tmp_path, frontend) as served:
        code, text = await _get(served, "/readyz")
        assert (code, f"[-]{phase} failed: reason withheld" in text.splitlines()) == (500, True)
        assert "readyz check failed" in text
        assert await _get(served, f"/readyz/{phase}", _token("admin")) == (
            500,
            f"internal server error: no replica of {phase} is available "
            "(https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled)\n",
        )
        assert (await _get(served, f"/readyz?exclude={phase}"))[0] == 200
        assert (await _get(served, "/livez"))[0] == (await _get(served, "/healthz"))[0] == 200


async def test_liveness_names_the_check_that_fails(tmp_path: Path) -> None:
    """The kubelet restarts a scheduler that stands still; an operator reads in its log, or here, why it did."""
    frontend = support.FakeFrontend()
    async with support.served(tmp_path, frontend) as served:
        frontend.scheduler.reached = scheduler.Progress(1, True)
        assert (await _get(served, "/livez"))[0] == 200
        served.site._liveness._limit = 0.0
        code, text = await _get(served, "/livez")
        assert (code, "[-]scheduling failed: reason withheld" in text.splitlines()) == (500, True)
        problem = (await _get(served, "/livez/scheduling", _token("admin")))[1]
        assert "no scheduling cycle has completed for" in problem
        assert (await _get(served, "/readyz"))[0] == 200


async def test_a_frontend_that_has_not_synced_is_not_ready(tmp_path: Path) -> None:
    """A frontend that cannot schedule would be called ready."""
    async with support.served(tmp_path, support.FakeFrontend(synced=False)) as served:
        code, text = await _get(served, "/readyz")
        assert (code, "[-]sched-handler-sync failed: reason withheld" in text.splitlines()) == (500, True)
        assert await _get(served, "/readyz/sched-handler-sync", _token("admin")) == (
            500,
            "internal server error: handlers are not fully synchronized: pods; nodes: the API server is slow\n",
        )


async def test_readiness_says_why_a_phase_cannot_be_called(tmp_path: Path) -> None:
    """An operator would not know whether its pods, its addresses, its certificates or its release are to blame."""
    frontend = support.FakeFrontend(absent=["filter"])
    frontend.filters.links = [SimpleNamespace(address="10.0.0.3:7001", last_error="its certificate has expired")]
    service = "endpointslice:///s/trireme-filter:grpc"
    frontend.lookups = {
        "filter": {service: endpoints.EndpointLookup(service, listed=True, missing="none of its pods runs")}
    }
    async with support.served(tmp_path, frontend) as served:
        _, text = await _get(served, "/readyz/filter", _token("admin"))
    assert text == (
        f"internal server error: no replica of filter is available: {service}: no addresses: none of its pods runs; "
        "10.0.0.3:7001: its certificate has expired (https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled)\n"
    )


async def test_a_leader_that_may_not_read_what_another_one_wrote_is_not_ready(tmp_path: Path) -> None:
    """It schedules nothing: a rollout would end the frontends that do."""
    frontend = support.FakeFrontend()
    frontend.catching_up = {"pods": "the writes of an earlier leader are not known yet: no (403 Forbidden)"}
    async with support.served(tmp_path, frontend) as served:
        code, text = await _get(served, "/readyz")
        assert (code, "[-]permissions failed: reason withheld" in text.splitlines()) == (500, True)
        _, text = await _get(served, "/readyz/permissions", _token("admin"))
        assert text == (
            "internal server error: pods: the writes of an earlier leader are not known yet: no (403 Forbidden)\n"
        )


async def test_what_was_listed_and_is_forbidden_now_is_a_warning(tmp_path: Path) -> None:
    """The scheduler goes on with what it knows, as kube-scheduler does, and nobody would learn that it is old."""
    frontend = support.FakeFrontend()
    frontend.informers = [
        support.informer("pods", "away", synced=True),
        support.informer("services", "no (403 Forbidden)", synced=True, status=403),
        support.informer("podgroups", "no (403 Forbidden)", synced=True, status=403, lists=0),
    ]
    async with support.served(tmp_path, frontend) as served:
        code, text = await _get(served, "/readyz?verbose")
        assert (code, "[+]permissions ok, with a warning: reason withheld" in text.splitlines()) == (200, True)
        assert await _get(served, "/readyz/permissions", _token("admin")) == (
            200,
            "ok, but services is as it was listed before: no (403 Forbidden); "
            "podgroups was never listed, and counts as empty: no (403 Forbidden)\n",
        )


async def test_claims_that_a_leader_goes_on_without_are_a_warning(tmp_path: Path) -> None:
    """It may give devices twice, and the log says so only once."""
    frontend = support.FakeFrontend()
    frontend.given_up = {"resourceclaims": "no (403 Forbidden)"}
    async with support.served(tmp_path, frontend) as served:
        assert await _get(served, "/readyz/permissions", _token("admin")) == (
            200,
            "ok, but resourceclaims may lack what an earlier leader wrote last: no (403 Forbidden)\n",
        )


async def test_the_status_has_what_fails_and_what_warns(tmp_path: Path) -> None:
    """Who reads the status, and has no access to the log, would see that pods wait and not why."""
    frontend = support.FakeFrontend(absent=["bind"])
    frontend.lease_error = "no (403 Forbidden)"
    async with support.served(tmp_path, frontend) as served:
        _, text = await _get(served, programs.STATUS_PATH, _token("admin"))
    assert orjson.loads(text)["readinessProblems"] == [
        {
            "check": "leaderElection",
            "text": "the last request for the Lease kube-system/kube-scheduler failed: no (403 Forbidden)",
            "fails": False,
        },
        {
            "check": "bind",
            "text": "no replica of bind is available (https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled)",
            "fails": True,
        },
    ]


async def test_a_lease_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    """A standby is ready all the same: an API server that is away would else make all of them unready."""
    frontend = support.FakeFrontend(leading=False)
    frontend.lease_error = "no (403 Forbidden)"
    async with support.served(tmp_path, frontend) as served:
        assert await _get(served, "/readyz/leaderElection", _token("admin")) == (
            200,
            "ok, but the last request for the Lease kube-system/kube-scheduler failed: no (403 Forbidden)\n",
        )


async def test_the_clock_and_the_version_of_the_api_server_are_warnings(tmp_path: Path) -> None:
    async def answer(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        """An API server of another age, in both senses."""
        if seen.path == "/version":
            headers = {"Date": "Mon, 30 Nov 2020 12:00:00 GMT"}
            return fake.answer({"gitVersion": "v1.20.0"}, headers=headers)
        return await support.review(request, seen)

    async with support.served(tmp_path, support.FakeFrontend(), api=answer) as served:
        for _ in range(100):
            code, text = await _get(served, "/readyz?verbose")
            if "clock" in text:
                break
            await asyncio.sleep(0.02)
        for check, problem in (("clock", "ahead of that of the API server"), ("api-server-version", "v1.20.0")):
            assert (code, f"[+]{check} ok, with a warning: reason withheld" in text.splitlines()) == (200, True)
            _, reason = await _get(served, f"/readyz/{check}", _token("admin"))
            assert reason.startswith("ok, but the ")
            assert problem in reason
        _, metrics = await _get(served, "/metrics", _token("admin"))
        (line,) = [line for line in metrics.splitlines() if line.startswith("trireme_api_server_clock_ahead_seconds ")]
        assert float(line.partition(" ")[2]) > 1e8


async def test_checks_that_only_we_have_are_not_listed_while_they_pass(tmp_path: Path) -> None:
    """Who compares the list with kube-scheduler's would find names that it does not have."""
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        lines = (await _get(served, "/readyz?verbose"))[1].splitlines()
    names = [line.removeprefix("[+]").partition(" ")[0] for line in lines if line.startswith("[")]
    assert names == ["leaderElection", "shutdown", "sched-handler-sync"]


async def test_a_process_that_ends_is_not_ready(tmp_path: Path) -> None:
    """A rollout would count on a frontend that is about to end."""
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        served.site.begin_shutdown()
        assert "[-]shutdown failed: reason withheld" in (await _get(served, "/readyz"))[1]


async def test_a_standby_misses_no_phase(tmp_path: Path) -> None:
    """A standby, which asks no phase anything, would never be ready."""
    async with support.served(tmp_path, support.FakeFrontend(leading=False, absent=["filter"])) as served:
        assert await _get(served, "/readyz") == (200, "ok")


async def test_client_certificates_of_the_named_authority(tmp_path: Path) -> None:
    """A person with the cluster's certificate would be nobody, or anybody's certificate would do."""
    authority, other = certificates.Authority(), certificates.Authority("another")
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(authority.certificate)
    async with support.served(tmp_path, support.FakeFrontend(), f"--client-ca-file={bundle}") as served:
        code, text = await _get(served, "/metrics", pair=authority.issue("jane"))
        assert (code, orjson.loads(text)["message"]) == (403, 'forbidden: User "jane" cannot get path "/metrics"')
        with pytest.raises((aiohttp.ClientError, OSError)):
            await _get(served, "/metrics", pair=other.issue("jane"))


async def test_impersonation_headers_need_the_proxys_certificate(tmp_path: Path) -> None:
    """Anybody could name himself an administrator in a header."""
    people, proxies = certificates.Authority(), certificates.Authority("proxies")
    (tmp_path / "clients.crt").write_bytes(people.certificate)
    (tmp_path / "proxies.crt").write_bytes(proxies.certificate)
    flags = (
        f"--client-ca-file={tmp_path}/clients.crt",
        f"--requestheader-client-ca-file={tmp_path}/proxies.crt",
        "--requestheader-allowed-names=front",
    )
    said = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    async with support.served(tmp_path, support.FakeFrontend(), *flags) as served:
        assert (await _get(served, "/metrics", said, proxies.issue("front")))[0] == 200
        assert (await _get(served, "/metrics", said, proxies.issue("another")))[0] == 403
        assert (await _get(served, "/metrics", said, people.issue("front")))[0] == 403
        assert (await _get(served, "/metrics", said))[0] == 403


async def test_the_authorities_of_the_cluster_are_looked_up(tmp_path: Path) -> None:
    """Without flags no client certificate of the cluster would be believed."""
    authority = certificates.Authority()

    async def answer(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        if "extension-apiserver-authentication" in seen.path:
            return fake.answer({"data": {"client-ca-file": authority.certificate.decode()}})
        return await support.review(request, seen)

    async with support.served(tmp_path, support.FakeFrontend(), api=answer) as served:
        code, text = await _get(served, "/metrics", pair=authority.issue("jane"))
        assert (code, "jane" in text) == (403, True)


@pytest.mark.parametrize(
    ("allowed", "accepted"),
    [('["front"]', [200, 403]), ('["front"', [403, 403]), ('"front"', [403, 403]), ("[7]", [403, 403])],
    ids=["a list", "no JSON", "no list", "no texts"],
)
async def test_no_proxy_is_trusted_by_settings_that_cannot_be_read(
    tmp_path: Path, allowed: str, accepted: list[int]
) -> None:
    """If this fails, a typing error in the names of proxies lets every proxy name an administrator."""
    proxies = certificates.Authority("proxies")
    data = {
        "requestheader-client-ca-file": proxies.certificate.decode(),
        "requestheader-allowed-names": allowed,
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
    }

    async def answer(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        if "extension-apiserver-authentication" in seen.path:
            return fake.answer({"data": data})
        return await support.review(request, seen)

    said = {"X-Remote-User": "root", "X-Remote-Group": "system:masters"}
    async with support.served(tmp_path, support.FakeFrontend(), api=answer) as served:
        assert [
            (await _get(served, "/metrics", said, proxies.issue(name)))[0] for name in ("front", "another")
        ] == accepted


async def test_a_lookup_that_fails_ends_the_start_where_that_is_not_tolerated(tmp_path: Path) -> None:
    """Certificates that should count would silently not."""

    async def refuse(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        return fake.failure(403, "Forbidden")

    flag = "--authentication-tolerate-lookup-failure=false"
    with pytest.raises(AssertionError, match="unable to load configmap based request-header-client-ca-file"):
        async with support.served(tmp_path, support.FakeFrontend(), flag, api=refuse):
            pass


async def test_reviews_are_cached_for_a_while(tmp_path: Path) -> None:
    """Each scrape would cost the API server two reviews."""
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        for _ in range(3):
            assert (await _get(served, "/metrics", _token("nobody")))[0] == 403
        asked = [seen.path.rpartition("/")[2] for seen in served.api.of("POST")]
        assert sorted(asked) == ["subjectaccessreviews", "tokenreviews"]


async def test_an_unreachable_api_server_authorizes_nobody(tmp_path: Path) -> None:
    """An attacker who breaks the connection to the API server could read everything."""

    async def broken(request: web.Request, seen: fake.Seen) -> web.StreamResponse:
        return fake.failure(500, "InternalError")

    async with support.served(tmp_path, support.FakeFrontend(), api=broken) as served:
        assert (await _get(served, "/metrics", _token("admin")))[0] == 401
        assert (await _get(served, "/metrics"))[0] == 500
        assert (await _get(served, "/healthz"))[0] == 200


async def test_a_renewed_serving_certificate_counts_from_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate renewed by its issuer would expire in the running server."""
    monkeypatch.setattr(tls_contexts, "CHECK_SECONDS", 0.0)
    authority = certificates.Authority()
    pair = authority.issue("one").write(tmp_path, "server")
    flags = (f"--tls-cert-file={pair[0]}", f"--tls-private-key-file={pair[1]}")
    async with support.served(tmp_path, support.FakeFrontend(), *flags) as served:
        before = await _certificate(served.port)
        pair[1].write_bytes(b"half written")
        assert await _certificate(served.port) == before
        authority.issue("two").write(tmp_path, "server")
        assert await _certificate(served.port) != before


async def _certificate(port: int) -> bytes:
    pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    return pem.encode()


async def test_status_and_explanations_need_the_right_to_read_them(
    tmp_path: Path, frontend: support.FakeFrontend
) -> None:
    """Names of pods and nodes would be open to anybody who reaches the port."""
    async with support.served(tmp_path, frontend) as served:
        for path in ("/trireme/v1/status", "/trireme/v1/explain?pod=default/waits"):
            assert (await _get(served, path))[0] == 403
            assert (await _get(served, path, _token("nobody")))[0] == 403
            assert (await _get(served, path, _token("admin")))[0] == 200


async def test_an_explanation_is_of_one_pod(tmp_path: Path, frontend: support.FakeFrontend) -> None:
    """A wrong name would be answered with another pod's story, or with an error of the server."""
    frontend.place(support.pod("runs", "node-1"))
    foreign_pod = pod_projection.parse(support.pod("foreign", schedulerName="other-scheduler"))
    frontend.handlers.pods.on_pods([Event(EventKind.ADDED, foreign_pod)])
    async with support.served(tmp_path, frontend) as served:
        explain = "/trireme/v1/explain"
        waits = orjson.loads((await _get(served, f"{explain}?pod=default/waits", _token("admin")))[1])
        assert (waits["pod"]["namespace"], waits["pod"]["name"]) == ("default", "waits")
        assert waits["scheduler"]["pending"]["place"] == "active"
        runs = orjson.loads((await _get(served, f"{explain}?pod=default/runs", _token("admin")))[1])
        assert runs["nodeName"] == runs["scheduler"]["bound"]["nodeName"] == "node-1"
        foreign = orjson.loads((await _get(served, f"{explain}?pod=default/foreign", _token("admin")))[1])["scheduler"]
        assert foreign["foreign"]["schedulerName"] == "other-scheduler"
        assert foreign["summary"].startswith("names the scheduler other-scheduler in spec.schedulerName; ")
        assert (await _get(served, f"{explain}?pod=default/nope", _token("admin")))[0] == 404
        assert (await _get(served, explain, _token("admin")))[0] == 400


async def _run(*arguments: str) -> int:
    """The command, in a thread of its own, as it has a loop of its own."""
    return await asyncio.to_thread(main.main, list(arguments))


async def test_the_commands_use_the_socket_of_this_user(
    tmp_path: Path, frontend: support.FakeFrontend, capsys: pytest.CaptureFixture[str]
) -> None:
    """`trireme status` and `trireme explain` would not work on the machine where the frontend runs."""
    path = tmp_path / "admin.sock"
    async with support.served(tmp_path, frontend, own={"admin": {"socket": str(path)}}):
        mode = path.stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
        assert await _run("status", "--socket", str(path)) == 0
        assert re.search(r"default/waits +\d+s +0  waits for its turn", capsys.readouterr().out)
        assert await _run("explain", "waits", "--socket", str(path)) == 0
        assert capsys.readouterr().out.startswith("default/waits waits for its turn")
        assert await _run("explain", "other/waits", "--socket", str(path)) == 1
        assert "no pod of this name" in capsys.readouterr().err
        assert await _run("status", "-o", "json", "--socket", str(path)) == 0
        report: dict[str, Any] = orjson.loads(capsys.readouterr().out)
        assert report["leadership"]["epoch"] == 7
    assert not path.exists()
    assert await _run("status", "--socket", str(path)) == 1
    assert str(path) in capsys.readouterr().err


@pytest.fixture(params=["socket", "server"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The flags by which a command reaches a served frontend: its socket, and HTTPS with a token."""

    def flags(served: support.Served) -> tuple[str, ...]:
        if request.param == "socket":
            return ("--socket", str(tmp_path / "admin.sock"))
        token = tmp_path / "token"
        token.write_text(support.TOKENS["admin"])
        return ("--server", f"https://127.0.0.1:{served.port}", "--insecure", "--token-file", str(token))

    return flags


async def test_a_frontend_without_synced_caches_does_not_say_that_a_pod_is_unknown(
    tmp_path: Path, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the minute after the API server was slow, `no such pod` sends the operator the wrong way."""
    own = {"admin": {"socket": str(tmp_path / "admin.sock")}}
    frontend = support.FakeFrontend(leading=False, synced=False)
    async with support.served(tmp_path, frontend, own=own) as served:
        assert await _run("explain", "mixed", *connect(served)) == 1
        error = capsys.readouterr().err
        assert "no pod of this name" not in error
        assert error.startswith(
            "Error: default/mixed: it is not known yet whether there is such a pod: the caches of this frontend are "
            "not synced (it waits for pods, nodes); nodes: the API server is slow. Ask again once `trireme status` says"
        )
        assert "ask other, which holds the lease kube-system/kube-scheduler" in error
        frontend.wait(support.pod("mixed"))
        assert await _run("explain", "mixed", *connect(served)) == 0
        assert "Its caches are not synced yet" in capsys.readouterr().out


async def test_a_standby_says_who_knows_why_a_pod_waits(
    tmp_path: Path, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader refuses it for a reason; that this frontend does not lead is none."""
    own = {"admin": {"socket": str(tmp_path / "admin.sock")}}
    frontend = support.FakeFrontend(leading=False)
    frontend.wait(support.pod("mixed"))
    async with support.served(tmp_path, frontend, own=own) as served:
        assert await _run("explain", "mixed", *connect(served)) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert shown == (
            "default/mixed is pending; the leader alone knows why This frontend stands by: other holds the lease "
            "kube-system/kube-scheduler. Run this command where other runs, or give its address by --server."
        )


async def test_the_commands_use_https_with_a_token(
    tmp_path: Path, frontend: support.FakeFrontend, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state of a frontend in a cluster could not be asked for from outside."""
    token = tmp_path / "token"
    async with support.served(tmp_path, frontend) as served:
        server = ("--server", f"https://127.0.0.1:{served.port}", "--insecure", "--token-file", str(token))
        token.write_text(f"{support.TOKENS['admin']}\n")
        assert await _run("status", *server) == 0
        token.write_text(support.TOKENS["nobody"])
        assert await _run("status", *server) == 1
        assert 'cannot get path "/trireme/v1/status"' in capsys.readouterr().err


async def test_a_socket_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The frontend would end with a stack trace."""
    own = {"admin": {"socket": str(tmp_path / "missing" / "admin.sock")}}
    with pytest.raises(serving.ServingError, match=r"admin\.socket: .*admin\.sock: No such file or directory"):
        async with support.served(tmp_path, support.FakeFrontend(), own=own):
            pass
