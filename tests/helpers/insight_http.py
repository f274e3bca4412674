"""Insight's HTTP API on a replica that knows a few nodes, as real HTTP or HTTPS, with an API server that reviews.

Also change: internal/trireme/delegated_access/serving_trust.py,
internal/trireme_kube/embedded/registry/reviews.py (reviews of callers).
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from tests.contract import certificates, serving_frontend
from tests.contract import kube_fake_server as fake
from tests.helpers import phase_calls
from tests.helpers.phase_calls import PROFILE, configuration
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import flags, service
from trireme.insight.http_api import http_server
from trireme.rpc import listen_flags
from trireme.v1 import cycle_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision

NODES = {"n0": "4", "n1": "2", "n2": "3"}
PATH = "/v1/namespaces/default/pods/large/explanation"

# Who may what: the rights that reviews find, as verb, resource, namespace, name.
RIGHTS: Mapping[str, frozenset[tuple[str, str, str, str]]] = {
    "nobody": frozenset(),
    "developer": frozenset({("get", "pods", "default", "large"), ("get", "pods", "default", "pod-0")}),
    "watcher-of-nodes": frozenset({("list", "nodes", "", "")}),
    "watcher-of-pods": frozenset({("list", "pods", "", "")}),
    "operator": frozenset({("get", "pods", "default", "large"), ("list", "nodes", "", ""), ("list", "pods", "", "")}),
}


async def replica() -> service.InsightService:
    """A service with three nodes, the pod pod-0 on n0, and the queued pod large, which no node takes."""
    builder = SnapshotBuilder()
    for name, cpu in NODES.items():
        builder.set_node(name, allocatable={"cpu": cpu, "pods": "9"})
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.add_class(2, pod_of(requesting(cpu="5")))
    builder.place(1, "n0")
    made = service.InsightService(builder.snap)
    await phase_calls.greet(made, configuration(("NodeResourcesFit",), (("NodeResourcesFit", 1),)))
    made.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=[queued("large", 2), queued("small", 1)]))
    return made


def queued(name: str, number: int) -> snapshot_pb2.QueuedPod:
    """A pod in the queue, of a class."""
    pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=f"uid-of-{name}")
    return snapshot_pb2.QueuedPod(
        pod=pod, pod_class=number, profile=PROFILE, state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE
    )


async def review(_: web.Request, seen: fake.Seen) -> web.StreamResponse:
    """An API server where the token of a user is its name and `-token`."""
    spec = seen.json["spec"]
    if seen.path.endswith("tokenreviews"):
        name = spec["token"].removesuffix("-token")
        known = spec["token"].endswith("-token") and (name in RIGHTS or name.startswith("developer"))
        return fake.answer({"status": {"authenticated": known, "user": {"username": name} if known else {}}}, 201)
    assert seen.path.endswith("subjectaccessreviews")
    of = spec["resourceAttributes"]
    name = "developer" if spec["user"].startswith("developer") else spec["user"]
    right = (of["verb"], of["resource"], of.get("namespace", ""), of.get("name", ""))
    return fake.answer({"status": {"allowed": right in RIGHTS.get(name, ())}}, 201)


@dataclass
class Served:
    """What is served, where, and the API server."""

    url: str
    port: int
    api: fake.FakeServer
    service: service.InsightService
    folder: Path
    authority: certificates.Authority

    async def get(
        self,
        path: str = PATH,
        user: str = "",
        headers: Mapping[str, str] | None = None,
        *,
        certificate: certificates.Pair | None = None,
    ) -> tuple[int, Any, Mapping[str, str]]:
        """The code, the JSON and the headers of an answer."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if certificate is not None:
            context.load_cert_chain(*certificate.write(self.folder, "user"))
        sent = {**({"Authorization": f"Bearer {user}-token"} if user else {}), **(headers or {})}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(self.url + path, headers=sent) as response,
        ):
            return response.status, orjson.loads(await response.read()), response.headers


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    *,
    tls: bool = True,
    reviews: bool = True,
    api: fake.Script = review,
    recordings: Path | None = None,
) -> AsyncIterator[Served]:
    """Serve the API on loopback, as the flags would."""
    authority = certificates.Authority()
    certificate, key = map(str, authority.issue("insight").write(folder, "insight")) if tls else ("", "")
    (folder / "users.crt").write_bytes(authority.certificate)
    async with fake.serving(api) as api_server:
        (folder / "kubeconfig").write_text(serving_frontend.kubeconfig_for(api_server.url))
        kubeconfig = str(folder / "kubeconfig") if reviews else ""
        address = listen_flags.parse_address("127.0.0.1:0")
        users = str(folder / "users.crt") if tls and reviews else ""
        supervisor = supervision.Supervisor()
        replica_service = await replica()
        checked = flags.HttpFlags(address, certificate, key, users, kubeconfig, kubeconfig)
        async with http_server.serve(checked, replica_service, supervisor, recordings) as url:
            port = int(url.rpartition(":")[2])
            yield Served(url, port, api_server, replica_service, folder, authority)
        await asyncio.wait_for(supervisor.close(), 5)
