"""Preemption by the four processes: pods that have to go, the pod that comes instead, and the events of both."""

import asyncio
import functools
import pathlib
from typing import Any

import pytest

from tests.e2e import clusters, installation, witness
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]


async def _priorities(here: installation.Installation) -> None:
    """The priority classes of these tests."""
    await here.add_priority_class("high", 1000)
    await here.add_priority_class("middle", 500)
    await here.add_priority_class("polite", 1000, preemptionPolicy="Never")


def _victim(name: str, cpu: str = "1", **spec: Any) -> Json:
    return pod(name, cpu=cpu, terminationGracePeriodSeconds=0, **spec)


async def _started(here: installation.Installation, names: list[str]) -> None:
    """Report that these pods run, as their kubelets would, with one start; return once the scheduler has seen it."""
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    for name in names:
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        await here.request("PATCH", path, {"status": status}, "application/merge-patch+json")
        await here.logged(here.frontends[0], f'"Update event for scheduled pod" pod="default/{name}"')


async def _node_of(here: installation.Installation, name: str) -> str:
    return str((await here.pod(name))["spec"].get("nodeName", ""))


async def _on_a_node(here: installation.Installation, name: str, seconds: float = 30.0) -> str:
    seen: Json = {}

    async def bound() -> bool:
        seen.update(await here.pod(name))
        return bool(seen["spec"].get("nodeName"))

    def story() -> str:
        return f"{name} on a node: {seen['status']}\n{here.story(f'default/{name}')}"

    await installation.until(bound, seconds, story)
    return str(seen["spec"]["nodeName"])


async def test_a_pod_that_matters_more_takes_the_place_of_others(cluster: clusters.OpenCluster) -> None:
    """The least important pod goes, with condition and event, and no other; the preemptor gets its node."""
    async with cluster(nodes=2, cpu="2") as here:
        await _priorities(here)
        await here.start()
        await here.create_pods([_victim("low", cpu="1500m"), _victim("mid", cpu="1500m", priorityClassName="middle")])
        await here.bound(2)
        node = await _node_of(here, "low")
        uid = (await here.pod("low"))["metadata"]["uid"]
        await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high")])
        assert await _on_a_node(here, "vip") == node
        names = {each["metadata"]["name"] for each in await here.pods()}
        assert names == {"mid", "vip"}
        vip = (await here.pod("vip"))["metadata"]["uid"]
        (told,) = await here.reported_events_of("low", "Preempted")
        assert told["note"] == f"Preempted by pod {vip} on node {node}"
        assert (told["type"], told["action"], told["regarding"]["uid"]) == ("Normal", "Preempting", uid)
        (failed,) = await here.reported_events_of("vip", "FailedScheduling")
        assert failed["note"] == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node "
            f"{node}, preempting 1 victims"
        )


async def test_preemptors_are_nominated_before_they_are_bound(cluster: clusters.OpenCluster) -> None:
    """Others see for whom room is made, as with kube-scheduler, also where the victims go at once.

    And no bound pod is said to be unschedulable.
    """
    async with cluster(nodes=6, cpu="2") as here:
        await _priorities(here)
        await here.start()
        await here.create_pods([_victim(f"low{number}", cpu="1500m") for number in range(6)])
        await here.bound(6)
        names = [f"vip{number}" for number in range(6)]
        await here.create_pods([pod(name, cpu="1500m", priorityClassName="high") for name in names])
        for name in names:
            node = await _on_a_node(here, name)
            uid = (await here.pod(name))["metadata"]["uid"]
            seen = functools.partial(here.witness.node_of.__contains__, uid)
            await installation.until(seen, 10, lambda: "the witness lags")
            assert here.witness.nominated.get(uid) == node, name
        assert here.witness.denied == []


