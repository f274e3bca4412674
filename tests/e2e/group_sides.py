"""Scenarios on the real control plane, played to Trireme and to kube-scheduler, and what each made of it.

What is compared is what users see: which pods are bound, the conditions of pods and groups, and the events, except for
the words about a group that does not go. Schedulers and control planes go on from scenario to scenario; before each one
everything that the last one left is removed, and later reports of it do not count.
"""

import abc
import asyncio
import collections
import contextlib
import pathlib
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import aiohttp
import yaml

from tests.e2e import installation
from tools.controlplane import controlplane_fixture, launcher, ports

Json = dict[str, Any]

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
SERVED = {"scheduling.k8s.io/v1beta1": True}

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
REPORTER = "default-scheduler"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# The gate of groups of groups, where these are played with.
OF_GROUPS = "CompositePodGroup"
# A pod that asks for nothing, and that needs the node or the group that was added last: bound, it says that the
# scheduler knows all nodes, or all groups.
PROBE = "probe"
_PROBES = {GROUPS: PROBE, COMPOSITES: "probe-tree"}

_LEFT = (
    f"{PODS}?gracePeriodSeconds=0",
    GROUPS,
    EVENTS,
    "/api/v1/nodes",
)


def gang(name: str, min_count: int, **spec: Any) -> Json:
    """A PodGroup whose pods are scheduled so many at once or not at all."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }


def members(group: str, count: int, cpu: str = "1", first: int = 0, **spec: Any) -> list[Json]:
    """Pods of a group, named after it."""
    return [
        installation.pod(
            f"{group}-{number}",
            cpu=cpu,
            schedulingGroup={"podGroupName": group},
            terminationGracePeriodSeconds=0,
            **spec,
        )
        for number in range(first, first + count)
    ]


def made_from(name: str) -> Json:
    """What a group of a tree is made from, as the API asks for."""
    return {"workloadName": "workload", "templateName": name}


def composite_group(name: str, min_count: int = 0, **spec: Any) -> Json:
    """A group of groups; with no minimum any number goes."""
    policy: Json = {"gang": {"minGroupCount": min_count}} if min_count else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": policy, "workloadRef": made_from(name), **spec},
    }


class Stage:
    """The cluster that a scenario plays on.

    `kinds` are the collections of groups that there are, `former` the uids of what was there before.
    """

    def __init__(self, here: installation.Installation, kinds: tuple[str, ...], former: Collection[str] = ()) -> None:
        self.here = here
        self.kinds = kinds
        self._former = former
        self._groups_known = True

    async def nodes(self, count: int, cpu: str = "2", labels: Sequence[Mapping[str, str]] = ()) -> None:
        """So many nodes, each with its entry of `labels` if there are any; return once the scheduler knows them.

        Groups and pods come by other watches, and a group that is tried on some of the nodes is refused again.
        """
        for number in range(count):
            await self.here.add_node(f"node-{number}", cpu, labels[number] if labels else {})
        await self._bind_probe(nodeSelector={"kubernetes.io/hostname": f"node-{count - 1}"})

    async def group(self, group: Json) -> None:
        await self.here.request("POST", GROUPS, group)
        self._groups_known = False

    async def composite_group(self, group: Json) -> None:
        """A group of groups."""
        await self.here.request("POST", COMPOSITES, group)
        self._groups_known = False

    async def pods(self, pods: Iterable[Json]) -> None:
        """Pods, which the scheduler sees after the groups that there are.

        Otherwise the watch of groups may be behind that of pods. The pods that wait for a group are added to it one by
        one, and kube-scheduler may try those that it has: they are refused again, in other words.
        """
        if not self._groups_known:
            await self._wait_until_groups_are_known()
        for pod in pods:
            await self.here.request("POST", PODS, pod)

    async def _wait_until_groups_are_known(self) -> None:
        """Return once a pod is bound whose group, and the group of that one, came after all others."""
        group = gang(PROBE, 1)
        if COMPOSITES in self.kinds:
            # Of another name: kube-scheduler confuses a group with the one that it is in if their names are the same.
            await self.here.request("POST", COMPOSITES, composite_group(_PROBES[COMPOSITES]))
            group["spec"] |= {"parentCompositePodGroupName": _PROBES[COMPOSITES], "workloadRef": made_from(PROBE)}
        await self.here.request("POST", GROUPS, group)
        await self._bind_probe(schedulingGroup={"podGroupName": PROBE})
        for kind in self.kinds:
            await self.patch(f"{kind}/{_PROBES[kind]}", {"metadata": {"finalizers": []}})
            await self.delete(f"{kind}/{_PROBES[kind]}")
        await installation.until(self._has_no_probe, 60.0, lambda: "the groups of the probe stay")
        self._groups_known = True

    async def _has_no_probe(self) -> bool:
        groups = [(kind, each) for kind in self.kinds for each in (await self.here.request("GET", kind))["items"] or []]
        return all(each["metadata"]["name"] != _PROBES[kind] for kind, each in groups)

    async def _bind_probe(self, **spec: Any) -> None:
        """Return once the scheduler has bound such a pod; then it is deleted."""
        probe = installation.pod(PROBE, cpu="0", terminationGracePeriodSeconds=0, **spec)
        await self.here.request("POST", PODS, probe)
        await self.until_bound(1, PROBE)
        await self.delete(f"{PODS}/{PROBE}")

    async def patch(self, path: str, change: Json) -> None:
        await self.here.request("PATCH", path, change, "application/merge-patch+json")

    async def delete(self, path: str) -> None:
        await self.here.request("DELETE", f"{path}?gracePeriodSeconds=0")

    async def pods_at_once(self, pods: list[Json]) -> None:
        """Pods that are tried together for the first time, though some would do: the first one holds them back."""
        pods[0]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        await self.pods(pods)
        await self.patch(f"{PODS}/{pods[0]['metadata']['name']}", {"spec": {"schedulingGates": None}})

    async def bound(self, prefix: str = "") -> list[str]:
        """The names of the bound pods, sorted."""
        pods = await self.here.pods()
        names = (pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))
        return sorted(name for name in names if name.startswith(prefix))

    async def until_bound(self, count: int, prefix: str = "", seconds: float = 60.0) -> None:
        found: list[str] = []

        async def there() -> bool:
            found[:] = await self.bound(prefix)
            return len(found) >= count

        await installation.until(there, seconds, lambda: f"{found} of {count} {prefix} are bound: {self.logs()}")

    async def condition(self, group: str) -> Json:
        """The PodGroup's condition, {} where it has none."""
        found = await self.here.request("GET", f"{GROUPS}/{group}")
        conditions = found.get("status", {}).get("conditions") or [{}]
        return dict(conditions[0])

    async def until_condition(self, group: str, reason: str, text: str = "", seconds: float = 60.0) -> Json:
        found: Json = {}

        async def there() -> bool:
            found.clear()
            found.update(await self.condition(group))
            return found.get("reason") == reason and text in found.get("message", "")

        await installation.until(there, seconds, lambda: f"{group} has {found}: {self.logs()}")
        return found

    async def until_told(self, reason: str, count: int = 1, seconds: float = 60.0) -> None:
        async def there() -> bool:
            return sum(event["reason"] == reason for event in await self._events()) >= count

        await installation.until(there, seconds, lambda: f"no {count} events {reason}: {self.logs()}")

    async def settled(self, seconds: float = 1.5) -> None:
        """Return once nothing that is compared has changed for so long."""
        seen, since = await self.outcome(), time.monotonic()
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.25)
            now = await self.outcome()
            if now != seen:
                seen, since = now, time.monotonic()

    async def priorities(self) -> None:
        """The priority classes of these scenarios."""
        await self.here.add_priority_class("high", 1000)

    def logs(self) -> str:
        return "\n".join(process.said[-2000:] for process in self.here.frontends)

    async def outcome(self) -> Json:
        """What users see, without what is chance: uids, times, and which of equal nodes it was."""
        pods = await self.here.pods()
        groups = (await self.here.request("GET", GROUPS))["items"] or []
        composites = [each for kind in self.kinds[1:] for each in (await self.here.request("GET", kind))["items"] or []]
        uids = {each["metadata"]["uid"]: f"<{each['metadata']['name']}>" for each in (*pods, *groups, *composites)}
        return {
            "pods": {
                pod["metadata"]["name"]: {
                    "bound": bool(pod["spec"].get("nodeName")),
                    "nominated": bool(pod["status"].get("nominatedNodeName")),
                    "conditions": _conditions(pod, ("PodScheduled", "DisruptionTarget")),
                }
                for pod in pods
            },
            "groups": {
                group["metadata"]["name"]: _conditions(group, ("PodGroupInitiallyScheduled",))
                for group in (*groups, *composites)
            },
            "events": sorted({_event(event, uids) for event in await self._events()}),
        }

    async def _events(self) -> list[Json]:
        """The scheduler's events of this scenario.

        Not those of other controllers, nor what became of the probe, which may have come too early.
        """
        events = (await self.here.request("GET", EVENTS))["items"] or []
        return [
            event
            for event in events
            if event.get("reportingController") == REPORTER and self._counts(event["regarding"])
        ]

    def _counts(self, regarding: Json) -> bool:
        return regarding["name"] != PROBE and regarding.get("uid", "") not in self._former


