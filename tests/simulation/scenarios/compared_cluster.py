"""A real control plane with whole Tririemes on it, for scenarios that are simulated first and then made to happen.

etcd, kube-apiserver, and of kube-controller-manager the controllers of volumes and of claims for devices run as on any
cluster; filter, score, bind and insight are processes. The frontends run in this one, so that scheduling can be held
while changes are made, and so that it is known when nothing more happens. Kubelets and the other controllers are this
program: see `acted_controllers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
from google.protobuf import json_format

from tests.simulation.scenarios import pool_plugin
from tools.controlplane import launcher, ports
from trireme.cli import simulate_command
from trireme.config import commandline
from trireme.frontend import app, early_lists, running
from trireme.frontend.phase_clients import insight_replicas, local_phases
from trireme.queueing import backoff
from trireme.queueing.states import BackOff
from trireme.v1 import cycle_pb2, insight_pb2, insight_pb2_grpc, simulation_pb2

Json = dict[str, Any]

HERE = pathlib.Path(__file__).parent
GATES = {"GenericWorkload": True}
SERVED = {"scheduling.k8s.io/v1beta1": True}
_CONTROLLERS = (
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",
)
# Whatever follows from a change has followed by then. Units: seconds.
_DEADLINE = 60.0
_POLL = 0.008


class NotSettledError(AssertionError):
    """Something went on for too long; the text says what."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A collection of the API, and the field of ClusterObject that its objects have; pods and nodes have none."""

    name: str
    prefix: str = "/api/v1"
    namespaced: bool = True
    field: str = ""

    @property
    def watched(self) -> str:
        """The collection that informers follow."""
        return f"{self.prefix}/{self.name}"

    def path(self, name: str = "") -> str:
        """The path of an object in the namespace default, or of all."""
        scope = "/namespaces/default" if self.namespaced else ""
        return f"{self.prefix}{scope}/{self.name}" + (f"/{name}" if name else "")


PODS = Kind("pods")
NODES = Kind("nodes", namespaced=False)
SERVICES = Kind("services", field="service")
PRIORITY_CLASSES = Kind("priorityclasses", "/apis/scheduling.k8s.io/v1", namespaced=False)
REPLICA_SETS = Kind("replicasets", "/apis/apps/v1", field="replica_set")
STATEFUL_SETS = Kind("statefulsets", "/apis/apps/v1", field="stateful_set")
BUDGETS = Kind("poddisruptionbudgets", "/apis/policy/v1", field="pod_disruption_budget")
VOLUMES = Kind("persistentvolumes", namespaced=False, field="persistent_volume")
VOLUME_CLAIMS = Kind("persistentvolumeclaims", field="persistent_volume_claim")
STORAGE_CLASSES = Kind("storageclasses", "/apis/storage.k8s.io/v1", namespaced=False, field="storage_class")
GROUPS = Kind("podgroups", "/apis/scheduling.k8s.io/v1beta1", field="pod_group")
DEVICE_CLASSES = Kind("deviceclasses", "/apis/resource.k8s.io/v1", namespaced=False, field="device_class")
SLICES = Kind("resourceslices", "/apis/resource.k8s.io/v1", namespaced=False, field="resource_slice")
CLAIMS = Kind("resourceclaims", "/apis/resource.k8s.io/v1", field="resource_claim")


class _Signal:
    """As stop_signal.StopSignal and reload_signal.ReloadSignal, without signals."""

    def __init__(self) -> None:
        self.stop: Callable[[], object] | None = None

    def call_on_stop(self, action: Callable[[], object]) -> None:
        """Have `stop` call `action`."""
        self.stop = action

    def call_on_reload(self, action: object) -> None:
        """Nothing has it read its files again."""


