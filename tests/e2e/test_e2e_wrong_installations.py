"""Installations that are wrong, as real processes: what is reported, and that pods are scheduled meanwhile or after.

Chart values are in tests/contract/test_chart.py, releases in tests/contract/test_release_skew.py.
"""

import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from tests.contract import certificates
from tests.e2e import installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

NOTHING = "(https://trireme.dev/docs/troubleshooting.html#nothing-is-scheduled)"
PERMISSIONS = "(https://trireme.dev/docs/troubleshooting.html#missing-permissions)"
EXPIRY = "(https://trireme.dev/docs/runbooks#triremecertificateexpires)"
NEVER = {"mode": "none"}
FAULTS = "/trireme/faults"


class Wrong:
    """An installation, and what its frontends report."""

    def __init__(self, here: installation.Installation) -> None:
        self.here = here

    def own(self, **settings: Any) -> dict[str, Any]:
        """The TriremeConfiguration of the next frontend."""
        return {"admin": {"socket": self._socket(len(self.here.frontends))}, **settings}

    def _socket(self, number: int) -> str:
        return f"{self.here.folder}/admin-{number}.sock"

    async def page(self, path: str, number: int = -1) -> str:
        """A page of a frontend, as its administrator reads it; empty while it does not serve."""
        socket = self._socket(range(len(self.here.frontends))[number])
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket)) as session,
                session.get(f"http://frontend{path}") as response,
            ):
                return await response.text()
        except aiohttp.ClientError:
            return ""

    async def reported(self, check: str, *texts: str, listed: str) -> None:
        """Return once a check has these texts, the list of checks the line, and the log all of it."""
        found = ["", ""]

        async def is_reported() -> bool:
            found[:] = [await self.page(f"/readyz/{check}"), await self.page("/readyz?verbose")]
            return all(text in found[0] for text in texts) and listed in found[1]

        await installation.until(is_reported, 40, lambda: f"{found}\n{self.here.story()}")
        last = texts[-1]
        await installation.until(
            lambda: any(line[0] == "W" and f" {check}: " in line and last in line for line in self._lines()),
            30,
            lambda: f"no line of {check} with {texts}\n{self.here.story()}",
        )

    def _lines(self) -> list[str]:
        return [line for line in self.here.frontends[-1].said.splitlines() if line]

    async def refuse(self, path: str, method: str = ".*") -> None:
        """The API server refuses these requests from now on."""
        fault = {"action": "status", "code": 403, "path": path, "method": method, "times": -1}
        await self.here.request("POST", FAULTS, fault)

    async def allow(self) -> None:
        """The API server refuses nothing any more."""
        await self.here.request("DELETE", FAULTS)

    async def schedules(self, name: str, seconds: float = 60.0) -> None:
        """A pod is bound."""
        await self.here.create_pods([pod(name)])
        await self.gets_node(name, seconds)

    async def schedules_once_allowed(self) -> None:
        """A pod that is created while something is refused is bound once nothing is any more."""
        await self.here.create_pods([pod("waits")])
        await self.allow()
        await self.gets_node("waits")

    async def gets_node(self, name: str, seconds: float = 60.0) -> None:
        """Return once the pod is bound."""

        async def is_bound() -> bool:
            return bool((await self.here.pod(name))["spec"].get("nodeName"))

        await installation.until(is_bound, seconds, self.here.story)


@pytest.fixture
async def wrong(tmp_path: pathlib.Path) -> AsyncIterator[Wrong]:
    """A cluster of three nodes, on which nothing of the scheduler is started yet."""
    async with installation.embedded(tmp_path, "--nodes", "3") as here:
        yield Wrong(here)


async def test_a_collection_that_may_not_be_listed_is_named(wrong: Wrong) -> None:
    await wrong.refuse("/persistentvolumes\\b")
    wrong.here.add_frontend(own=wrong.own()).start()
    text = "handlers are not fully synchronized: persistentvolumes: a fault was injected (403"
    await wrong.reported("sched-handler-sync", text, PERMISSIONS, listed="[-]sched-handler-sync failed")
    await wrong.schedules_once_allowed()


