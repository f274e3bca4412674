"""HTTP extenders and the whole scheduler: what they are asked, what becomes of their pods, and what of bad answers."""

import asyncio
import pathlib
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.e2e import clusters, fake_extender, installation
from tests.e2e.fake_extender import FakeExtender, node_names, passing
from tests.e2e.installation import pod
from tools.controlplane import launcher

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]

_RESOURCE = "example.com/gpu"


def _gpu_pod(name: str, **fields: Any) -> Json:
    """A pod that asks for the resource which the extenders of these tests manage."""
    out = pod(name, **fields)
    out["spec"]["containers"][0]["resources"]["requests"][_RESOURCE] = "1"
    out["spec"]["containers"][0]["resources"]["limits"] = {_RESOURCE: "1"}
    return out


def _managing(extender: FakeExtender, *verbs: str, **settings: Any) -> Json:
    return extender.config(*verbs, managedResources=[{"name": _RESOURCE, "ignoredByScheduler": True}], **settings)


async def _node_of(here: installation.Installation, name: str, seconds: float = 30.0) -> str:
    async def bound() -> bool:
        return bool((await here.pod(name))["spec"].get("nodeName"))

    await installation.until(bound, seconds, lambda: f"{name} on a node")
    return str((await here.pod(name))["spec"]["nodeName"])