# The words about a group that does not go, and about its pods: kube-scheduler v1.37, which runs beside, has others.
_OF_GROUP = re.compile(
    r"minCount \(\d+\) (cannot be|is not yet) satisfied|minimum threshold \(\d+\)|pod group is unschedulable"
    r'|(parent|ancestor composite) pod group "|no pods were schedulable|other pod from a pod group'
    r"|composite pod group .*evaluation failed|placements are available|no feasible placements"
)


def _without_words_of_groups(text: str) -> str:
    return "as its group" if _OF_GROUP.search(text) else text


def _conditions(obj: Json, types: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        tuple(
            _without_words_of_groups(str(each.get(field, "")))
            for field in ("type", "status", "reason", "message", "observedGeneration")
        )
        for each in obj.get("status", {}).get("conditions") or []
        if each["type"] in types
    ]


def _event(event: Json, uids: Json) -> tuple[str, ...]:
    regarding = event["regarding"]
    note = re.sub(r"\bnode-\d+", "<node>", event["note"])
    for uid, name in uids.items():
        note = note.replace(uid, name)
    return (
        regarding["kind"],
        regarding["name"],
        event["type"],
        event["reason"],
        event["action"],
        _without_words_of_groups(note),
    )


Scenario = Callable[[Stage], Awaitable[None]]