async def test_a_lease_that_may_not_be_read_is_named(wrong: Wrong) -> None:
    await wrong.refuse("/leases")
    wrong.here.add_frontend(own=wrong.own()).start()
    text = "the last request for the Lease kube-system/kube-scheduler failed: a fault was injected (403"
    await wrong.reported("leaderElection", text, PERMISSIONS, listed="[+]leaderElection ok, with a warning")
    await wrong.schedules_once_allowed()


async def test_a_binding_that_is_refused_is_named_and_the_pod_bound_later(wrong: Wrong) -> None:
    wrong.here.add_frontend(own=wrong.own()).start()
    await wrong.refuse("/binding", "POST")
    await wrong.here.create_pods([pod("waits")])
    await wrong.here.logged(
        wrong.here.frontends[0], 'see="https://trireme.dev/docs/troubleshooting.html#missing-permissions"'
    )
    await wrong.allow()
    await wrong.gets_node("waits")


async def test_a_new_leader_goes_on_without_claims_that_it_may_not_list_any_more(wrong: Wrong) -> None:
    """As kube-scheduler does: else a role that loses a line stops scheduling at the next change of leaders."""
    here = wrong.here
    here.add_frontend(installation.SHORT_LEASE, wrong.own()).start()
    await here.leads(here.frontends[0])
    here.add_frontend(installation.SHORT_LEASE, wrong.own()).start()
    await here.ready(here.frontends[1])
    await wrong.refuse("/resourceclaims")
    here.frontends[0].stop()
    await wrong.schedules("early")
    assert "going on with what was listed before" in here.frontends[1].said
    text = "resourceclaims may lack what an earlier leader wrote last: a fault was injected (403"
    await wrong.reported("permissions", text, PERMISSIONS, listed="[+]permissions ok, with a warning")
    await wrong.allow()
    await here.logged(here.frontends[1], "resourceclaims: what earlier leaders wrote is known by now")


async def test_a_leader_that_may_not_list_pods_any_more_is_not_ready(wrong: Wrong) -> None:
    here = wrong.here
    here.add_frontend(installation.SHORT_LEASE, wrong.own()).start()
    await here.leads(here.frontends[0])
    here.add_frontend(installation.SHORT_LEASE, wrong.own()).start()
    await here.ready(here.frontends[1])
    await wrong.refuse("/api/v1/pods")
    here.frontends[0].stop()
    text = "pods: the writes of an earlier leader are not known yet: "
    await wrong.reported("permissions", text, PERMISSIONS, listed="[-]permissions failed")
    await wrong.schedules_once_allowed()


async def test_why_a_phase_cannot_be_reached_is_named(wrong: Wrong) -> None:
    here = wrong.here
    await here.start(own=wrong.own(fallback=NEVER))
    (process,) = here.phases["filter"]
    process.stop()
    text = f"no replica of filter is available: {here.socket('filter', 0)}: UNAVAILABLE: "
    await wrong.reported("filter", text, NOTHING, listed="[-]filter failed")
    await here.create_pods([pod("waits")])
    process.start()
    await wrong.gets_node("waits")


async def test_phases_without_room_on_any_node_are_named_and_the_fallback_schedules(wrong: Wrong) -> None:
    """Their pods are as any that fit nowhere, and the scheduler that they are to be a part of goes on without them."""
    here = wrong.here
    service = "endpointslice:///default/trireme-filter:grpc"
    phases = {"filter": {"endpoints": [service]}}
    here.add_frontend(own=wrong.own(phases=phases, fallback={"after": "15s"})).start()
    text = f"no replica of filter is available: {service}: no addresses: none of its pods runs"
    await wrong.reported("filter", text, NOTHING, listed="[-]filter failed")
    await here.create_pods([pod("filter-0", cpu="100"), pod("fits")])
    await here.logged(here.frontends[0], f"one of our own stands in {NOTHING}")
    await wrong.gets_node("fits")
    await here.condition("filter-0", "0/3 nodes are available: 3 Insufficient cpu.")
    await here.add_node("large", cpu="200")
    await wrong.gets_node("filter-0")


