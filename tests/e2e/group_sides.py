"""Scenarios of pod groups on the real control plane, played to Trireme and to kube-scheduler, and what each made of it.

One control plane that serves PodGroups; before each side plays, everything that the one before left is removed. What is
compared is what users see: which pods are bound, the conditions of pods and groups, and the events.
"""

import asyncio
import collections
import contextlib
import pathlib
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
import installation
import launcher
import ports
import yaml

Json = dict[str, Any]

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
SERVED = {"scheduling.k8s.io/v1beta1": True}

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
PODS = "/api/v1/namespaces/default/pods"
# The gate of groups of groups, where these are played with.
OF_GROUPS = "CompositePodGroup"
# A pod that asks for nothing, and for the node that was added last: bound, it says that the scheduler knows all nodes.
PROBE = "probe"

_LEFT = (
    f"{PODS}?gracePeriodSeconds=0",
    GROUPS,
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "/api/v1/nodes",
)


def gang(name: str, min_count: int, **spec: Any) -> Json:
    """A PodGroup of which so many pods go at once or none."""
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


class Stage:
    """The cluster that a scenario plays on. `kinds` are the collections of groups that there are."""

    def __init__(self, here: installation.Installation, kinds: tuple[str, ...]) -> None:
        self.here = here
        self.kinds = kinds

    async def nodes(self, count: int, cpu: str = "2", labels: Sequence[Mapping[str, str]] = ()) -> None:
        """So many nodes, each with its entry of `labels` if there are any; return once the scheduler knows them.

        Groups and pods come by other watches, and a group that is tried on some of the nodes is refused once more.
        """
        for number in range(count):
            await self.here.add_node(f"node-{number}", cpu, labels[number] if labels else {})
        last = {"kubernetes.io/hostname": f"node-{count - 1}"}
        await self.pods([installation.pod(PROBE, cpu="0", nodeSelector=last, terminationGracePeriodSeconds=0)])
        await self.until_bound(1, PROBE)
        await self.delete(f"{PODS}/{PROBE}")

    async def group(self, group: Json) -> None:
        await self.here.request("POST", GROUPS, group)

    async def pods(self, pods: Iterable[Json]) -> None:
        for pod in pods:
            await self.here.request("POST", PODS, pod)

    async def patch(self, path: str, change: Json) -> None:
        await self.here.request("PATCH", path, change, "application/merge-patch+json")

    async def delete(self, path: str) -> None:
        await self.here.request("DELETE", f"{path}?gracePeriodSeconds=0")

    async def bound(self, prefix: str = "") -> list[str]:
        """The names of the bound pods, sorted."""
        pods = await self.here.pods()
        names = (pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))
        return sorted(name for name in names if name.startswith(prefix))

    async def until_bound(self, count: int, prefix: str = "", seconds: float = 30.0) -> None:
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

    async def until_condition(self, group: str, reason: str, text: str = "", seconds: float = 30.0) -> Json:
        found: Json = {}

        async def there() -> bool:
            found.clear()
            found.update(await self.condition(group))
            return found.get("reason") == reason and text in found.get("message", "")

        await installation.until(there, seconds, lambda: f"{group} has {found}: {self.logs()}")
        return found

    async def until_told(self, reason: str, count: int = 1, seconds: float = 30.0) -> None:
        async def there() -> bool:
            answer = await self.here.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
            about = [event["regarding"]["name"] for event in answer["items"] or [] if event["reason"] == reason]
            return len(about) - about.count(PROBE) >= count

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
        events = (await self.here.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"] or []
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
            "events": sorted({_event(event, uids) for event in events if _is_compared(event["regarding"])}),
        }


def _conditions(obj: Json, types: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        tuple(str(each.get(field, "")) for field in ("type", "status", "reason", "message", "observedGeneration"))
        for each in obj.get("status", {}).get("conditions") or []
        if each["type"] in types
    ]


def _is_compared(regarding: Json) -> bool:
    """Not what the API server tells of its own Service, nor what became of the probe, which may have come too early."""
    return bool(regarding["kind"] != "Service" and regarding["name"] != PROBE)


def _event(event: Json, uids: Json) -> tuple[str, ...]:
    regarding = event["regarding"]
    note = re.sub(r"\bnode-\d+", "<node>", event["note"])
    for uid, name in uids.items():
        note = note.replace(uid, name)
    return (regarding["kind"], regarding["name"], event["type"], event["reason"], event["action"], note)


Scenario = Callable[[Stage], Awaitable[None]]


@contextlib.asynccontextmanager
async def stage(plane: launcher.ControlPlane, folder: pathlib.Path, gates: Iterable[str]) -> AsyncIterator[Stage]:
    """An empty cluster without a scheduler."""
    folder.mkdir(parents=True, exist_ok=True)
    headers = {"Authorization": f"Bearer {plane.token()}"}
    tls = ssl.create_default_context(cafile=str(plane.authority))
    here = installation.Installation(folder, plane.kubeconfig, plane.server, headers, tls)
    async with aiohttp.ClientSession() as here.session:
        for pod in (await here.request("GET", PODS))["items"] or []:
            if pod["metadata"].get("finalizers"):
                path = f"{PODS}/{pod['metadata']['name']}"
                await here.request("PATCH", path, {"metadata": {"finalizers": []}}, "application/merge-patch+json")
        kinds = (GROUPS, COMPOSITES) if OF_GROUPS in gates else (GROUPS,)
        for kind in kinds:
            for group in (await here.request("GET", kind))["items"] or []:
                path = f"{kind}/{group['metadata']['name']}"
                await here.request("PATCH", path, {"metadata": {"finalizers": []}}, "application/merge-patch+json")
        for path in (*_LEFT, *kinds[1:]):
            await here.request("DELETE", path)
        yield Stage(here, kinds)
    # For TLS connections to say goodbye.
    await asyncio.sleep(0.25)


async def played_to_trireme(
    plane: launcher.ControlPlane, folder: pathlib.Path, scenario: Scenario, gates: Iterable[str] = ("GenericWorkload",)
) -> Json:
    """What Trireme makes of it."""
    async with stage(plane, folder, gates) as on:
        frontend = on.here.add_frontend()
        frontend.command.append("--feature-gates=" + ",".join(f"{gate}=true" for gate in gates))
        frontend.start()
        try:
            await on.here.leads(frontend)
            await scenario(on)
            return await on.outcome()
        finally:
            on.here.stop()


async def played_to_kube_scheduler(
    plane: launcher.ControlPlane, folder: pathlib.Path, scenario: Scenario, gates: Iterable[str] = ("GenericWorkload",)
) -> Json:
    """What kube-scheduler makes of it."""
    config = folder / "kube-scheduler.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(yaml.safe_dump(document))
    async with stage(plane, folder, gates) as on:
        (port,) = ports.free_ports(1)
        plane.start_program(
            "kube-scheduler",
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            "--feature-gates=" + ",".join(f"{gate}=true" for gate in gates),
        )
        try:
            await _ready(on.here, port)
            await scenario(on)
            return await on.outcome()
        finally:
            plane.stop_program("kube-scheduler")


async def _ready(here: installation.Installation, port: int) -> None:
    async def answers() -> bool:
        try:
            # Its certificate is one of its own making.
            async with here.session.get(f"https://127.0.0.1:{port}/readyz", ssl=False) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    await installation.until(answers, 30, lambda: "kube-scheduler is not ready")


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
