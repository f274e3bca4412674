"""Carries out one workload against a fresh cluster while one side schedules it, and says what was seen.

The order of things is the workload's; this module only knows how each step is done, and keeps whatever can be prepared
(names, bodies) out of the time that is measured. Creating goes through a fixed number of workers, as scheduler_perf
does it, so that every side faces the same stream of pods.

Also change: tools/bench/plugin_profiles.py (requests for nodes and pods).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench.driver import controllers, figures, processes, step
from tools.bench.driver.api import Api, Awaited, bound_pods, scheduled_events
from tools.bench.driver.provisioner import Provisioner
from tools.bench.driver.template import Template, Value
from tools.bench.driver.workload import Workload

CREATORS = 30
# Once the last pod is bound a scheduler may still write events and conditions. It has written everything when each pod
# has its event and the API server has answered no more writes for so long; what it spends until then is counted.
SETTLE_SECONDS = 1.0
# A pod's event that is not there by then, counted from the last one that came, was dropped.
EVENT_PATIENCE_SECONDS = 30.0
# A scheduler that goes on writing for so long does something else.
MAX_SETTLE_SECONDS = 60.0
# A run in which not one pod is bound for this long has failed.
PATIENCE_SECONDS = 900.0

NODE = """
apiVersion: v1
kind: Node
metadata: {}
status:
  capacity: {cpu: "4", memory: 32Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {}
spec:
  containers:
    - name: pause
      image: registry.k8s.io/pause:3.10.1
      resources: {requests: {cpu: 100m, memory: 500Mi}, limits: {cpu: 100m, memory: 500Mi}}
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {}
"""


# Stands where a preassigned pod's node goes.
ASSIGNED = "@ASSIGNED@"


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod to be created."""

    key: str
    path: str
    body: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Competitor:
    """The scheduler under test, as far as a workload needs to know it."""

    start: Callable[[], Sequence[int]]
    """Starts it and returns its process ids."""
    check: Callable[[], None]
    """Raises where one of its processes has ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """What was noted when measuring began."""

    at: float
    namespaces: frozenset[str]
    """Whose pods count; empty for all."""
    cpu_s: Mapping[int, float]
    others_cpu_s: Mapping[str, float]


class Execution:
    """One workload on one cluster."""

    def __init__(
        self,
        api: Api,
        workload: Workload,
        competitor: Competitor,
        others: Mapping[str, processes.ProcessTree],
    ) -> None:
        self._api = api
        self._workload = workload
        self._competitor = competitor
        self._others = others
        self._scheduler = processes.ProcessTree([])
        self._bound = bound_pods()
        self._events = scheduled_events()
        self._nodes: list[str] = []
        self._namespaces: set[str] = {"default"}
        self._pending: dict[str, list[Awaited]] = {}
        self._sent: dict[str, float] = {}
        self._created: dict[str, float] = {}
        self._opened: Opened | None = None
        self._window: figures.Window | None = None

    async def run(self) -> figures.Window:
        """Carries out every step. Raises where one fails or stalls, or where nothing was measured."""
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self._bound.follow(self._api)),
                group.create_task(self._events.follow(self._api)),
                group.create_task(self._observe()),
            ]
            if not self._workload.starts_scheduler:
                self._start_scheduler()
            for number, each in enumerate(self._workload.steps):
                match each:
                    case step.Churn():
                        background.append(group.create_task(self._churn(each)))
                    case step.StartProvisioner():
                        background.append(group.create_task(Provisioner(self._api).run()))
                    case step.DeletePods(wait=False):
                        background.append(group.create_task(self._delete_pods(each)))
                    case _:
                        await self._carry_out(number, each)
            for task in background:
                task.cancel()
        if self._window is None:
            raise RuntimeError(f"{self._workload.name} measures nothing")
        return self._window

    def _start_scheduler(self) -> None:
        self._scheduler = processes.ProcessTree(self._competitor.start())

    async def _observe(self) -> None:
        """Samples the scheduler, so that what a process had used is known even if it ends; and notices that it did."""
        while True:
            await asyncio.sleep(1.0)
            self._competitor.check()
            self._scheduler.sample()

    async def _carry_out(self, number: int, each: step.Step) -> None:
        match each:
            case step.CreateNodes():
                await self._create_nodes(number, each)
            case step.CreateNamespaces():
                for index in range(each.count):
                    await self._namespace(f"{each.prefix}-{index}", each.template)
            case step.CreatePods():
                await self._create_pods(f"{number}", each, each.namespace or f"namespace-{number}")
            case step.CreatePodSets():
                for index in range(each.count):
                    await self._create_pods(f"{number}-{index}", each.pods, f"{each.prefix}-{index}")
            case step.DeletePods():
                await self._delete_pods(each)
            case step.CreateAny():
                await self._create_any(each)
            case step.Barrier():
                await self._barrier(each)
            case step.Sleep():
                await asyncio.sleep(each.duration)
            case step.Idle():
                await self._idle(each.duration)
            case step.StartCollecting():
                self._open(frozenset(each.namespaces))
            case step.StopCollecting():
                await self._close()
            case step.StartScheduler():
                self._start_scheduler()
            case step.Churn() | step.StartProvisioner():
                raise AssertionError(f"{each} runs in the background")

    async def _create_nodes(self, number: int, each: step.CreateNodes) -> None:
        templates = [_node_template(each, value) for value in each.label_values or ("",)]
        made = [
            templates[index % len(templates)].make(f"node-{number}-{index}", _values(each.values, index, each.count))
            for index in range(each.count)
        ]
        self._nodes.extend(name for name, _ in made)
        await self._in_parallel(self._api.create("/api/v1/nodes", body) for _, body in made)

    async def _namespace(self, name: str, template: Path | None = None) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            made = Template.load(template) if template else Template(NAMESPACE, "the built-in namespace")
            await self._api.create("/api/v1/namespaces", made.make(name, {"Index": 0, "Count": 1})[1])

    async def _create_pods(self, prefix: str, each: step.CreatePods, namespace: str) -> None:
        await self._namespace(namespace)
        if each.controllers is None:
            pods = self._pods(prefix, each, namespace)
        else:
            pods = await self._pods_of_controllers(prefix, each, each.controllers, namespace)
        awaited = self._bound.expect(() if each.one_at_a_time else (pod.key for pod in pods))
        if each.measured:
            self._open(frozenset((namespace,)))
        if each.one_at_a_time:
            for pod in pods:
                alone = self._bound.expect((pod.key,))
                await self._send(pod)
                await self._wait(alone)
        elif each.per_second is not None:
            await self._at_a_rate((self._send(pod) for pod in pods), each.per_second)
        else:
            await self._in_parallel(self._send(pod) for pod in pods)
        self._created[namespace] = time.perf_counter()
        if each.wait:
            await self._wait(awaited)
        else:
            self._pending.setdefault(namespace, []).append(awaited)
        if each.measured:
            await self._close()

    def _pods(self, prefix: str, each: step.CreatePods, namespace: str) -> list[Pod]:
        amend = _preassign if each.preassigned else None
        template = Template.load(each.template, amend) if each.template else Template(POD, "the built-in pod", amend)
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = []
        for index in range(each.count):
            name, body = template.make(f"pod-{prefix}-{index}", _values(each.values, index, each.count))
            if each.preassigned:
                body = body.replace(ASSIGNED.encode(), self._nodes[index % len(self._nodes)].encode())
            pods.append(Pod(f"{namespace}/{name}", path, body))
        return pods

    async def _pods_of_controllers(
        self, prefix: str, each: step.CreatePods, kinds: step.Controllers, namespace: str
    ) -> list[Pod]:
        """The pods, once all that they need is created."""
        templates = {
            path: Template.load(path)
            for kind in kinds.kinds
            for path in (kind.template, *kind.controller_objects, *kind.pod_objects)
        }
        pods = []
        objects: dict[str, tuple[str, bytes]] = {}
        for drawn in controllers.draw(kinds, each.count):
            values = {**each.values, **drawn.values}
            default = f"{prefix}-{drawn.controller}-{drawn.index}"
            name, body = templates[drawn.kind.template].make(f"pod-{default}", values)
            pods.append(Pod(f"{namespace}/{name}", f"/api/v1/namespaces/{namespace}/pods", body))
            for path in (*drawn.kind.controller_objects, *drawn.kind.pod_objects):
                template = templates[path]
                name, body = template.make(f"{template.kind.lower()}-{default}", values)
                where = collection(template.api_version, template.kind, namespace)
                objects[f"{where}/{name}"] = where, body
        await self._in_parallel(self._api.create(where, body) for where, body in objects.values())
        return pods

    async def _send(self, pod: Pod) -> None:
        self._sent[pod.key] = time.perf_counter()
        await self._api.create(pod.path, pod.body)

    async def _in_parallel(self, requests: Iterator[Coroutine[Any, Any, None]]) -> None:
        """Makes requests with as many workers as scheduler_perf has; each takes the next when it has finished one."""

        async def work() -> None:
            for request in requests:
                await request

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(work())

    async def _wait(self, awaited: Awaited) -> None:
        """Waits until every pod is bound. Raises RuntimeError where that stalls, with the reason of one that is not."""
        try:
            await awaited.wait(PATIENCE_SECONDS)
        except TimeoutError as error:
            namespace, _, name = min(awaited.left).partition("/")
            pod = await self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            conditions = pod["status"].get("conditions", ())
            why = next((each.get("message") for each in conditions if each["type"] == "PodScheduled"), "not tried yet")
            bound = f"bound to {pod['spec']['nodeName']}, unseen" if pod["spec"].get("nodeName") else why
            raise RuntimeError(f"{error}; {namespace}/{name}: {bound}") from error

    async def _at_a_rate(self, requests: Iterable[Coroutine[Any, Any, None]], per_second: float) -> None:
        started, left = time.perf_counter(), iter(requests)
        async with asyncio.TaskGroup() as group:
            for index in itertools.count():
                await asyncio.sleep(max(started + index / per_second - time.perf_counter(), 0))
                # Taken when it is due: one that was made and not sent is a warning.
                if (request := next(left, None)) is None:
                    return
                group.create_task(request)

    async def _create_any(self, each: step.CreateAny) -> None:
        template = Template.load(each.template)
        if each.namespace is not None:
            await self._namespace(each.namespace)
        path = collection(template.api_version, template.kind, each.namespace)
        made = (
            template.make(f"{template.kind.lower()}-{index}", _values(each.values, index, each.count))
            for index in range(each.count)
        )
        await self._in_parallel(self._api.create(path, body) for _, body in made)

    async def _delete_pods(self, each: step.DeletePods) -> None:
        """Deletes the pods that have a node; no kubelet confirms their end, so they go at once."""
        paths = [
            f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0"
            for namespace, _, name in (key.partition("/") for key in self._bound.seen_at)
            if namespace == each.namespace
        ]
        requests = (self._api.delete(path) for path in paths)
        if each.per_second is None:
            await self._in_parallel(requests)
        else:
            await self._at_a_rate(requests, each.per_second)

    async def _churn(self, each: step.Churn) -> None:
        """Creates one object of each template an interval; in recreate mode the oldest goes where they get too many."""
        templates = [Template.load(path) for path in each.templates]
        await self._namespace("churn")
        there: collections.deque[str] = collections.deque()
        for serial in itertools.count():
            if each.number and not each.recreate and serial >= each.number:
                return
            for kind, template in enumerate(templates):
                namespace = None if template.kind == "Node" else "churn"
                path = collection(template.api_version, template.kind, namespace)
                name, body = template.make(f"churn-{kind}-{serial}", {"Index": serial, "Count": 1})
                if each.recreate and len(there) >= each.number * len(templates):
                    await self._api.delete(there.popleft())
                await self._api.create(path, body)
                there.append(f"{path}/{name}")
            await asyncio.sleep(each.interval)

    async def _barrier(self, each: step.Barrier) -> None:
        namespaces = each.namespaces or tuple(self._pending)
        if each.attempted:
            while not await self._all_attempted(frozenset(namespaces)):
                await asyncio.sleep(0.5)
            return
        for namespace in namespaces:
            for awaited in self._pending.pop(namespace, []):
                await self._wait(awaited)

    async def _all_attempted(self, namespaces: frozenset[str]) -> bool:
        async for page in self._api.pages("/api/v1/pods", fieldSelector="spec.nodeName="):
            for pod in page["items"]:
                tried = any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ()))
                if not tried and pod["metadata"]["namespace"] in namespaces:
                    return False
        return True

    def _open(self, namespaces: frozenset[str]) -> None:
        cpu = {pid: sample.cpu_s for pid, sample in self._scheduler.sample().items()}
        self._opened = Opened(time.perf_counter(), namespaces, cpu, self._others_cpu())

    async def _close(self) -> None:
        opened = self._opened
        if opened is None:
            raise RuntimeError(f"{self._workload.name} stops measuring before it starts")

        def counts(key: str) -> bool:
            return not opened.namespaces or key.partition("/")[0] in opened.namespaces

        bound = {key: at for key, at in self._bound.seen_at.items() if at >= opened.at and counts(key)}
        complete = await self._complete(bound)
        samples, now = self._scheduler.sample(), self._others_cpu()
        self._opened = None
        last = max(bound.values(), default=opened.at)
        events = {key: at for key, at in self._events.seen_at.items() if key in bound}
        created = [at for namespace, at in self._created.items() if counts(f"{namespace}/")]
        spent = {pid: sample.cpu_s - opened.cpu_s.get(pid, 0.0) for pid, sample in samples.items()}
        others = {name: now[name] - opened.others_cpu_s[name] for name in now}
        others["elsewhere"] = max(others.pop("machine") - sum(others.values()) - sum(spent.values()), 0.0)
        self._window = figures.Window(
            started=opened.at,
            created=max([opened.at, *created]),
            bound=sorted(bound.values()),
            complete=complete,
            event_lags=[at - bound[key] for key, at in events.items()],
            events_behind=len(bound) - sum(at <= last for at in events.values()),
            waits=[at - self._sent[key] for key, at in bound.items() if self._sent.get(key, 0.0) >= opened.at],
            cpu_s=_by_label(samples, spent),
            pss_mb=_by_label(samples, {pid: sample.pss_mb for pid, sample in samples.items()}),
            others_cpu_s=others,
            capacity_s=(time.perf_counter() - opened.at) * processes.CPUS,
        )

    async def _complete(self, bound: Mapping[str, float]) -> float:
        """Waits until the scheduler has written everything; answers when the last write was seen."""
        with contextlib.suppress(TimeoutError):  # the figures say how many events are missing
            await self._events.expect(bound).wait(EVENT_PATIENCE_SECONDS)
        last = max([*bound.values(), *(self._events.seen_at.get(key, 0.0) for key in bound)])
        end = time.perf_counter() + MAX_SETTLE_SECONDS
        writes = await self._api.writes()
        while time.perf_counter() < end:
            await asyncio.sleep(SETTLE_SECONDS)
            before, writes = writes, await self._api.writes()
            if writes == before:
                break
            last = time.perf_counter()
        return last

    async def _idle(self, duration: float) -> None:
        if self._window is None:
            raise RuntimeError(f"{self._workload.name} is idle before it has measured anything")
        before = {pid: sample.cpu_s for pid, sample in self._scheduler.sample().items()}
        await asyncio.sleep(duration)
        after = self._scheduler.sample()
        spent = sum(sample.cpu_s - before.get(pid, 0.0) for pid, sample in after.items())
        self._window = dataclasses.replace(self._window, idle_cpu_ms_per_s=1000 * spent / duration)

    def _others_cpu(self) -> dict[str, float]:
        used = {name: tree.cpu_s() for name, tree in self._others.items()}
        return {**used, "machine": processes.machine_cpu_s()}


def _by_label(samples: Mapping[int, processes.Sample], amounts: Mapping[int, float]) -> dict[str, float]:
    """Amounts by process id, added up over the processes that are called the same."""
    result: dict[str, float] = {}
    for pid, amount in amounts.items():
        label = samples[pid].label
        result[label] = result.get(label, 0.0) + amount
    return result


def _values(values: Mapping[str, Value], index: int, count: int) -> dict[str, Value]:
    return {**values, "Index": index, "Count": count}


def _node_template(each: step.CreateNodes, zone: str) -> Template:
    def amend(node: dict[str, Any]) -> None:
        labels = node["metadata"].setdefault("labels", {})
        labels["kubernetes.io/hostname"] = node["metadata"]["name"]
        if zone:
            labels[each.label_key] = zone

    return Template.load(each.template, amend) if each.template else Template(NODE, "the built-in node", amend)


def _preassign(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = ASSIGNED


def collection(api_version: str, kind: str, namespace: str | None) -> str:
    """The path that objects of a kind are created at."""
    plural = kind.lower()
    plural += "es" if plural.endswith("s") else "s"
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