@contextlib.asynccontextmanager
async def stage(
    plane: launcher.ControlPlane, folder: pathlib.Path, gates: Iterable[str], former: set[str] | None = None
) -> AsyncIterator[Stage]:
    """An empty cluster without a scheduler.

    With `former`, a set of the uids of all that was there before, a scheduler may be running: its Lease stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    headers = {"Authorization": f"Bearer {plane.token()}"}
    tls = ssl.create_default_context(cafile=str(plane.authority))
    here = installation.Installation(folder, plane.kubeconfig, plane.server, headers, tls)
    kinds = (GROUPS, COMPOSITES) if OF_GROUPS in gates else (GROUPS,)
    async with aiohttp.ClientSession() as here.session:
        left = [(kind, each) for kind in (PODS, *kinds) for each in (await here.request("GET", kind))["items"] or []]
        for kind, each in left:
            if each["metadata"].get("finalizers"):
                path = f"{kind}/{each['metadata']['name']}"
                await here.request("PATCH", path, {"metadata": {"finalizers": []}}, "application/merge-patch+json")
        if former is not None:
            events = (await here.request("GET", EVENTS))["items"] or []
            former.update(event["regarding"].get("uid", "") for event in events)
            former.update(each["metadata"]["uid"] for _, each in left)
        for path in (*_LEFT, *kinds[1:], *([LEASES] if former is None else [])):
            await here.request("DELETE", path)
        yield Stage(here, kinds, former or ())
    # For TLS connections to say goodbye.
    await asyncio.sleep(0.25)


class Side(abc.ABC):
    """A scheduler on a control plane.

    It goes on from one scenario to the next, and is started anew for other feature gates, or if a scenario failed.
    """

    def __init__(self, plane: launcher.ControlPlane, folder: pathlib.Path) -> None:
        self.plane = plane
        self._folder = folder
        self._gates: tuple[str, ...] | None = None  # of the scheduler that runs
        self._frontends: list[installation.Process] = []
        self._former: set[str] = set()

    async def play(self, scenario: Scenario, gates: tuple[str, ...] = ("GenericWorkload",)) -> Json:
        """What the scheduler makes of the scenario, on an empty cluster."""
        if self._gates != gates:
            self.stop()
        try:
            async with stage(self.plane, self._folder, gates, self._former) as on:
                on.here.frontends = self._frontends
                if self._gates is None:
                    await self._start(on.here, gates)
                    self._gates = gates
                await scenario(on)
                return await on.outcome()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the scheduler, if it runs."""
        self._gates = None
        self._frontends.clear()

    @abc.abstractmethod
    async def _start(self, here: installation.Installation, gates: tuple[str, ...]) -> None:
        """Start the scheduler and return once it schedules."""


