"""The limit: a scheduler that decides nothing. It binds each pod to the next node and posts the Scheduled event.

What it reaches is what binding alone costs on this machine and this API server, whatever one decides: the yardstick
that the benchmark holds the others against. It has to be lean, because a slow one would flatter them; so pods are taken
off the watch with as little parsing as will do, and the two requests of a pod go out with bodies put together by
hand. It looks at no resource, taint or selector: only for an empty spec.nodeName.

For a pod with a priority it evicts the first pods that it bound to the next node, with all that kube-scheduler writes
for a preemptor: event and condition of the failed attempt, mark, deletion and event of each victim. Then it binds it.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvloop
from driver.api import Api, ApiError

from trireme.framework import clocks

WORKERS = 32
QUEUE = 50_000
# What the pods that are evicted have, in thousandths of a CPU.
VICTIM_CPU = 900


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


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod."""

    namespace: str
    name: str
    uid: str
    priority: int = 0
    victims: int = 0  # to be evicted for it

    @property
    def path(self) -> str:
        """Where the API has it."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def event(pod: Pod, reason: str, action: str, note: str, serial: int, kind: str = "Normal") -> bytes:
    """The body of an event, field for field what kube-scheduler posts."""
    return orjson.dumps(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{pod.name}.{serial:x}", "namespace": pod.namespace},
            "eventTime": clocks.utc_now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "default-scheduler",
            "reportingInstance": f"default-scheduler-{socket.gethostname()}",
            "action": action,
            "reason": reason,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
            },
            "note": note,
            "type": kind,
        }
    )


def condition(kind: str, status: str, reason: str, message: str, **fields: str) -> bytes:
    """The body of a status patch that sets a condition."""
    now = clocks.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
    return orjson.dumps({"status": {"conditions": [{**entry, "lastProbeTime": None}], **fields}})


def wanted_cpu(pod: Any) -> int:
    """What the pod requests, in thousandths of a CPU: whole CPUs, or thousandths, as the API server writes it."""
    cpu = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)


class Limit:
    """The nodes known so far, in turn, and the pods that wait."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nodes: list[str] = []
        self._turn = 0
        self._serial = itertools.count(int.from_bytes(os.urandom(6)))
        self._pods: asyncio.Queue[Pod] = asyncio.Queue(QUEUE)
        self._bound: dict[str, list[Pod]] = collections.defaultdict(list)
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
        async for entry in added(self._api, "/api/v1/nodes"):
            metadata = entry["metadata"]
            if metadata["uid"] not in self._known:
                self._known.add(metadata["uid"])
                self._nodes.append(metadata["name"])
                self._some_nodes.set()

    async def _follow_pods(self) -> None:
        await self._some_nodes.wait()
        async for entry in added(self._api, "/api/v1/pods", fieldSelector="spec.nodeName="):
            metadata = entry["metadata"]
            if metadata["uid"] not in self._known:
                self._known.add(metadata["uid"])
                priority = entry["spec"].get("priority") or 0
                victims = wanted_cpu(entry) // VICTIM_CPU if priority > 0 else 0
                await self._pods.put(Pod(metadata["namespace"], metadata["name"], metadata["uid"], priority, victims))

    async def _work(self) -> None:
        while True:
            pod = await self._pods.get()
            node = self._nodes[self._turn % len(self._nodes)]
            self._turn += 1
            try:
                if pod.priority > 0:
                    await self._make_room(pod, node)
                else:
                    self._bound[node].append(pod)
                await self._api.create(f"{pod.path}/binding", binding(pod.namespace, pod.name, pod.uid, node))
                note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
                await self._tell(pod, "Scheduled", "Binding", note)
            except ApiError as error:
                if error.status not in (404, 409):  # deleted meanwhile, or bound already
                    raise

    async def _make_room(self, pod: Pod, node: str) -> None:
        victims, self._bound[node] = self._bound[node][: pod.victims], self._bound[node][pod.victims :]
        note = f"0/{len(self._nodes)} nodes are available: preempting {len(victims)} victims on node {node}"
        await self._tell(pod, "FailedScheduling", "Scheduling", note, "Warning")
        refused = condition("PodScheduled", "False", "Unschedulable", note, nominatedNodeName=node)
        await self._api.patch(f"{pod.path}/status", refused)
        for victim in victims:
            text = "default-scheduler: preempting to accommodate a higher priority pod"
            marked = condition("DisruptionTarget", "True", "PreemptionByScheduler", text)
            await self._api.patch(f"{victim.path}/status", marked)
            await self._api.delete(victim.path)
            await self._tell(victim, "Preempted", "Preempting", f"Preempted by pod {pod.uid} on node {node}")

    async def _tell(self, pod: Pod, reason: str, action: str, note: str, kind: str = "Normal") -> None:
        body = event(pod, reason, action, note, next(self._serial), kind)
        await self._api.create(f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events", body)


async def added(api: Api, path: str, **query: str) -> AsyncIterator[Any]:
    """Every object that is there or appears; some twice, after the API server has ended a watch."""
    while True:
        # Without a version a watch begins with all there is, so no list and no place to resume from are needed.
        async for line in api.watch(path, **query):
            if line.startswith(b'{"type":"ADDED"'):
                yield orjson.loads(line)["object"]


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
