"""The four processes on the embedded cluster, seen through the API alone."""

import asyncio
import signal

import pytest

from tests.e2e import clusters, installation
from tests.e2e.installation import pod

pytestmark = pytest.mark.timeout(180)


async def test_pods_are_bound_and_have_scheduled_events(cluster: clusters.OpenCluster) -> None:
    """A pod that fits is bound and has its Scheduled event, in kube-scheduler's words: the main job."""
    async with cluster(nodes=5) as here:
        await here.start()
        await here.create_pods(pod(f"p{n}") for n in range(20))
        bound = await here.bound(20)
        await here.check_promises(f"p{n}" for n in range(20))
        node = next(p["spec"]["nodeName"] for p in bound if p["metadata"]["name"] == "p0")
        event = (await here.reported_events_of("p0", "Scheduled"))[0]
        assert event["note"] == f"Successfully assigned default/p0 to {node}"
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert event["reportingController"] == "default-scheduler"


async def _has_event(here: installation.Installation, name: str, reason: str) -> bool:
    return bool(await here.events_of(name, reason))


async def test_an_unschedulable_pod_says_why_and_is_retried_after_a_node_is_added(
    cluster: clusters.OpenCluster,
) -> None:
    """The condition and the event have kube-scheduler's text, and a new node ends the wait: requeueing by events."""
    async with cluster(nodes=3, cpu="4") as here:
        await here.start()
        await here.create_pods([pod("big", cpu="6")])
        condition = await here.condition("big", "Insufficient cpu")
        assert condition["status"] == "False"
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
        await installation.until(lambda: _has_event(here, "big", "FailedScheduling"), 10, lambda: "the event")
        await here.add_node("large", cpu="8")
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == "large"


async def test_a_cluster_that_was_empty_at_the_start(cluster: clusters.OpenCluster) -> None:
    """A scheduler that began before there was a node or a pod schedules the first ones that come."""
    async with cluster(nodes=0) as here:
        await here.start()
        await here.add_node("first")
        await here.create_pods([pod("p")])
        await here.bound(1)
        await here.check_promises(["p"])


async def test_a_gated_pod_waits_for_its_gates(cluster: clusters.OpenCluster) -> None:
    """A pod with scheduling gates is not tried, and is once they are gone."""
    async with cluster(nodes=1) as here:
        await here.start()
        await here.create_pods([pod("gated", schedulingGates=[{"name": "example.com/wait"}]), pod("free")])
        await here.bound(1)
        assert not (await here.pod("gated"))["spec"].get("nodeName")
        patch = {"spec": {"schedulingGates": []}}
        path = "/api/v1/namespaces/default/pods/gated"
        await here.request("PATCH", path, patch, "application/merge-patch+json")
        await here.bound(2)


async def test_selectors_taints_and_ports_are_respected(cluster: clusters.OpenCluster) -> None:
    """Pods go only where their selector, the node's taints and free ports allow."""
    async with cluster(nodes=3) as here:
        await here.start()
        names = [node["metadata"]["name"] for node in await here.nodes()]
        taint = {"spec": {"taints": [{"key": "only", "value": "batch", "effect": "NoSchedule"}]}}
        await here.request("PATCH", f"/api/v1/nodes/{names[0]}", taint, "application/merge-patch+json")
        port = [{"name": "c", "image": "x", "resources": {}, "ports": [{"containerPort": 80, "hostPort": 80}]}]
        await here.create_pods(
            [
                pod("tolerant", nodeSelector={"kubernetes.io/hostname": names[0]},
                    tolerations=[{"key": "only", "operator": "Exists"}]),
                pod("intolerant", nodeSelector={"kubernetes.io/hostname": names[0]}),
                *({**pod(f"port{n}"), "spec": {"containers": port}} for n in range(3)),
            ]
        )  # fmt: skip
        await here.condition("intolerant", "0/3 nodes are available: 1 node(s) had untolerated taint(s)")
        bound = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in await here.bound(3)}
        assert bound["tolerant"] == names[0]
        assert sorted(node for name, node in bound.items() if name.startswith("port")) == names[1:]


async def test_two_of_each_share_the_work_and_come_and_go(cluster: clusters.OpenCluster) -> None:
    """Under load a replica of each phase is added, the first one killed, and brought back: no pod is lost."""
    async with cluster(nodes=50) as here:
        await here.start(spare=1)
        names: list[str] = []
        enough = asyncio.Event()
        creating = [asyncio.create_task(_keep_creating(here, names, enough)) for _ in range(4)]
        await here.bound(100)
        await _brought(here, 1)
        for replicas in here.phases.values():
            replicas[0].kill()
        killed = len(names)
        await here.bound(killed + 200)
        await _brought(here, 0)
        enough.set()
        await asyncio.gather(*creating)
        await here.bound(len(names))
        await here.check_promises(names)


async def _keep_creating(here: installation.Installation, names: list[str], enough: asyncio.Event) -> None:
    while not enough.is_set():
        name = f"p{len(names)}"
        names.append(name)
        await here.create_pods([pod(name, cpu=f"{1 + len(names) % 20}m")])
        await asyncio.sleep(0.01)


