"""Trireme and kube-scheduler on one real control plane: side by side, and one after the other in the same scenario."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping

import pytest

from tests.e2e import clusters, installation, kube_side
from tests.e2e.installation import pod
from tools.controlplane import launcher

pytestmark = [pytest.mark.timeout(300), pytest.mark.controlplane]

real_only = pytest.mark.parametrize("cluster", ["real"], indirect=True)

MERGE = "application/merge-patch+json"

# How often kube-scheduler plays again where it counted what is chance, which is not seldom on a busy machine.
MORE_TRIES = 3

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/metrics.md"
_ROW = re.compile(r"^\| `([a-z0-9_]+)` \| same \|", re.MULTILINE)
_HOST = re.compile(r"host=[0-9.:]+")

# The document means another thing here, and says which.
_NOT_HERE = re.compile(
    r"\{extension_point=Sign,"  # classes of pods are told apart before they are scheduled
    r"|scheduler_plugin_evaluation_total\{.*plugin=NodeName,"  # asked about pods that name a node
    r"|rest_client_.*(verb|method)=(PATCH|PUT|DELETE)"  # bind's
    r"|rest_client_.*code=404"  # what looks for its Lease first
    r"|scheduler_event_handling_duration_seconds\{event=Namespace"  # is an event for us alone
)
_OWN_WAY = {
    "scheduler_plugin_execution_duration_seconds": "one call in ten, by chance",
    "kubernetes_build_info": "another program",
    "scheduler_queueing_hint_execution_duration_seconds": "whether an event finds a pod waiting is of the moment",
}
# The labels of these are our own, or a matter of the moment.
_FAMILY_ONLY = {
    "scheduler_batch_attempts_total",
    "scheduler_store_schedule_results_total",
    "scheduler_cache_size",
    "registered_metrics_total",
}
_COUNTED_ALIKE = (
    "kubernetes_feature_enabled",
    "leader_election_master_status",
    "hidden_metrics_total",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_attempt_duration_seconds_count",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_framework_extension_point_duration_seconds_count",
    "scheduler_pod_scheduling_attempts_count",
    "scheduler_pod_scheduling_attempts_sum",
    "scheduler_pod_scheduling_sli_duration_seconds_count",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims_count",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_pending_pods",
    "scheduler_queued_entities",
    "scheduler_unschedulable_pods",
    "scheduler_queue_incoming_pods_total",
    "scheduler_queue_incoming_entities_total",
)


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a scheduler showed of the scenario."""

    metrics: kube_side.Samples
    writes: kube_side.Writes


async def _play(here: installation.Installation) -> None:
    """Pods of every fate, one after the other, so that each scheduler has the same to decide."""
    await here.add_priority_class("urgent", 1000)
    await here.create_pods([pod("gated", schedulingGates=[{"name": "example.com/g"}]), pod("o", schedulerName="other")])
    await here.create_pods(pod(f"p{number}") for number in range(10))
    await here.bound(10)
    patch = {"spec": {"schedulingGates": []}}
    await here.request("PATCH", "/api/v1/namespaces/default/pods/gated", patch, MERGE)
    await here.bound(11)
    await here.create_pods([pod("big", cpu="6")])
    await here.condition("big", "0/2 nodes are available: 2 Insufficient cpu.")
    await here.add_node("large")
    await here.bound(12)
    await here.create_pods([pod("nowhere", nodeSelector={"no": "such"})])
    await here.condition("nowhere", "0/3 nodes are available: 3 node(s) didn't match")
    only = {"nodeSelector": {"kubernetes.io/hostname": "node-0"}}
    await here.create_pods([pod("victim", cpu="2500m", terminationGracePeriodSeconds=0, **only)])
    await here.bound(13)
    await here.create_pods([pod("preemptor", cpu="2900m", priorityClassName="urgent", **only)])
    await installation.until(lambda: "preemptor" in _bound_names(here), 30, lambda: "the preemptor is not bound")


