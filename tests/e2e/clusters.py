"""The two clusters that the end-to-end and chaos tests run on, as one fixture: `cluster` opens either.

Embedded: a fresh one for each test. Real: etcd and kube-apiserver, started once for all tests of a run (three seconds
instead of three a test) and emptied before each. It has no kubelets, so nodes are objects that the test's opening
creates and bound pods stay Pending; nothing else differs, and no test asks which of the two it has.
"""

import asyncio
import contextlib
import pathlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import aiohttp
import pytest

from tests.e2e import installation, witness
from tools.controlplane import controlplane_fixture, launcher

OpenCluster = Callable[..., AbstractAsyncContextManager[installation.Installation]]
"""Opens a cluster of `nodes` nodes with `cpu` CPUs each."""

CLOSING_SECONDS = 0.25
"""For TLS connections to say goodbye: they are closed by the loop, after the session that owned them."""

_PLANE = pytest.StashKey[launcher.ControlPlane]()

_PODS = "/api/v1/namespaces/default/pods"

# What a test leaves behind; one after the other, nodes last.
_LEFT = (
    f"{_PODS}?gracePeriodSeconds=0",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "/api/v1/nodes",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
)


def _plane(config: pytest.Config) -> launcher.ControlPlane:
    """The control plane of this run of pytest; the first who asks starts it."""
    controlplane_fixture.require_built()
    if _PLANE not in config.stash:
        options = launcher.Options(extra={"kube-apiserver": ("--delete-collection-workers=8",)})
        plane = launcher.ControlPlane(options)
        config.add_cleanup(plane.close)
        config.stash[_PLANE] = plane.__enter__()
    return config.stash[_PLANE]


@contextlib.asynccontextmanager
async def _embedded(folder: pathlib.Path, nodes: int, cpu: str) -> AsyncIterator[installation.Installation]:
    async with installation.embedded(folder, "--nodes", str(nodes), "--cpu", cpu) as here:
        yield here


@contextlib.asynccontextmanager
async def real(
    plane: launcher.ControlPlane, folder: pathlib.Path, nodes: int, cpu: str
) -> AsyncIterator[installation.Installation]:
    """A control plane that runs, emptied, with so many nodes."""
    headers = {"Authorization": f"Bearer {plane.token()}"}
    tls = ssl.create_default_context(cafile=str(plane.authority))
    here = installation.Installation(folder, plane.kubeconfig, plane.server, headers, tls)
    async with aiohttp.ClientSession() as here.session:
        await _release_pods(here)
        for path in _LEFT:
            await here.request("DELETE", path)
        for number in range(nodes):
            await here.add_node(f"node-{number}", cpu)
        try:
            yield here
        finally:
            here.stop()


async def _release_pods(here: installation.Installation) -> None:
    """Remove the finalizers of pods: a test that failed before it did so would fail those after it as well."""
    for pod in (await here.request("GET", _PODS))["items"] or []:
        if pod["metadata"].get("finalizers"):
            path, released = f"{_PODS}/{pod['metadata']['name']}", {"metadata": {"finalizers": []}}
            await here.request("PATCH", path, released, "application/merge-patch+json")


@pytest.fixture
def plane(request: pytest.FixtureRequest) -> launcher.ControlPlane:
    """The real control plane, for tests that need more of it than a cluster: kube-scheduler, above all."""
    return _plane(request.config)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.controlplane)])
def cluster(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> OpenCluster:
    """A function that opens a cluster: an `Installation` on which nothing of the scheduler is started yet."""
    plane = _plane(request.config) if request.param == "real" else None

    @contextlib.asynccontextmanager
    async def opened(nodes: int, cpu: str = "8") -> AsyncIterator[installation.Installation]:
        opening = real(plane, tmp_path, nodes, cpu) if plane else _embedded(tmp_path, nodes, cpu)
        try:
            async with (
                opening as here,
                witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
            ):
                yield here
        finally:
            await asyncio.sleep(CLOSING_SECONDS)

    return opened
