"""Pods that come and go at a steady rate, so that the cluster stays at 90 % of its capacity and most nodes are full.

Every pod takes one of the places of a node of its kind, and nodes of the three kinds run out of CPUs, of memory or of
pods first: whatever is placed twice is one too many somewhere. A pod is created whenever a bound one is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from tools.chaos import chaos_checks
from tools.controlplane import launcher

KINDS = ("cpu", "memory", "pods")
NODES_PER_KIND = 20
PODS_PER_NODE = 8
FILL = 0.9

_PODS = "/api/v1/namespaces/default/pods"
_DEADLINE = aiohttp.ClientTimeout(total=5)
_RETRY_SECONDS = 0.2
_CLOSING_SECONDS = 0.25

# What a node has, by what it runs out of.
_PLENTY = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_SCARCE = {
    "cpu": {"cpu": str(PODS_PER_NODE)},
    "memory": {"memory": f"{PODS_PER_NODE}Gi"},
    "pods": {"pods": str(PODS_PER_NODE)},
}
_TAKEN = {"cpu": {"cpu": "1"}, "memory": {"memory": "1Gi"}, "pods": {}}


def node(kind: str, number: int) -> dict[str, Any]:
    """A node that is ready."""
    name = f"{kind}-{number}"
    resources = {**_PLENTY, **_SCARCE[kind]}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    labels = {"kubernetes.io/hostname": name, "kind": kind}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def nodes() -> list[dict[str, Any]]:
    """The cluster's nodes."""
    return [node(kind, number) for kind in KINDS for number in range(NODES_PER_KIND)]


def pod(name: str, kind: str, variant: int) -> dict[str, Any]:
    """A pod that takes one place; variants differ in what there is plenty of, so they are different to a scheduler."""
    amounts = {"cpu": f"{10 + variant}m", "memory": "16Mi", **_TAKEN[kind]}
    container = {"name": "c", "image": "pause", "resources": {"requests": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "nodeSelector": {"kind": kind}},
    }


class Load:
    """Creates and deletes pods through the API server, by a way that no fault cuts."""

    def __init__(
        self, session: aiohttp.ClientSession, checks: chaos_checks.Checks, seed: int, per_second: float
    ) -> None:
        self._session = session
        self._checks = checks
        self._random = random.Random(f"load {seed}")
        self._interval = 1.0 / per_second
        self._number = 0
        self._stopping = False
        self._living: dict[str, str] = {}
        self._places = dict.fromkeys(KINDS, int(FILL * NODES_PER_KIND * PODS_PER_NODE))

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls, plane: launcher.ControlPlane, checks: chaos_checks.Checks, seed: int, per_second: float
    ) -> AsyncIterator[Load]:
        """A load on a cluster."""
        headers = {"Authorization": f"Bearer {plane.token()}", "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(plane.authority)))
        try:
            async with aiohttp.ClientSession(
                plane.server, connector=connector, headers=headers, timeout=_DEADLINE
            ) as session:
                yield cls(session, checks, seed, per_second)
        finally:
            await asyncio.sleep(_CLOSING_SECONDS)

    async def create_nodes(self) -> None:
        """Create the nodes."""
        for each in nodes():
            await self._insist("POST", "/api/v1/nodes", each, 409)

    async def fill(self) -> None:
        """Create as many pods as there are to be at all times."""
        async with asyncio.TaskGroup() as group:
            for kind, count in self._places.items():
                group.create_task(self._create_many(kind, count))

    def stop(self) -> None:
        """Have `run` return, once what it has requested is answered."""
        self._stopping = True

    async def run(self) -> None:
        """Replace a bound pod by a new one, again and again."""
        due = time.monotonic()
        while not self._stopping:
            due = max(due + self._interval, time.monotonic() - 1.0)  # what was missed for longer is not made up for
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            bound = [name for name in self._checks.placed if name in self._living]
            if not bound:
                continue
            name = self._random.choice(bound)
            kind = self._living.pop(name)
            self._checks.expect_deletion(name)
            await self._insist("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0", None, 404)
            await self._create(kind)

    async def get(self, path: str) -> Any:
        """Read from the API server, which answers in the end."""
        return orjson.loads(await self._insist("GET", path, None, 200))

    async def answered(self) -> None:
        """Return once the API server is ready, and reads what etcd has."""
        await self._insist("GET", "/readyz", None, 200)
        await self._insist("GET", "/api/v1/namespaces/default", None, 200)

    async def _create_many(self, kind: str, count: int) -> None:
        for _ in range(count):
            await self._create(kind)

    async def _create(self, kind: str) -> None:
        self._number += 1
        name = f"p{self._number}"
        self._living[name] = kind
        await self._insist("POST", _PODS, pod(name, kind, self._number % 5), 409)

    async def _insist(self, method: str, path: str, body: Any, fine: int) -> bytes:
        """Send a request until it is answered with success, or with the status of what is done already."""
        data = None if body is None else orjson.dumps(body)
        while True:
            try:
                async with self._session.request(method, path, data=data) as response:
                    answer = await response.read()
                if response.status < 300 or response.status == fine:
                    return answer
                if 400 <= response.status < 500 and response.status not in (403, 429):
                    raise RuntimeError(f"{method} {path}: {response.status} {answer.decode(errors='replace')[:300]}")
            except (aiohttp.ClientError, TimeoutError):
                pass  # the API server is down, as it is at times
            await asyncio.sleep(_RETRY_SECONDS)