def _issue(authority: certificates.Authority, folder: pathlib.Path, service: str, **validity: float) -> None:
    """A service's files, whose certificate is renewed later as cert-manager does."""
    issued = authority.issue(service, f"trireme-{service}.trireme-system.svc", **validity)
    (folder / service).mkdir(parents=True, exist_ok=True)
    for name, content in (("tls.key", issued.key), ("tls.crt", issued.certificate), ("ca.crt", authority.certificate)):
        (folder / service / name).write_bytes(content)


@pytest.mark.parametrize(
    ("service", "validity", "text", "page"),
    [
        ("filter", {"hours": -0.5}, "its certificate, or that of its authority, has expired ", EXPIRY),
        ("frontend", {"hours": -0.5}, "frontend/tls.crt: expired at ", EXPIRY),
        (
            "filter",
            {"begins": 0.5},
            "its certificate, or that of its authority, is not valid yet, by the clock of this host ",
            "(https://trireme.dev/docs/troubleshooting.html#clocks-that-differ)",
        ),
    ],
    ids=["of-a-phase", "of-the-frontend", "not-valid-yet"],
)
async def test_a_certificate_that_others_refuse_is_named_and_a_new_one_taken(
    wrong: Wrong, service: str, validity: dict[str, float], text: str, page: str
) -> None:
    here = wrong.here
    authority, here.certificates = certificates.Authority(), here.folder / "certificates"
    for name in ("frontend", *here.phases):
        _issue(authority, here.certificates, name, **(validity if name == service else {}))
    for phase in here.phases:
        here.add_phase(phase)
        command = here.phases[phase][0].command
        command[-1 if phase != "bind" else command.index("--kubeconfig") - 1] = (
            "--allowed-identities=trireme-frontend.trireme-system.svc"
        )
        here.phases[phase][0].start()
        await here.phases[phase][0].listening()
    here.add_frontend(own=wrong.own(fallback=NEVER)).start()
    await wrong.reported("filter", "no replica of filter is available: ", text, page, listed="[-]filter failed")
    await here.create_pods([pod("waits")])
    _issue(authority, here.certificates, service)
    await wrong.gets_node("waits")


@contextlib.asynccontextmanager
async def _relay(here: installation.Installation, date: str, version: str) -> AsyncIterator[str]:
    """Another way to the API server, which has another clock and version there; its address."""

    async def handle(request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        async with here.session.request(
            request.method, here.url + request.path_qs, headers=headers, data=await request.read(), timeout=None
        ) as answer:
            if request.path == "/version":
                return web.json_response({"gitVersion": version}, headers={"Date": date})
            kept = {"Content-Type": answer.headers.get("Content-Type", "application/json"), "Date": date}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)  # type: ignore[arg-type]  # as documented
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_another_clock_and_version_of_the_api_server_warn_and_pods_are_scheduled(wrong: Wrong) -> None:
    here = wrong.here
    async with _relay(here, "Mon, 30 Nov 2020 12:00:00 GMT", "v1.30.1") as url:
        document = yaml.safe_load(here.kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = url
        here.kubeconfig.write_text(yaml.safe_dump(document))
        here.add_frontend(own=wrong.own()).start()
        await wrong.schedules("early")
        for check, texts in {
            "clock": (
                " ahead of that of the API server: synchronize both hosts ",
                "(https://trireme.dev/docs/troubleshooting.html#clocks",
            ),
            "api-server-version": ("version v1.30.1, and this release supports 1.35 to 1.39: ", "#control-planes)"),
        }.items():
            await wrong.reported(check, "ok, but ", *texts, listed=f"[+]{check} ok, with a warning: reason withheld")
        assert (await wrong.page("/readyz")) == "ok"
        here.frontends[0].stop()
