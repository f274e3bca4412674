"""kube-scheduler itself on the real control plane, and what both schedulers show of their work: metrics and writes.

kube-scheduler is of the version that Trireme decides as, if it is built. The API server may be of the minor version
before.
"""

import collections
import contextlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
from prometheus_client import parser

from tests.conformance import real_framework
from tests.e2e import installation
from tools.controlplane import launcher, ports
from trireme_kube.client.informers import resources

Samples = Mapping[str, Mapping[str, float]]
"""Name of a sample → its labels, as text → its value."""

Writes = collections.Counter[str]
"""`verb resource/subresource` → how often it succeeded."""


def program() -> Path | None:
    """The program that is kube-scheduler; None: the control plane's own.

    Raises: NotServedError: the API server lacks what it waits for; it would never be ready, where Trireme does without.
    """
    if not real_framework.available():
        return None
    launcher.require_apis(resources.DEVICE_TAINT_RULES.api)
    return real_framework.BINARY


@contextlib.contextmanager
def kube_scheduler(plane: launcher.ControlPlane, *flags: str) -> Iterator[int]:
    """kube-scheduler, until the block ends; answers its port, on which everybody may read metrics."""
    (port,) = ports.free_ports(1)
    plane.start_program(
        "kube-scheduler",
        f"--kubeconfig={plane.kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={plane.directory}",
        installation.OPEN_METRICS,
        *flags,
        binary=program(),
    )
    try:
        yield port
    finally:
        plane.stop_program("kube-scheduler")


async def ready(session: aiohttp.ClientSession, port: int) -> None:
    """Return once the scheduler on this port is ready."""

    async def answers() -> bool:
        try:
            async with session.get(f"https://127.0.0.1:{port}/readyz", ssl=False) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    await installation.until(answers, 60, lambda: f"nothing is ready on port {port}")


async def metrics(session: aiohttp.ClientSession, port: int) -> Samples:
    """What a scheduler says at /metrics."""
    async with session.get(f"https://127.0.0.1:{port}/metrics", ssl=False) as response:
        assert response.status == 200, await response.text()
        return _samples(await response.text())


async def writes(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], tls: ssl.SSLContext) -> Writes:
    """What the API server has written so far, for anybody."""
    async with session.get(f"{url}/metrics", headers=headers, ssl=tls) as response:
        text = await response.text()
    found: Writes = collections.Counter()
    for family in parser.text_string_to_metric_families(text):
        if family.name == "apiserver_request":
            for sample in family.samples:
                label = sample.labels
                if label["verb"] in ("POST", "PUT", "PATCH", "DELETE") and label["code"].startswith("2"):
                    what = "/".join(filter(None, (label["resource"], label["subresource"])))
                    found[f"{label['verb']} {what}"] += int(sample.value)
    return found


def _samples(text: str) -> Samples:
    found: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[sample.name][labels] = sample.value
    return found