async def test_an_extender_decides_for_its_pods_and_for_no_others(cluster: clusters.OpenCluster) -> None:
    """Filter, prioritize and bind are asked, once a pod, about pods that ask for its resource.

    A refusal is reported, and any event has the pod tried again. The resource, which no node has, is left to the
    extender.
    """
    async with cluster(nodes=3) as here, fake_extender.serving() as (extender,):
        first, second, third = sorted(node["metadata"]["name"] for node in await here.nodes())

        async def bind(body: Json) -> web.Response:
            path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
            target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
            metadata = {"name": body["PodName"], "uid": body["PodUID"], "annotations": {"bound-by": "extender"}}
            await here.request(
                "POST", path, {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
            )
            return web.json_response({})

        refused = [first]
        extender.answers = {
            "filter": lambda body: passing(body, *refused, reason="no licence"),
            "prioritize": lambda body: [{"Host": name, "Score": 10 * (name == third)} for name in node_names(body)],
            "bind": bind,
        }
        settings = _managing(extender, "filter", "prioritize", "bind", nodeCacheCapable=True, weight=100)
        await here.start(configuration={"extenders": [settings]})
        await here.create_pods([*(_gpu_pod(f"gpu{n}") for n in range(3)), *(pod(f"plain{n}") for n in range(6))])
        await here.bound(9)
        pods = {each["metadata"]["name"]: each for each in await here.pods()}
        assert {pods[f"gpu{n}"]["spec"]["nodeName"] for n in range(3)} == {third}
        by_extender = {name for name, each in pods.items() if each["metadata"].get("annotations", {}).get("bound-by")}
        assert by_extender == {"gpu0", "gpu1", "gpu2"}
        for verb in ("filter", "prioritize"):
            assert sorted(body["Pod"]["metadata"]["name"] for body in extender.bodies(verb)) == ["gpu0", "gpu1", "gpu2"]
        assert [node_names(body) for body in extender.bodies("prioritize")] == [[second, third]] * 3
        await here.check_promises(pods)

        refused += [second, third]
        await here.create_pods([_gpu_pod("late")])
        await here.condition("late", "0/3 nodes are available: 3 no licence.")
        refused.clear()
        await here.request(
            "PATCH", f"/api/v1/nodes/{first}", {"metadata": {"labels": {"x": "y"}}}, "application/merge-patch+json"
        )
        assert await _node_of(here, "late") == third


async def test_a_bad_extender_is_reported_and_loses_no_pod(cluster: clusters.OpenCluster) -> None:
    """Slow, failing or talking nonsense, it gives each of its pods an event that says so.

    Once it answers they are bound. One that may be ignored stands in nobody's way, and pods that are not its
    business go on meanwhile.
    """
    async with cluster(nodes=2) as here, fake_extender.serving(2) as (extender, ignorable):
        healthy = False

        async def answer(body: Json) -> web.StreamResponse:
            name = body["Pod"]["metadata"]["name"]
            if healthy:
                return web.json_response(passing(body))
            if name == "slow":
                await asyncio.sleep(1.0)
            if name == "stranger":
                return web.json_response({"NodeNames": ["nowhere"]})
            return web.Response(body=b"<html>", status=500 if name == "failing" else 200)

        extender.answers = {"filter": answer}
        ignorable.answers = {verb: lambda body: web.Response(status=503) for verb in ("filter", "prioritize", "bind")}
        await here.start(
            configuration={
                "extenders": [
                    ignorable.config("filter", "prioritize", "bind", ignorable=True),
                    _managing(extender, "filter", nodeCacheCapable=True, httpTimeout="300ms"),
                ]
            }
        )
        names = ("slow", "failing", "nonsense", "stranger")
        await here.create_pods([*(_gpu_pod(name) for name in names), pod("plain")])
        await _node_of(here, "plain")
        url = f"{extender.url}/filter"
        await here.condition("failing", f"failed filter with extender at URL {url}, code 500")
        await here.condition("nonsense", "invalid character '<' looking for beginning of value")
        await here.condition("slow", f'Post "{url}": context deadline exceeded (Client.Timeout')
        await here.condition(
            "stranger",
            f'extender "{extender.url}" claims a filtered node "nowhere" which is not found in the input node list',
        )
        condition = await here.condition("stranger", "")
        assert condition["reason"] == "SchedulerError"
        healthy = True
        for name in names:
            await _node_of(here, name)
        await here.check_promises([*names, "plain"])
        assert {verb for verb, _ in ignorable.asked} == {"filter", "prioritize", "bind"}


@pytest.mark.parametrize("capable", [True, False], ids=["names", "objects"])
async def test_extenders_filter_preemption_candidates(cluster: clusters.OpenCluster, capable: bool) -> None:
    """Only candidates that the extender leaves are chosen; where it leaves none, nobody is evicted."""
    async with cluster(nodes=2, cpu="2") as here, fake_extender.serving() as (extender,):
        await here.add_priority_class("vip", 1000)
        left: list[str] = []

        def preempt(body: Json) -> Json:
            there = body["NodeNameToMetaVictims"] or {
                node: {"Pods": [{"UID": each["metadata"]["uid"]} for each in entry["Pods"]]}
                for node, entry in body["NodeNameToVictims"].items()
            }
            return {"NodeNameToMetaVictims": {node: entry for node, entry in there.items() if node in left}}

        extender.answers = {"preempt": preempt}
        await here.start(configuration={"extenders": [extender.config("preempt", nodeCacheCapable=capable)]})
        await here.create_pods(pod(f"low{n}", cpu="1500m", terminationGracePeriodSeconds=0) for n in range(2))
        lows = {each["spec"]["nodeName"]: each["metadata"]["name"] for each in await here.bound(2)}
        await here.create_pods([pod("nudge")])
        await here.bound(3)
        await here.create_pods([pod("vip", cpu="1500m", priorityClassName="vip")])
        await here.condition("vip", "preemption: no candidate node for preemption")
        asked = extender.bodies("preempt")[0]
        there = asked["NodeNameToMetaVictims" if capable else "NodeNameToVictims"]
        assert set(there) == set(lows)
        if not capable:
            assert {node: entry["Pods"][0]["spec"]["nodeName"] for node, entry in there.items()} == {
                node: node for node in lows
            }
        left[:] = [max(lows)]
        await here.request("DELETE", "/api/v1/namespaces/default/pods/nudge?gracePeriodSeconds=0")
        assert await _node_of(here, "vip") == max(lows)
        assert {each["metadata"]["name"] for each in await here.pods()} == {"vip", lows[min(lows)]}


def _until_preempted(extender: FakeExtender) -> list[tuple[str, Json]]:
    """What it was sent until it had its say in preemption; how soon the pod is tried again after that is chance."""
    verbs = [verb for verb, _ in extender.asked]
    return extender.asked[: verbs.index("preempt") + 1]


def _without_own(value: Any) -> Any:
    """A body without what two pods of one template differ in, and without conditions, which come in their own time."""
    own = ("uid", "resourceVersion", "creationTimestamp", "name", "schedulerName", "time", "UID", "conditions")
    if isinstance(value, dict):
        return {key: _without_own(entry) for key, entry in value.items() if key not in own}
    if isinstance(value, list):
        return sorted((_without_own(entry) for entry in value), key=repr)
    return value


@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.controlplane)], indirect=True)
async def test_kube_scheduler_sends_the_same_requests_and_decides_the_same(
    cluster: clusters.OpenCluster, plane: launcher.ControlPlane, tmp_path: pathlib.Path
) -> None:
    """On the real control plane both send extenders the same bodies in the same order, and their pods end up alike."""
    launcher.require_comparable("a kube-scheduler that decides as Trireme")
    async with cluster(nodes=3, cpu="4") as here, fake_extender.serving(4) as extenders:
        await here.add_priority_class("extended", 1000)

        def preempt(body: Json) -> Json:
            there = body["NodeNameToMetaVictims"] or {
                node: {"Pods": [{"UID": each["metadata"]["uid"]} for each in entry["Pods"]]}
                for node, entry in body["NodeNameToVictims"].items()
            }
            return {"NodeNameToMetaVictims": {node: entry for node, entry in there.items() if node == "node-2"}}

        for extender in extenders:
            extender.answers = {
                "filter": lambda body: passing(body, "node-0"),
                "prioritize": lambda body: [{"Host": n, "Score": 10 * (n == "node-2")} for n in node_names(body)],
                "preempt": preempt,
            }

        def configuration(name: str, capable: FakeExtender, whole: FakeExtender) -> Json:
            verbs = ("filter", "prioritize", "preempt")
            return {
                "profiles": [{"schedulerName": name}],
                "extenders": [
                    whole.config(*verbs, weight=3, ignorable=True),
                    capable.config(*verbs, nodeCacheCapable=True),
                ],
            }

        theirs = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
            **configuration("kube", extenders[0], extenders[1]),
        }
        (tmp_path / "theirs.yaml").write_text(yaml.safe_dump(theirs))
        plane.start_scheduler(tmp_path / "theirs.yaml")
        outcomes = {}
        try:
            await here.start(configuration=configuration("ours", extenders[2], extenders[3]))
            for name in ("kube", "ours"):
                outcomes[name] = await _story(here, name)
        finally:
            plane.stop_program("kube-scheduler")
        assert outcomes["ours"] == outcomes["kube"]
        for one, other in ((extenders[0], extenders[2]), (extenders[1], extenders[3])):
            sent, ours = _until_preempted(one), _until_preempted(other)
            assert [verb for verb, _ in ours] == [verb for verb, _ in sent]
            for (verb, body), (_, our_body) in zip(sent, ours, strict=True):
                assert _without_own(our_body) == _without_own(body), verb


async def _story(here: installation.Installation, name: str) -> list[str]:
    """Some pods of one scheduler, one after the other: where they go and their events."""
    spec = {"schedulerName": name, "terminationGracePeriodSeconds": 0}
    out = []
    for number, cpu in enumerate(("1", "3", "2")):
        await here.create_pods([pod(f"p{number}", cpu=cpu, **spec)])
        out.append(await _node_of(here, f"p{number}"))
    await here.create_pods([pod("huge", cpu="100", **spec)])
    out.append((await here.condition("huge", "0/3"))["message"])
    await here.create_pods([pod("vip", cpu="3", priorityClassName="extended", **spec)])
    out.append(await _node_of(here, "vip"))
    refusals = [await here.reported_events_of(name, "FailedScheduling") for name in ("huge", "vip")]
    out += [min(event["note"] for event in events) for events in refusals]
    out += sorted(each["metadata"]["name"] for each in await here.pods())
    for each in await here.pods():
        await here.request("DELETE", f"/api/v1/namespaces/default/pods/{each['metadata']['name']}?gracePeriodSeconds=0")
    await here.request("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events")
    return out