async def test_the_condition_says_why_a_pod_does_not_preempt(cluster: clusters.OpenCluster) -> None:
    """Without less important pods, or by its own policy, a pod preempts nobody; its condition says why."""
    async with cluster(nodes=2, cpu="2") as here:
        await _priorities(here)
        await here.start()
        await here.create_pods([_victim(f"peer{n}", cpu="1500m") for n in range(2)])
        await here.bound(2)
        await here.create_pods(
            [
                pod("equal", cpu="1500m"),
                pod("huge", cpu="3"),
                pod("polite", cpu="1500m", priorityClassName="polite"),
            ]
        )
        full = "0/2 nodes are available: 2 Insufficient cpu. preemption:"
        await here.condition(
            "equal", f"{full} 0/2 nodes are available: 2 No preemption victims found for incoming pod."
        )
        await here.condition("huge", f"{full} 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
        await here.condition("polite", f"{full} not eligible due to preemptionPolicy=Never.")
        assert len(await here.pods()) == 5


async def test_a_nomination_reserves_the_room_for_the_preemptor(cluster: clusters.OpenCluster) -> None:
    """While a victim takes its time to go, the preemptor is nominated, and nobody less important takes it."""
    async with cluster(nodes=1, cpu="2") as here:
        await _priorities(here)
        await here.start()
        held = _victim("slow", cpu="1500m")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await here.create_pods([held])
        await here.bound(1)
        await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high")])

        async def nominated() -> bool:
            return bool((await here.pod("vip"))["status"].get("nominatedNodeName"))

        await installation.until(nominated, 20, lambda: "the nomination")
        await here.create_pods([pod("mid", cpu="1500m", priorityClassName="middle")])
        await here.condition("mid", "Insufficient cpu")
        free = {"metadata": {"finalizers": []}}
        await here.request("PATCH", "/api/v1/namespaces/default/pods/slow", free, "application/merge-patch+json")
        await _on_a_node(here, "vip")
        assert not await _node_of(here, "mid")
        target = [c for c in (await here.pod("vip"))["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert not target


async def test_many_preemptors_each_find_their_own_place(cluster: clusters.OpenCluster) -> None:
    """On a full cluster each of many preemptors evicts what it needs and no more: no pod goes in vain.

    All victims have started before. The pod that started last goes first, so a start between two preemptors on one
    node makes the second choose others than the first, with kube-scheduler too.
    """
    async with cluster(nodes=10, cpu="4") as here:
        await _priorities(here)
        here.frontend_flags += ["-v=5"]
        await here.start()
        await here.create_pods(_victim(f"low{n}") for n in range(40))
        await here.bound(40)
        await _started(here, [f"low{n}" for n in range(40)])
        await here.create_pods(pod(f"vip{n}", cpu="1", priorityClassName="high") for n in range(20))
        await asyncio.gather(*(_on_a_node(here, f"vip{n}", 100) for n in range(20)))
        left = [each for each in await here.pods() if each["metadata"]["name"].startswith("low")]
        assert len(left) == 20


async def test_a_partly_refused_preemption_is_retried(tmp_path: pathlib.Path) -> None:
    """The API server deletes one victim and refuses to delete the other.

    The preemptor is neither stuck nor nominated for nothing; it is tried again and gets its room, and each victim
    has one event.
    """
    async with (
        installation.embedded(tmp_path, "--nodes", "1", "--cpu", "4") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        await _priorities(here)
        await here.start()
        await here.create_pods([_victim(f"low{n}", cpu="2") for n in range(2)])
        await here.bound(2)
        refusal = {"action": "status", "method": "DELETE", "path": "/pods/low0", "code": 403, "times": 1}
        await here.request("POST", "/trireme/faults", refusal)
        await here.create_pods([pod("vip", cpu="4", priorityClassName="high")])
        await _on_a_node(here, "vip")
        assert {each["metadata"]["name"] for each in await here.pods()} == {"vip"}
        await here.logged(here.frontends[0], "pod default/low0 could not be preempted: ")
        for name in ("low0", "low1"):
            assert len(await here.reported_events_of(name, "Preempted")) == 1
        told = await here.reported_events_of("vip", "FailedScheduling")
        assert any("preempting 2 victims" in event["note"] for event in told)
        (refused,) = await here.reported_events_of("vip", "PreemptionFailed")
        assert refused["note"].startswith("cannot preempt pod default/low0 on node ")
        assert (refused["type"], refused["action"]) == ("Warning", "Preempting")


async def test_without_asynchronous_preemption_the_attempt_reports_the_result(tmp_path: pathlib.Path) -> None:
    """With the gate off a pod is not nominated where the API server refuses to delete a victim, and says so.

    When it is tried again the victim goes, with all its conditions and events, and the nomination is seen while
    that takes its time.
    """
    async with (
        installation.embedded(tmp_path, "--nodes", "1", "--cpu", "2") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        await _priorities(here)
        here.frontend_flags += ["--feature-gates=SchedulerAsyncPreemption=false"]
        await here.start()
        low = _victim("low", cpu="2")
        low["metadata"]["finalizers"] = ["example.com/wait"]
        await here.create_pods([low])
        await here.bound(1)
        (node,) = (node["metadata"]["name"] for node in await here.nodes())
        refusal = {"action": "status", "method": "DELETE", "path": "/pods/low", "code": 403, "times": 1}
        await here.request("POST", "/trireme/faults", refusal)
        await here.create_pods([pod("vip", cpu="2", priorityClassName="high")])
        await here.condition("vip", "0/1 nodes are available: 1 Insufficient cpu. preemption: ")
        (told,) = await here.reported_events_of("vip", "FailedScheduling")
        assert "found a potential placement" not in told["note"]
        assert "nominatedNodeName" not in (await here.pod("vip"))["status"]
        more = {"status": {"allocatable": {"cpu": "2500m"}}}
        await here.request("PATCH", f"/api/v1/nodes/{node}/status", more, "application/merge-patch+json")

        async def nominated() -> bool:
            return bool((await here.pod("vip"))["status"].get("nominatedNodeName") == node)

        await installation.until(nominated, 10, lambda: "the nomination")
        free = {"metadata": {"finalizers": []}}
        await here.request("PATCH", "/api/v1/namespaces/default/pods/low", free, "application/merge-patch+json")
        await _on_a_node(here, "vip")
        uid = (await here.pod("vip"))["metadata"]["uid"]
        (preempted,) = await here.reported_events_of("low", "Preempted")
        assert preempted["note"] == f"Preempted by pod {uid} on node {node}"


async def test_a_preemptor_whose_nominated_node_is_removed_goes_elsewhere(cluster: clusters.OpenCluster) -> None:
    """The preemptor looks elsewhere as soon as there is something to be had, and takes it."""
    async with cluster(nodes=1, cpu="2") as here:
        await _priorities(here)
        await here.start()
        (first,) = (node["metadata"]["name"] for node in await here.nodes())
        held = _victim("slow", cpu="1500m")
        held["metadata"]["finalizers"] = ["example.com/wait"]
        await here.create_pods([held])
        await here.bound(1)
        await here.add_node("other", cpu="2")
        # Pods and nodes come by two watches: without the selector it would preempt where the pod comes first.
        there = {"kubernetes.io/hostname": "other"}
        await here.create_pods([_victim("equal", cpu="1500m", priorityClassName="high", nodeSelector=there)])
        await _on_a_node(here, "equal")
        await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high")])

        async def promised() -> bool:
            """The victim is going, too: until then the preemptor is held back, whatever happens."""
            going = (await here.pod("slow"))["metadata"].get("deletionTimestamp")
            return bool(going) and (await here.pod("vip"))["status"].get("nominatedNodeName") == first

        await installation.until(promised, 20, lambda: "the nomination")
        await here.request("DELETE", f"/api/v1/nodes/{first}")
        await here.request("DELETE", "/api/v1/namespaces/default/pods/equal?gracePeriodSeconds=0")
        assert await _on_a_node(here, "vip", 90) == "other"
        free = {"metadata": {"finalizers": []}}
        await here.request("PATCH", "/api/v1/namespaces/default/pods/slow", free, "application/merge-patch+json")


async def test_a_late_answer_about_a_victim_leaves_the_scheduler_running(tmp_path: pathlib.Path) -> None:
    """The API server answers late about a victim that is gone.

    Its node shrinks meanwhile, and the preemptor has another pod evicted: when the answer came the frontend ended,
    and with it all scheduling.
    """
    async with (
        installation.embedded(tmp_path, "--nodes", "2", "--cpu", "2") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        await _priorities(here)
        await here.start()
        lows = [_victim(f"low{n}", cpu="1500m") for n in range(2)]
        for low in lows:
            low["metadata"]["finalizers"] = ["example.com/wait"]
        await here.create_pods(lows)
        await here.bound(2)
        victims = {await _node_of(here, f"low{n}"): f"low{n}" for n in range(2)}
        late = {"action": "delay-reply", "method": "DELETE", "path": "/pods/low", "seconds": 8, "times": 1}
        await here.request("POST", "/trireme/faults", late)
        await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high")])

        async def preempted(victim: str) -> None:
            async def going() -> bool:
                return "deletionTimestamp" in (await here.pod(victim))["metadata"]

            await installation.until(going, 20, lambda: f"{victim} is not evicted\n{here.story('vip')}")

        async def nominated() -> bool:
            return bool((await here.pod("vip"))["status"].get("nominatedNodeName"))

        await installation.until(nominated, 20, lambda: "the nomination")
        first = (await here.pod("vip"))["status"]["nominatedNodeName"]
        (second,) = victims.keys() - {first}
        await preempted(victims[first])
        less = {"status": {"allocatable": {"cpu": "1"}}}
        await here.request("PATCH", f"/api/v1/nodes/{first}/status", less, "application/merge-patch+json")
        for node in (first, second):
            await preempted(victims[node])
            free = {"metadata": {"finalizers": []}}
            path = f"/api/v1/namespaces/default/pods/{victims[node]}"
            await here.request("PATCH", path, free, "application/merge-patch+json")
        assert await _on_a_node(here, "vip") == second

        async def answered() -> bool:
            return bool(await here.events_of(victims[first], "Preempted"))

        await installation.until(answered, 30, here.story)
        await here.create_pods([pod("next", cpu="100m")])
        await _on_a_node(here, "next")