async def _brought(here: installation.Installation, number: int) -> None:
    """Start a replica of each phase, and return once the frontend has it."""
    before = {phase: here.welcomes(phase, number) for phase in here.phases}
    for replicas in here.phases.values():
        replicas[number].start()
    for phase, count in before.items():
        await installation.until(lambda: here.welcomes(phase, number) > count, 30, lambda: phase)  # noqa: B023


async def test_a_stopped_replica_is_bypassed(cluster: clusters.OpenCluster) -> None:
    """A filter that hangs (SIGSTOP) is passed over: pods of the classes that it had are placed by the other."""
    async with cluster(nodes=20) as here:
        await here.start(filters=2, scores=2)
        here.phases["filter"][0].signal(signal.SIGSTOP)
        here.phases["score"][1].signal(signal.SIGSTOP)
        names = [f"p{n}" for n in range(100)]
        await here.create_pods(pod(name, cpu=f"{10 + n % 10}m") for n, name in enumerate(names))
        await here.bound(len(names), seconds=20)
        await here.check_promises(names)


async def test_scheduling_resumes_when_a_missing_phase_returns(cluster: clusters.OpenCluster) -> None:
    """Without a filter pods wait, and are scheduled when one is there again: nothing has to be restarted."""
    async with cluster(nodes=3) as here:
        await here.start()
        here.phases["filter"][0].kill()
        await here.create_pods(pod(f"p{n}") for n in range(5))
        assert not [p for p in await here.pods() if p["spec"].get("nodeName")]
        here.phases["filter"][0].start()
        await here.bound(5)


async def test_the_end_is_clean(cluster: clusters.OpenCluster) -> None:
    """SIGTERM ends the frontend with exit code 0 and gives the Lease back: the next one need not wait."""
    async with cluster(nodes=1) as here:
        await here.start()
        assert here.frontends[0].stop() == 0
        said = here.frontends[0].said
        assert said.splitlines()[-1].endswith('] "Requested to terminate, exiting"')
        errors = [line.partition("] ")[2] for line in said.splitlines() if line.startswith("E")]
        # What kube-scheduler says at each start, too.
        assert errors == ["The manifest file is empty, ignoring."], "a normal end is no error"
        lease = await here.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
        assert not lease["spec"].get("holderIdentity")


async def test_the_end_without_leader_election(cluster: clusters.OpenCluster) -> None:
    """kube-scheduler takes the end of one that is alone for an error: what restarts it goes by the exit code."""
    async with cluster(nodes=1) as here:
        here.bind_flags.append("--leader-elect=false")
        await here.start(configuration={"leaderElection": {"leaderElect": False}})
        assert here.frontends[0].stop() == 1
        last = here.frontends[0].said.splitlines()[-1]
        assert last.startswith("E")
        assert last.endswith('] "command failed" err="finished without leader elect"')


LOCAL = pytest.mark.parametrize("local", ["InProcess", "Children"])


@LOCAL
async def test_a_frontend_alone_is_a_whole_scheduler(cluster: clusters.OpenCluster, local: str) -> None:
    """It binds pods of several kinds, evicts one for a preemptor, and reports why another fits nowhere."""
    async with cluster(nodes=3, cpu="4") as here:
        here.local = local
        await here.add_priority_class("high", 1000)
        frontend = here.add_frontend()
        frontend.start()
        await here.leads(frontend)
        low = [pod(f"low{n}", cpu="3", terminationGracePeriodSeconds=0) for n in range(3)]
        small = [pod(f"small{n}", cpu=f"{10 + n}m") for n in range(40)]
        await here.create_pods([*low, *small])
        await here.bound(43)
        await here.create_pods([pod("vip", cpu="3", priorityClassName="high"), pod("huge", cpu="9")])
        await here.condition("huge", "0/3 nodes are available: 3 Insufficient cpu.")

        async def has_a_node() -> bool:
            return bool((await here.pod("vip"))["spec"].get("nodeName"))

        await installation.until(has_a_node, 60, here.story)
        assert len([each for each in await here.pods() if each["metadata"]["name"].startswith("low")]) == 2
        await here.check_promises([f"small{n}" for n in range(40)])


@LOCAL
async def test_the_frontend_starts_fallbacks_for_unavailable_phases(cluster: clusters.OpenCluster, local: str) -> None:
    """With every replica dead the frontend starts its own after a while; when the others are back, its own end."""
    async with cluster(nodes=3) as here:
        here.local = local
        await here.start(own={"fallback": {"mode": "local", "after": "1s"}})
        for phase in ("filter", "score", "bind"):
            here.phases[phase][0].kill()
        await here.create_pods(pod(f"p{n}") for n in range(5))
        await here.bound(5)
        for phase in ("filter", "score", "bind"):
            here.phases[phase][0].start()
        await here.logged(here.frontends[0], "bind answers again: our own ends")
        await here.create_pods(pod(f"q{n}") for n in range(5))
        await here.bound(10)
        await here.check_promises([f"{letter}{n}" for letter in "pq" for n in range(5)])