def _gates_flag(gates: Iterable[str]) -> str:
    return "--feature-gates=" + ",".join(f"{gate}=true" for gate in gates)


class Trireme(Side):
    """Ours, with phases of its own."""

    async def _start(self, here: installation.Installation, gates: tuple[str, ...]) -> None:
        frontend = here.add_frontend()
        frontend.command.append(_gates_flag(gates))
        frontend.start()
        await here.leads(frontend)

    def stop(self) -> None:
        """Stop it, if it runs."""
        for frontend in self._frontends:
            frontend.stop()
        super().stop()


class KubeScheduler(Side):
    """Theirs."""

    async def _start(self, here: installation.Installation, gates: tuple[str, ...]) -> None:
        config = self._folder / "kube-scheduler.yaml"
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.plane.kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(document))
        (port,) = ports.free_ports(1)
        self.plane.start_program(
            "kube-scheduler",
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._folder}",
            _gates_flag(gates),
        )
        await _ready(here, port)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if "kube-scheduler" in self.plane.children:
            self.plane.stop_program("kube-scheduler")
        super().stop()


class BothSides:
    """Trireme and kube-scheduler, to whom scenarios are played at the same time, each on a control plane of its own."""

    def __init__(self, trireme: Trireme, kube_scheduler: KubeScheduler) -> None:
        self.trireme = trireme
        self._kube_scheduler = kube_scheduler

    async def play(self, scenario: Scenario, gates: tuple[str, ...]) -> tuple[Json, Json]:
        """What Trireme makes of the scenario, and what kube-scheduler does, once nothing moves any more."""

        async def play_and_settle(on: Stage) -> None:
            await scenario(on)
            await on.settled()

        async with asyncio.TaskGroup() as group:
            ours = group.create_task(self.trireme.play(play_and_settle, gates))
            theirs = group.create_task(self._kube_scheduler.play(play_and_settle, gates))
        return ours.result(), theirs.result()


@contextlib.contextmanager
def both_sides(options: launcher.Options, folder: pathlib.Path) -> Iterator[BothSides]:
    """Both sides, on control planes with these options, until the block ends."""
    controlplane_fixture.require_built()
    with launcher.ControlPlane(options) as ours, launcher.ControlPlane(options) as theirs:
        trireme = Trireme(ours, folder / "trireme")
        try:
            yield BothSides(trireme, KubeScheduler(theirs, folder / "kube-scheduler"))
        finally:
            trireme.stop()


async def played_to_trireme(
    plane: launcher.ControlPlane, folder: pathlib.Path, scenario: Scenario, gates: tuple[str, ...]
) -> Json:
    """What Trireme makes of it, started for this scenario."""
    side = Trireme(plane, folder)
    try:
        return await side.play(scenario, gates)
    finally:
        side.stop()


async def played_to_kube_scheduler(
    plane: launcher.ControlPlane, folder: pathlib.Path, scenario: Scenario, gates: tuple[str, ...]
) -> Json:
    """What kube-scheduler makes of it, started for this scenario."""
    side = KubeScheduler(plane, folder)
    try:
        return await side.play(scenario, gates)
    finally:
        side.stop()


async def _ready(here: installation.Installation, port: int) -> None:
    async def answers() -> bool:
        try:
            # Its certificate is one of its own making.
            async with here.session.get(f"https://127.0.0.1:{port}/readyz", ssl=False) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    await installation.until(answers, 60, lambda: "kube-scheduler is not ready")


def differences(ours: Json, theirs: Json) -> list[str]:
    """What differs, in words; events that are only counted more often are none."""
    found = []
    for part in ours:
        if isinstance(ours[part], list):
            mine, other = collections.Counter(ours[part]), collections.Counter(theirs[part])
            found += [f"{part}: only ours: {each}" for each in mine - other]
            found += [f"{part}: only theirs: {each}" for each in other - mine]
            continue
        for name in sorted({*ours[part], *theirs[part]}):
            if ours[part].get(name) != theirs[part].get(name):
                found.append(f"{part} {name}: ours {ours[part].get(name)}, theirs {theirs[part].get(name)}")
    return found