class Trireme:
    """A whole Trireme: the frontend in this process, the other phases as processes of their own."""

    def __init__(
        self, name: str, folder: pathlib.Path, plane: launcher.ControlPlane, plugin: str, *, record: bool
    ) -> None:
        """`plugin`: address of the remote plugin that profiles may enable; `record`: insight does, beside questions."""
        self.name = name
        self._folder = folder
        self._plane = plane
        self._plugin = plugin
        self._record = record
        self._children: list[launcher.Child] = []
        self._task: asyncio.Task[int] | None = None
        self._app: app.App | None = None
        self._channel: grpc.aio.Channel | None = None
        self._signal = _Signal()

    @property
    def app(self) -> app.App:
        """The frontend."""
        assert self._app is not None
        return self._app

    async def start(self, profiles: Sequence[Json], *, insight: bool) -> None:
        """Start all, and return when it has the cluster and every phase answers."""
        phases = ("filter", "score", "bind", *(("insight",) if insight else ()))
        for phase in phases:
            self._start_phase(phase)
        scheduler, own = self._write_files(profiles, insight)
        arguments = (
            "--secure-port=0",
            f"--trireme-config={own}",
            f"--config={scheduler}",
            "--feature-gates=" + ",".join(f"{gate}=true" for gate in GATES),
        )
        found: list[commandline.CompletedConfig] = []
        code = commandline.run(arguments, environment={}, build=lambda done: found.append(done) or 0, log=_print_error)
        if not found:
            raise NotSettledError(f"the configuration of {self.name} is refused: {code}")
        self._task = asyncio.create_task(self._run_frontend(found[0]))
        await self.until(lambda: self._app is not None and self._app.synced and self._ready(), "all phases answer")
        if insight:
            self._channel = grpc.aio.insecure_channel(f"unix:{self._folder}/{self.name}-insight")

    def _start_phase(self, phase: str) -> None:
        """Start the process of a phase."""
        flags = [f"--listen=unix:{self._folder}/{self.name}-{phase}"]
        if phase == "bind":
            flags += [f"--kubeconfig={self._plane.kubeconfig}", f"--leader-elect-resource-name={self.name}"]
        if phase == "insight" and self._record:
            flags.append(f"--record-dir={self._folder}/recording")
        command = [sys.executable, str(HERE / "phase_program.py"), phase, *flags]
        name = f"{self.name}-{phase}"
        self._children.append(launcher.spawn(name, command, self._folder / f"{name}.log"))

    def _write_files(self, profiles: Sequence[Json], insight: bool) -> tuple[pathlib.Path, pathlib.Path]:
        """Write both configuration files."""
        scheduler = self._folder / f"{self.name}.yaml"
        client = {"kubeconfig": str(self._plane.kubeconfig), "qps": 1000, "burst": 1000}
        scheduler.write_text(json.dumps({**configuration(profiles), "clientConnection": client} | _lease(self.name)))
        endpoint = f"unix:{self._folder}/{self.name}-"
        document: Json = {
            "apiVersion": "trireme.dev/v1alpha1",
            "kind": "TriremeConfiguration",
            "phases": {phase: {"endpoints": [endpoint + phase]} for phase in ("filter", "score", "bind")},
            "fallback": {"mode": "none"},
            "remotePlugins": [
                {
                    "name": pool_plugin.NAME,
                    "address": self._plugin,
                    "extensionPoints": ["filter", "score"],
                    "deadline": "10s",
                }
            ],
        }
        if insight:
            document["insight"] = {"endpoints": [f"{endpoint}insight"]}
        own = self._folder / f"{self.name}-trireme.yaml"
        own.write_text(json.dumps(document))
        return scheduler, own

    async def _run_frontend(self, completed: commandline.CompletedConfig) -> int:
        """Run the frontend as its program does."""
        original = app.build

        def build(*arguments: Any, **named: Any) -> app.App:
            app.build = original
            self._app = original(*arguments, **named)
            return self._app

        app.build = build
        signals: Any = self._signal
        async with early_lists.request_lists(completed) as early:
            return await running.run(completed, early, local_phases.LocalPhases({}, {}), signals, signals)

    def _ready(self) -> bool:
        """Whether it leads, and all phases have the cluster."""
        return self.app.context.leader.leading and self.app.phases.links.available()

    async def until(self, done: Any, what: str) -> None:
        """Wait. Raises: NotSettledError."""
        ends = time.monotonic() + _DEADLINE
        while not done():
            if self._task is not None and self._task.done():
                raise NotSettledError(f"the frontend of {self.name} ended: {self._task.exception() or 'by itself'}")
            if time.monotonic() > ends:
                raise NotSettledError(f"{self.name}: not within {_DEADLINE:.0f} s: {what}: {self.doing()}")
            await asyncio.sleep(_POLL)

    def doing(self, *, backing_off: bool = True) -> str:
        """What keeps it from being idle; empty: nothing does. `backing_off`: pods that back off do, too."""
        if self._app is None:
            return "starting"
        scheduling = self._app.scheduling
        queue = scheduling.queue.contents.statistics()
        counts = {
            "active": queue.active,
            "backing off": (queue.backoff + queue.error_backoff) * backing_off,
            "held by plugins": queue.pre_enqueue_pending + queue.open_hint_calls,
            "in flight": queue.in_flight + queue.group_in_flight,
            "not confirmed": queue.done + scheduling.binding.unconfirmed_count,
            "being bound": scheduling.binding.background.running,
            "preempting": scheduling.preemptions.background.running,
            "reserving": scheduling.reserved.background.running,
            "conditions to write": len(scheduling.outbox),
            "in a cycle": int(scheduling.scheduler.in_cycle),
        }
        return ", ".join(f"{name}: {count}" for name, count in counts.items() if count)

    def backing_off(self) -> dict[str, tuple[int, bool]]:
        """By UID of the pods that back off, how often each was tried, and whether it is of a group."""
        pods = self.app.scheduling.queue.contents.waiting_pods()
        return {
            pod.uid: (pod.attempts, bool(pod.record.pod.parsed.group)) for pod in pods if isinstance(pod.state, BackOff)
        }

    def has_recent_failures(self) -> bool:
        """Whether a pod that waits for an event would have to back off if that came now."""
        policy, now = backoff.BackoffPolicy(), self.app.context.clocks.now()
        return any(policy.is_backing_off(pod, now) for pod in self.app.scheduling.queue.contents.waiting_pods())

    async def until_idle(self, *, backing_off: bool) -> None:
        """Return when no pod is tried or being bound, nor backs off, if that counts."""
        await self.until(lambda: not self.doing(backing_off=backing_off), "idle")

    async def until_seen(self, versions: dict[str, int], gone: Sequence[tuple[Kind, str]]) -> None:
        """Return when the informers are at these versions, by collection, and these objects are gone."""
        followed = {each.resource.path: each for each in self.app.informers}

        def behind() -> bool:
            return any(path in followed and followed[path].version < wanted for path, wanted in versions.items())

        cache = self.app.cluster.cache

        def there(kind: Kind, name: str) -> bool:
            if kind is NODES:
                return cache.node(name) is not None
            return cache.get_object(kind.field, "default" if kind.namespaced else "", name) is not None

        await self.until(lambda: not behind() and not any(there(*each) for each in gone), "the changes are seen")

    async def ask(self, question: Json) -> simulation_pb2.SimulateResponse:
        """Insight's answer on the state that the frontend has now."""
        built = self.app
        built.phases.publisher.publish()
        generation = built.cluster.cache.generation
        request = json_format.ParseDict(question, simulation_pb2.SimulateRequest())
        stub = insight_pb2_grpc.InsightServiceStub(self._channel)
        for _ in range(500):
            answer: simulation_pb2.SimulateResponse = await stub.Simulate(request)
            if answer.evaluated_generation >= generation:
                if self._record:
                    self._keep_question(answer.evaluated_generation, question)
                return answer
            await asyncio.sleep(_POLL)
        raise NotSettledError("insight does not follow")

    def _keep_question(self, generation: int, question: Json) -> None:
        """Keep a question beside the recording, a line each."""
        with (self._folder / "questions").open("a") as file:
            file.write(json.dumps({"generation": generation, "question": question}) + "\n")

    async def explain(self, name: str, uid: str) -> Json:
        """The evaluation with proposals that `trireme explain` shows of a pod that pends, on the state of now."""
        built = self.app
        built.phases.publisher.publish()
        generation, insight = built.cluster.cache.generation, built.phases.links.insight
        assert insight is not None
        pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=uid)
        request = insight_pb2.ExplainRequest(pod=pod, scores=True, proposals=True)
        for _ in range(500):
            # Insight hears of the queue a moment later than of the cluster.
            with contextlib.suppress(insight_replicas.InsightRefusal):
                found = await insight.explain(request)
                if found.HasField("queued_pod") and found.evaluated_generation >= generation:
                    return json_format.MessageToDict(found)
            await asyncio.sleep(_POLL)
        raise NotSettledError("insight does not follow")

    async def close(self) -> None:
        """End all."""
        if self._channel is not None:
            await self._channel.close()
        if self._task is not None:
            if self._signal.stop is not None:
                self._signal.stop()
            else:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for child in self._children:
            launcher.stop(child)