def _bound_names(here: installation.Installation) -> list[str]:
    return [name for uid, name in here.witness.names.items() if uid in here.witness.node_of]


async def _with_kube_scheduler(cluster: clusters.OpenCluster, plane: launcher.ControlPlane) -> Seen:
    async with cluster(nodes=2, cpu="4") as here:
        with kube_side.kube_scheduler(plane) as port:
            return await _seen(here, port)


async def _with_trireme(cluster: clusters.OpenCluster) -> Seen:
    async with cluster(nodes=2, cpu="4") as here:
        await here.start()
        return await _seen(here, here.port(here.frontends[0]))


async def _seen(here: installation.Installation, port: int) -> Seen:
    await kube_side.ready(here.session, port)
    before = await _writes(here)
    await _play(here)
    seen: list[kube_side.Samples] = []

    async def at_rest() -> bool:
        seen.append(await kube_side.metrics(here.session, port))
        return len(seen) > 1 and all(
            seen[-1].get(name) == seen[-2].get(name) for name in seen[-1] if name.startswith("scheduler_")
        )

    await installation.until(at_rest, 20, lambda: "the metrics move on")
    return Seen(seen[-1], await _writes(here) - before)


async def _writes(here: installation.Installation) -> kube_side.Writes:
    assert not isinstance(here.tls, bool)
    return await kube_side.writes(here.session, here.url, here.headers, here.tls)


