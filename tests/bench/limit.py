"""The limit: a scheduler that decides nothing. It binds each pod to the next node and posts the Scheduled event.

What it reaches is what binding alone costs on this machine and this API server, whatever one decides: the yardstick
that the benchmark holds the others against. It has to be lean, because a slow one would flatter them; so pods are taken
off the watch with as little parsing as will do, and the two requests of a pod go out with bodies put together by
hand. It looks at no resource, taint or selector: only for an empty spec.nodeName.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import uvloop
from driver.api import Api, ApiError

WORKERS = 32
QUEUE = 50_000


def binding(namespace: str, name: str, uid: str, node: str) -> bytes:
    """The body that binds a pod."""
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"kind": "Node", "name": node},
        }
    )


def scheduled(namespace: str, name: str, uid: str, node: str, serial: int) -> bytes:
    """The body of the Scheduled event, field for field what kube-scheduler posts."""
    return orjson.dumps(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{serial:x}", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "default-scheduler",
            "reportingInstance": f"default-scheduler-{socket.gethostname()}",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace, "uid": uid},
            "note": f"Successfully assigned {namespace}/{name} to {node}",
            "type": "Normal",
        }
    )


class Limit:
    """The nodes known so far, in turn, and the pods that wait."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: list[str] = []
        self._turn = 0
        self._serial = itertools.count(int.from_bytes(os.urandom(6)))
        self._pods: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(QUEUE)
        self._known: set[str] = set()
        self._some_nodes = asyncio.Event()

    async def run(self) -> None:
        """Binds pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_nodes())
            tasks.create_task(self._follow_pods())
            for _ in range(WORKERS):
                tasks.create_task(self._work())

    async def _follow_nodes(self) -> None:
        async for metadata in added(self._api, "/api/v1/nodes"):
            if metadata["uid"] not in self._known:
                self._known.add(metadata["uid"])
                self._nodes.append(metadata["name"])
                self._some_nodes.set()

    async def _follow_pods(self) -> None:
        await self._some_nodes.wait()
        async for metadata in added(self._api, "/api/v1/pods", fieldSelector="spec.nodeName="):
            if metadata["uid"] not in self._known:
                self._known.add(metadata["uid"])
                await self._pods.put((metadata["namespace"], metadata["name"], metadata["uid"]))

    async def _work(self) -> None:
        while True:
            namespace, name, uid = await self._pods.get()
            node = self._nodes[self._turn % len(self._nodes)]
            self._turn += 1
            try:
                await self._api.create(
                    f"/api/v1/namespaces/{namespace}/pods/{name}/binding", binding(namespace, name, uid, node)
                )
                await self._api.create(
                    f"/apis/events.k8s.io/v1/namespaces/{namespace}/events",
                    scheduled(namespace, name, uid, node, next(self._serial)),
                )
            except ApiError as error:
                if error.status not in (404, 409):  # deleted meanwhile, or bound already
                    raise


async def added(api: Api, path: str, **query: str) -> AsyncIterator[dict[str, str]]:
    """The metadata of every object that is there or appears; some twice, after the API server has ended a watch."""
    while True:
        # Without a version a watch begins with all there is, so no list and no place to resume from are needed.
        async for line in api.watch(path, **query):
            if line.startswith(b'{"type":"ADDED"'):
                yield orjson.loads(line)["object"]["metadata"]


async def main() -> None:
    """Runs until a signal ends the process."""
    parser = argparse.ArgumentParser(description="Bind each pod to the next node, deciding nothing.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    arguments = parser.parse_args()
    async with Api.connect(arguments.kubeconfig) as api:
        await Limit(api).run()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    uvloop.run(main())
