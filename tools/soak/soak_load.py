"""The load of a soak: pods come and go at a steady rate, nodes are replaced, and other frontends lead.

Also change: tools/soak/steady_load.py (the load).
"""

from __future__ import annotations

import asyncio
import collections
import random
import time
from dataclasses import dataclass

from tests.e2e import installation
from tools.soak import process_samples, supervisor

_STEP_SECONDS = 0.1
_AT_ONCE = 32
_SIZES = 20
"""So many requests of CPU there are."""

_PODS_OF_AN_APP = 500
"""After so many pods a new app begins: labels, and so classes of pods, that nobody has seen before."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the load is: rates in pods a second, periods and lifetimes in seconds."""

    pods_per_second: float = 100.0
    lifetime: float = 30.0
    node_period: float = 10.0
    leader_period: float = 1800.0
    unschedulable_share: float = 0.05


class Load:
    """Keeps a cluster busy. `installation` has two frontends."""

    def __init__(
        self, here: installation.Installation, shape: Shape, seed: int, supervising: supervisor.Supervisor
    ) -> None:
        self._here = here
        self._supervisor = supervising
        self._shape = shape
        self._random = random.Random(seed)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._created_at: dict[str, float] = {}
        self._due: collections.deque[tuple[float, str, str]] = collections.deque()
        self.pods = 0
        self.node_replacements = 0
        self.leader_changes = 0
        self.double_bindings: list[str] = []

    def latencies(self) -> list[float]:
        """Seconds from creation to binding of the pods that were bound since the last call."""
        witness = self._here.witness
        bound = [uid for uid in self._created_at if uid in witness.bound_at]
        return [witness.bound_at[uid] - self._created_at.pop(uid) for uid in bound]

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._create_pods())
            group.create_task(self._delete_pods())
            group.create_task(self._replace_nodes())
            group.create_task(self._change_leaders())
            group.create_task(self._supervisor.run())

    async def _create_pods(self) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_STEP_SECONDS)
                wanted = int((time.monotonic() - began) * self._shape.pods_per_second)
                while self.pods < wanted:
                    self.pods += 1
                    await self._at_once.acquire()
                    group.create_task(self._create_pod(self._new_pod(self.pods)))

    def _new_pod(self, number: int) -> installation.Json:
        app = {"app": f"app-{number // _PODS_OF_AN_APP}"}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": app}}
        preferred = [{"weight": 1, "podAffinityTerm": term}]
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        spec: installation.Json = {"affinity": affinity} if number % 3 == 0 else {}
        if self._random.random() < self._shape.unschedulable_share:
            spec["nodeSelector"] = {"no-node": "has-this"}
        cpu = f"{10 * (1 + self._random.randrange(_SIZES))}m"
        return installation.pod(f"pod-{number}", cpu, app, terminationGracePeriodSeconds=0, **spec)

    async def _create_pod(self, pod: installation.Json) -> None:
        try:
            now = time.monotonic()
            created = await self._here.request("POST", "/api/v1/namespaces/default/pods", pod)
            uid = created["metadata"]["uid"]
            if "nodeSelector" not in pod["spec"]:
                self._created_at[uid] = now
            self._due.append((now + self._shape.lifetime, pod["metadata"]["name"], uid))
        finally:
            self._at_once.release()

    async def _delete_pods(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(_STEP_SECONDS)
                while self._due and self._due[0][0] <= time.monotonic():
                    _, name, uid = self._due.popleft()
                    await self._at_once.acquire()
                    group.create_task(self._delete_pod(name, uid))

    async def _delete_pod(self, name: str, uid: str) -> None:
        witness = self._here.witness
        try:
            path = f"{self._here.url}/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"
            async with self._here.session.delete(path, headers=self._here.headers) as answer:
                # The pods of a node that was replaced are gone already.
                assert answer.status in (200, 202, 404), f"{path}: {answer.status} {await answer.text()}"
        finally:
            self._at_once.release()
        self.double_bindings += witness.moved
        witness.moved.clear()
        # What is never bound in its lifetime has waited for as long.
        if uid in self._created_at and uid not in witness.bound_at:
            witness.bound_at[uid] = time.monotonic()
        asyncio.get_running_loop().call_later(self._shape.lifetime, self._forget, uid)

    def _forget(self, uid: str) -> None:
        for by_uid in (self._created_at, self._here.witness.node_of, self._here.witness.bound_at):
            by_uid.pop(uid, None)

    async def _replace_nodes(self) -> None:
        names = collections.deque(node["metadata"]["name"] for node in await self._here.nodes())
        while True:
            await asyncio.sleep(self._shape.node_period)
            self.node_replacements += 1
            await self._here.request("DELETE", f"/api/v1/nodes/{names.popleft()}")
            names.append(f"replacement-{self.node_replacements}")
            await self._here.add_node(names[-1])

    async def _change_leaders(self) -> None:
        while True:
            await asyncio.sleep(self._shape.leader_period)
            self.leader_changes += 1
            leader = await leading(self._here)
            await self._supervisor.replace(leader)
            await self._here.ready(leader)


def admin_socket(here: installation.Installation, frontend: installation.Process) -> str:
    """Where a frontend of the soak serves its metrics."""
    return f"unix:{here.folder}/{frontend.name}.sock"


async def leading(here: installation.Installation) -> installation.Process:
    """The frontend that leads, as soon as one does."""
    while True:
        for frontend in here.frontends:
            try:
                page = await process_samples.metrics_page(admin_socket(here, frontend))
            except OSError:
                continue  # it is being started again
            if process_samples.gauges(page).get("leader_election_master_status"):
                return frontend
        await asyncio.sleep(0.5)