def _counted(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """What is not zero, by its labels, without what is another thing here."""
    return {labels: value for labels, value in values.items() if value and not _NOT_HERE.search(f"{name}{{{labels}}}")}


def _moved(samples: kube_side.Samples) -> dict[str, set[str]]:
    """Which counters, gauges and histograms of those that both have are not zero, and with what labels."""
    names = set(_ROW.findall(DOCUMENT.read_text())) - _OWN_WAY.keys()
    moved: dict[str, set[str]] = {}
    for sample, values in samples.items():
        name = sample.removesuffix("_count")
        if {name, sample} & names and not any(part in sample for part in ("_bucket", "_sum")):
            found = {
                labels for labels, value in values.items() if value and not _NOT_HERE.search(f"{name}{{{labels}}}")
            }
            moved[name] = {_HOST.sub("host=", labels) for labels in found}
    return {name: labels for name, labels in moved.items() if labels}


@real_only
async def test_metrics_and_writes_are_those_of_kube_scheduler(
    cluster: clusters.OpenCluster, plane: launcher.ControlPlane
) -> None:
    """Dashboards and alerts would show something else after the same happenings, or the API server have more to do."""
    theirs = await _with_kube_scheduler(cluster, plane)
    ours = await _with_trireme(cluster)
    more = {what: (count, theirs.writes[what]) for what, count in ours.writes.items() if count > theirs.writes[what]}
    assert {what for what in more if "leases" not in what} == set(), f"ours, theirs: {more}"
    moved, wanted = _moved(ours.metrics), _moved(theirs.metrics)
    assert {name: moved.get(name) for name in wanted if name not in _FAMILY_ONLY} == {
        name: labels for name, labels in wanted.items() if name not in _FAMILY_ONLY
    }
    assert _FAMILY_ONLY & wanted.keys() <= moved.keys()
    assert moved.keys() - wanted.keys() <= _FAMILY_ONLY
    assert all(_exact(theirs.metrics, name) for name in _COUNTED_ALIKE), "nothing was compared"
    different = _different(ours, theirs)
    for _ in range(MORE_TRIES):
        if different:
            # An update of a pod that kube-scheduler has just taken from its queue adds the pod a second time.
            different = _different(ours, await _with_kube_scheduler(cluster, plane))
    assert different == {}, f"ours, theirs: {different}"


def _different(ours: Seen, theirs: Seen) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
    """What is counted alike and is not the same, of each."""
    return {
        name: (_exact(ours.metrics, name), _exact(theirs.metrics, name))
        for name in _COUNTED_ALIKE
        if _exact(ours.metrics, name) != _exact(theirs.metrics, name)
    }


def _exact(samples: kube_side.Samples, name: str) -> dict[str, float]:
    return _counted(name, samples.get(name, {}))


@real_only
async def test_beside_kube_scheduler_each_has_its_own_pods(
    cluster: clusters.OpenCluster, plane: launcher.ControlPlane
) -> None:
    """Pods that name another scheduler would be bound, refused or written to by two at once, or by the wrong one."""
    ours, theirs = "trireme", "default-scheduler"
    async with cluster(nodes=4, cpu="8") as here:
        with kube_side.kube_scheduler(plane, "--leader-elect=false") as port:
            await kube_side.ready(here.session, port)
            await here.start(configuration={"profiles": [{"schedulerName": ours}]})
            names = {f"{who}-{number}": who for number in range(15) for who in (ours, theirs)}
            await here.create_pods(pod(name, schedulerName=who) for name, who in names.items())
            await here.create_pods([pod("nobody", schedulerName="nobody")])
            await here.create_pods(pod(f"big-{who}", cpu="9", schedulerName=who) for who in (ours, theirs))
            await here.bound(len(names))
            for who in (ours, theirs):
                await here.condition(f"big-{who}", "0/4 nodes are available: 4 Insufficient cpu.")
            await here.check_promises(names)  # kube-scheduler takes the events with it that it has not sent
        await here.create_pods([pod("late-theirs", schedulerName=theirs), pod("late-ours", schedulerName=ours)])
        await here.bound(len(names) + 1)
        await here.check_promises([*names, "late-ours"])
        for name in ("nobody", "late-theirs"):
            left = await here.pod(name)
            assert "nodeName" not in left["spec"]
            assert "conditions" not in left["status"]
        answer = await here.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        told = {(event["regarding"]["name"], event["reportingController"]) for event in answer["items"]}
        assert told == {*names.items(), ("late-ours", ours), (f"big-{ours}", ours), (f"big-{theirs}", theirs)}


_START_TO_END = (
    'FLAG: --v="10"',
    '"the scheduler starts to work with those plugins" Plugins=',
    '"Using component config" config=',
    '"Starting Kubernetes Scheduler" version="v1.38.0-beta.0"',
    "Serving securely on 127.0.0.1:",
    '"Caches populated" type="*v1.',
    '"Attempting to acquire leader lease..." lock="kube-system/kube-scheduler"',
    '"Successfully acquired lease" lock="kube-system/kube-scheduler"',
    '"Unable to schedule pod; no fit; waiting" pod="default/big"',
    '"Successfully bound pod to node" pod="default/small"',
    '"Scheduling queue is closed"',
    "Stopped listening on 127.0.0.1:",
    '"[graceful-termination] secure server has stopped listening"',
    '"[graceful-termination] secure server is exiting"',
    '"Requested to terminate, exiting"',
)


@real_only
async def test_the_log_has_the_lines_of_kube_scheduler_and_no_secret(
    cluster: clusters.OpenCluster, plane: launcher.ControlPlane
) -> None:
    """Who follows a start, a decision or an end by log lines would miss one; or a log collector has cluster-admin."""
    async with cluster(nodes=1) as here:
        here.frontend_flags.append("-v=10")
        await here.start()
        await here.create_pods([pod("big", cpu="9")])
        await here.condition("big", "0/1 nodes are available")
        await here.create_pods([pod("small")])
        await here.bound(1)
        events = await here.request("GET", "/api/v1/namespaces/kube-system/events")
        told = [event["message"] for event in events["items"]]
        holder = (
            await here.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
        )["spec"]["holderIdentity"]
        assert f"{holder} became leader" in told
        assert here.frontends[0].stop() == 0
        logs = [process.log.read_text() for group in (here.frontends, *here.phases.values()) for process in group]
        at = 0
        for line in _START_TO_END:
            found = logs[0].find(line, at)
            assert found >= 0, f"{line} is missing, or too early"
            at = found
        assert plane.token() in here.kubeconfig.read_text()
        assert not any(plane.token() in text for text in logs)