def configuration(profiles: Sequence[Json]) -> Json:
    """A KubeSchedulerConfiguration of these profiles."""
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**header, "profiles": list(profiles)}


def wanted_profiles(folder: pathlib.Path, profiles: Sequence[Json]) -> Json:
    """The fields of a request by which `trireme simulate --config` sends the profiles."""
    file = folder / "asked.yaml"
    file.write_text(json.dumps(configuration(profiles)))
    return simulate_command._profiles(str(file))


def _lease(name: str) -> Json:
    return {"leaderElection": {"leaderElect": True, "resourceName": name, "resourceNamespace": "kube-system"}}


def _print_error(line: object) -> None:
    print(line, file=sys.stderr)


class Cluster:
    """The control plane, the Tririemes on it, and the API's writes."""

    def __init__(self, plane: launcher.ControlPlane, folder: pathlib.Path, *, record: bool) -> None:
        """`record`: what happens is recorded in the folder."""
        self.folder = folder
        self._record = record
        self._plane = plane
        self._session: aiohttp.ClientSession | None = None
        self._plugin: launcher.Child | None = None
        self.triremes: list[Trireme] = []
        # By collection, the version of the last write; and what was deleted without a version.
        self._written: dict[str, int] = {}
        self._gone: list[tuple[Kind, str]] = []
        # The UIDs of pods that were evicted.
        self._evicted: list[str] = []

    @property
    def first(self) -> Trireme:
        """The Trireme whose insight simulates."""
        return self.triremes[0]

    @contextlib.asynccontextmanager
    async def running(self, *configurations: Sequence[Json]) -> AsyncIterator[Cluster]:
        """With a Trireme for each of the configurations, given as profiles; the first one has insight."""
        tls = ssl.create_default_context(cafile=str(self._plane.authority))
        headers = {"Authorization": f"Bearer {self._plane.token()}"}
        connector = aiohttp.TCPConnector(ssl=tls, limit=8)
        async with aiohttp.ClientSession(self._plane.server, headers=headers, connector=connector) as self._session:
            address = f"unix:{self.folder}/plugin"
            command = [sys.executable, str(HERE / "pool_plugin.py"), "--listen", address]
            self._plugin = launcher.spawn("plugin", command, self.folder / "plugin.log")
            try:
                for number, profiles in enumerate(configurations):
                    name, record = f"trireme-{number}", self._record and not number
                    self.triremes.append(Trireme(name, self.folder, self._plane, address, record=record))
                    await self.triremes[-1].start(profiles, insight=not number)
                yield self
            finally:
                for each in self.triremes:
                    await each.close()
                launcher.stop(self._plugin)

    def start_controllers(self) -> None:
        """Start the controllers that write what schedulers read of volumes and of claims for devices."""
        (port,) = ports.free_ports(1)
        self._plane.start_program(
            "kube-controller-manager",
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._plane.directory}",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            *launcher.gate_flags(GATES),
        )

    # Reads and writes

    async def request(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """One request. Raises: aiohttp.ClientResponseError."""
        assert self._session is not None
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, path, data=data, headers={"Content-Type": kind}) as response:
            found: Json = await response.json()
            if response.status >= 400:
                raise aiohttp.ClientResponseError(
                    response.request_info, (), status=response.status, message=f"{path}: {found.get('message')}"
                )
            return found

    async def create(self, kind: Kind, body: Json) -> Json:
        """Create an object."""
        return self.note(kind, await self.request("POST", kind.path(), body))

    async def replace(self, kind: Kind, body: Json, part: str = "") -> Json:
        """Replace an object, or its `part` (status)."""
        path = kind.path(body["metadata"]["name"]) + (f"/{part}" if part else "")
        return self.note(kind, await self.request("PUT", path, body))

    async def patch(self, kind: Kind, name: str, change: Json, part: str = "") -> Json:
        """Merge a change into an object, or its `part` (status)."""
        path = kind.path(name) + (f"/{part}" if part else "")
        return self.note(kind, await self.request("PATCH", path, change, "application/merge-patch+json"))

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete an object at once."""
        found = await self.request("DELETE", kind.path(name) + "?gracePeriodSeconds=0")
        if found["kind"] == "Status":
            self._gone.append((kind, name))
        else:
            self.note(kind, found)

    async def evict(self, name: str) -> bool:
        """Evict a pod by the API; return whether budgets allow it. It is gone at once."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"},
            "deleteOptions": {"gracePeriodSeconds": 0},
        }
        before = await self.get(PODS, name)
        assert before is not None
        try:
            await self.request("POST", f"{PODS.path(name)}/eviction", eviction)
        except aiohttp.ClientResponseError as error:
            if error.status == 429:
                return False
            raise
        self._evicted.append(before["metadata"]["uid"])
        return True

    async def get(self, kind: Kind, name: str) -> Json | None:
        """An object; None: there is none."""
        try:
            return await self.request("GET", kind.path(name))
        except aiohttp.ClientResponseError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, kind: Kind) -> list[Json]:
        """All objects of a kind."""
        found = await self.request("GET", kind.path())
        return found["items"] or []

    def note(self, kind: Kind, found: Json) -> Json:
        """Remember the version of what was written."""
        version = int(found["metadata"]["resourceVersion"])
        self._written[kind.watched] = max(version, self._written.get(kind.watched, 0))
        return found

    # Time

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Nothing is scheduled within the block; all schedulers have seen the changes when it ends.

        A simulation has all pods before it schedules one. Were the first tried as the second comes, the classes of a
        priority would take their turns otherwise, and so would pods of different priorities.
        """
        async with contextlib.AsyncExitStack() as stack:
            for each in self.triremes:
                await stack.enter_async_context(each.app.scheduling.scheduler.between_cycles())
            yield
            await self.until_seen()

    async def until_seen(self) -> None:
        """Return when all schedulers have seen what was written."""
        for each in self.triremes:
            await each.until_seen(self._written, self._gone)
            cache = each.app.cluster.cache
            await each.until(
                lambda cache=cache: not any(cache.pod(uid) is not None for uid in self._evicted), "evicted pods left"
            )
        self._gone.clear()
        self._evicted.clear()

    async def until_none(self, kind: Kind) -> None:
        """Return when all schedulers have seen that there is no object of this kind any more."""
        for each in self.triremes:
            cache = each.app.cluster.cache
            await each.until(lambda cache=cache: not cache.object_keys(kind.field), f"no {kind.name}")

    async def until_idle(self, *, backing_off: bool = True) -> None:
        """Return when no scheduler has anything to do; `backing_off`: pods that back off are something to do."""
        while True:
            for each in self.triremes:
                await each.until_idle(backing_off=backing_off)
            await asyncio.sleep(2 * _POLL)
            if not any(each.doing(backing_off=backing_off) for each in self.triremes):
                return
