"""The Kubernetes edge against the real API server, with no more rights than kube-scheduler has."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from tests.helpers import polling
from tools.controlplane import controlplane_fixture, launcher
from trireme_kube.apimachinery import api_writes
from trireme_kube.client import status_patch, writes
from trireme_kube.client.events import event_recorder, event_series
from trireme_kube.client.informers import informer, resources, watch
from trireme_kube.client.informers.watch import Event
from trireme_kube.client.leaderelection import election, lease
from trireme_kube.client.rest import client, content_types, credentials
from trireme_kube.client.rest.errors import ApiError

pytestmark = pytest.mark.controlplane

SCHEDULER = launcher.User("system:kube-scheduler")
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster(start_controlplane: controlplane_fixture.StartControlPlane) -> launcher.ControlPlane:
    """A control plane that authorizes by the built-in roles."""
    return start_controlplane(launcher.Options(authorization="RBAC", users=(SCHEDULER,)))


@contextlib.asynccontextmanager
async def _clients(cluster: launcher.ControlPlane) -> AsyncIterator[tuple[client.ApiClient, client.ApiClient]]:
    """A client of the administrator's and one of the scheduler's."""
    async with (
        await client.connect(_settings(cluster, launcher.ADMIN)) as admin,
        await client.connect(_settings(cluster, SCHEDULER)) as scheduler,
    ):
        yield admin, scheduler


def _settings(cluster: launcher.ControlPlane, user: launcher.User) -> client.ClientSettings:
    accept = content_types.accept_header("", content_types.PROTOBUF)
    return client.ClientSettings(credentials.Source(str(cluster.kubeconfig_of(user.name))), qps=-1.0, accept=accept)


async def _create_pod(admin: client.ApiClient, name: str) -> dict[str, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    return dict((await admin.post(PODS, body)).json())


async def _create_node(admin: client.ApiClient, name: str) -> None:
    await admin.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


class Seen:
    """A consumer that remembers names and kinds."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str | None]] = []

    def on_events(self, batch: Sequence[Event[str]]) -> None:
        self.events.extend((event.kind.name, event.object) for event in batch)


def _no_name(raw: Mapping[str, Any]) -> str:
    raise AssertionError("the API server has everything that is watched in protobuf")


def _name(raw: bytes) -> str:
    return str(watch.metadata_of(raw)["name"])


class Ageing:
    """A client whose next watch, once `age` is set, asks for a version older than the API server's memory."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self.get = api.get
        self.read = api.read
        self.accept = api.accept
        self.age = False

    def stream(self, path: str, params: dict[str, Any], **more: Any) -> Any:
        if self.age:
            params = {**params, "resourceVersion": "1"}
        return self._api.stream(path, params, **more)


class Paged:
    """A client whose API server refuses to stream lists."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self.accept = api.accept
        self.get, self.read = api.get, api.read

    def stream(self, path: str, params: dict[str, Any], **more: Any) -> Any:
        if "sendInitialEvents" in params:
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
        return self._api.stream(path, params, **more)


def _restart_api_server(cluster: launcher.ControlPlane) -> None:
    """Its memory of changes starts anew with it."""
    old = cluster.children["kube-apiserver"]
    old.process.kill()  # a graceful end would wait for our watch
    cluster.stop_program("kube-apiserver")
    command = old.process.args
    assert isinstance(command, list)
    cluster.children["kube-apiserver"] = launcher.spawn("kube-apiserver", command, old.log)


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "in-pages"])
async def test_every_collection_is_followed_and_quiet_ones_are_caught_up(
    cluster: launcher.ControlPlane, streams: bool
) -> None:
    """If this fails, the scheduler does not start on a real cluster, or a new leader waits for minutes."""
    async with _clients(cluster) as (admin, scheduler):
        for number in range(5):
            await _create_node(admin, f"n{number}")
        small_pages = resources.Resource("Node", "/api/v1/nodes", page=2)
        kinds = [small_pages, *(kind for kind in resources.DEFAULT if kind.name != "nodes")]
        seen = {kind.name: Seen() for kind in kinds}
        api: Any = scheduler if streams else Paged(scheduler)
        followed = [
            informer.Informer(api, kind, _no_name, [seen[kind.name].on_events], decode_protobuf=_name) for kind in kinds
        ]
        tasks = [asyncio.create_task(each.run()) for each in followed]
        await polling.until(lambda: all(each.synced for each in followed))
        nodes = followed[0].statistics()
        assert (nodes.pages, nodes.lists) == (0 if streams else 2, 1)
        assert sorted(name for kind, name in seen["nodes"].events if kind == "LISTED") == [f"n{n}" for n in range(5)]
        pod = await _create_pod(admin, "web")
        await asyncio.gather(*(each.catch_up(20) for each in followed))
        assert ("ADDED", "web") in seen["pods"].events
        version = int(pod["metadata"]["resourceVersion"])
        assert all(each.absent or each.version >= version for each in followed)
        optional = [kind.api for kind in resources.DEFAULT if kind.optional]
        assert [each.resource.api for each in followed if each.absent] == launcher.lacks(*optional)
        nodes_again = followed[0].statistics()
        assert [each.statistics().last_error for each in followed] == [""] * len(kinds)
        expected = 2 if streams else 1
        assert nodes_again.lists == expected, "a collection of several pages is not listed again to catch up"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_a_restarted_api_server_is_found_again_though_it_forgot_our_version(
    cluster: launcher.ControlPlane,
) -> None:
    """If this fails, an informer never sees the cluster again after the API server restarted."""
    async with _clients(cluster) as (admin, scheduler):
        seen = Seen()
        ageing: Any = Ageing(scheduler)
        followed = informer.Informer(ageing, resources.NODES, _no_name, [seen.on_events], decode_protobuf=_name)
        task = asyncio.create_task(followed.run())
        await polling.until(lambda: followed.synced)
        await _create_node(admin, "before")
        await polling.until(lambda: ("ADDED", "before") in seen.events)
        ageing.age = True
        await asyncio.to_thread(_restart_api_server, cluster)
        await polling.until(lambda: followed.statistics().expirations >= 1)
        ageing.age = False
        await polling.until(lambda: ("LISTED", "before") in seen.events)
        await _create_node(admin, "after")
        await polling.until(lambda: ("ADDED", "after") in seen.events)
        assert followed.statistics().failures >= 1
        task.cancel()
        await asyncio.wait([task])


async def test_the_lease_is_contended_for_and_its_events_are_written(cluster: launcher.ControlPlane) -> None:
    """If this fails, two schedulers lead, or leader changes cannot be seen in the cluster."""
    async with _clients(cluster) as (_, scheduler):

        def elector(identity: str) -> tuple[lease.LeaseElector, list[election.Notice]]:
            notices: list[election.Notice] = []
            settings = election.ElectionSettings(identity, retry_period=0.5)
            return lease.LeaseElector(settings, _settings(cluster, SCHEDULER), notices.append), notices

        (first, _), (second, _) = elector("host_1"), elector("host_2")
        first.start()
        await polling.until(lambda: first.leading is not None)
        second.start()
        assert first.leading is not None
        claim = lease.EpochClaim(first.leading.epoch, "host_1")
        await polling.until(lambda: first.remaining_seconds > 14)
        stored = await lease.read_lease(scheduler, "kube-system", "kube-scheduler", 5)
        assert lease.check_claim(claim, stored) is lease.ClaimVerdict.IN_FORCE
        assert stored is not None
        assert {**stored.raw["spec"], "acquireTime": "", "renewTime": ""} == {
            "holderIdentity": "host_1",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 0,
            "acquireTime": "",
            "renewTime": "",
        }
        await first.stop()
        await polling.until(lambda: second.leading is not None)
        assert second.leading is not None
        assert second.leading.epoch > claim.epoch
        assert second.leading.lease.transitions == 1
        stored = await lease.read_lease(scheduler, "kube-system", "kube-scheduler", 5)
        assert lease.check_claim(claim, stored) is lease.ClaimVerdict.DEPOSED
        await second.stop()


async def _recorded(cluster: launcher.ControlPlane, scheduler: client.ApiClient, pod: Mapping[str, Any]) -> None:
    metadata = pod["metadata"]
    recorder = event_recorder.EventRecorder(scheduler, hostname="host")
    await recorder.discover()
    task = asyncio.create_task(recorder.run())
    reference = event_series.pod_reference(
        metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"]
    )
    recorder.record_scheduled(reference, "node-a", "default-scheduler")
    for _ in range(3):
        recorder.record(
            reference, event_recorder.WARNING, "FailedScheduling", "Scheduling", "0/1 nodes", "default-scheduler"
        )
        assert await recorder.flush(10)
    holder = event_series.ObjectReference("Lease", "kube-system", "kube-scheduler", "u", "coordination.k8s.io/v1", "1")
    recorder.record_legacy(holder, event_recorder.NORMAL, "LeaderElection", "host_1 became leader", "default-scheduler")
    assert await recorder.flush(10)
    statistics = recorder.statistics()
    assert (statistics.refused, statistics.unsent, statistics.written) == (0, 0, 4)
    task.cancel()
    await asyncio.wait([task])


async def test_events_are_stored_as_those_of_kube_scheduler(cluster: launcher.ControlPlane) -> None:
    """If this fails, the real API server refuses our events, or kubectl shows them differently."""
    async with _clients(cluster) as (admin, scheduler):
        pod = await _create_pod(admin, "web")
        await _recorded(cluster, scheduler, pod)
    stored = json.loads(cluster.kubectl("get", "events.v1.events.k8s.io", "-A", "-o", "json"))["items"]
    by_reason = {event["reason"]: event for event in stored}
    assert sorted(by_reason) == ["FailedScheduling", "LeaderElection", "Scheduled"]
    scheduled = by_reason["Scheduled"]
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "namespace": "default",
        "resourceVersion": pod["metadata"]["resourceVersion"],
        "uid": pod["metadata"]["uid"],
    }
    # The object that kube-scheduler v1.37.2 leaves behind, but for names and times.
    expected = {
        "action": "Binding",
        "apiVersion": "events.k8s.io/v1",
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "deprecatedSource": {},
        "kind": "Event",
        "note": "Successfully assigned default/web to node-a",
        "reason": "Scheduled",
        "regarding": regarding,
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "type": "Normal",
    }
    assert {key: value for key, value in scheduled.items() if key not in ("metadata", "eventTime")} == expected
    assert by_reason["FailedScheduling"]["series"]["count"] == 2
    leader = by_reason["LeaderElection"]
    assert leader["deprecatedSource"] == {"component": "default-scheduler"}
    assert (leader["deprecatedCount"], leader["eventTime"], leader["reportingController"]) == (
        1,
        None,
        "default-scheduler",
    )
    described = cluster.kubectl("describe", "pod", "web")
    assert "Successfully assigned default/web to node-a" in described
    assert "FailedScheduling" in described


async def test_bindings_and_status_patches(cluster: launcher.ControlPlane) -> None:
    """If this fails, pods on a real cluster are not bound, or outcomes are taken for others."""
    async with _clients(cluster) as (admin, scheduler):
        await _create_node(admin, "n0")
        writer = writes.Writer(scheduler)
        pod = await _create_pod(admin, "web")
        name = api_writes.PodName("default", "web", pod["metadata"]["uid"])
        namesake = api_writes.PodName("default", "web", "00000000-0000-0000-0000-000000000000")
        patch = status_patch.pod_status_patch(
            pod["status"].get("conditions") or [],
            status_patch.Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes", 1),
            "2026-01-02T03:00:00Z",
            nomination="n0",
        )
        assert patch is not None
        patched, outcome = await writer.patch_pod_status(name, patch, 10), await writer.get_pod(name, 10)
        assert isinstance(patched, api_writes.Written)
        assert isinstance(outcome, api_writes.Written)
        assert patched.obj["metadata"] == outcome.obj["metadata"], "no more than that is answered"
        status = outcome.obj["status"]
        assert status["nominatedNodeName"] == "n0"
        assert [condition["lastTransitionTime"] for condition in status["conditions"]] == ["2026-01-02T03:00:00Z"]
        assert isinstance(await writer.bind(namesake, "n0", 10), api_writes.Conflict)
        assert isinstance(await writer.settle_binding(namesake, "n0", 10), api_writes.Gone)
        assert isinstance(await writer.bind(name, "n0", 10), api_writes.Written)
        assert isinstance(await writer.bind(name, "n0", 10), api_writes.Conflict)
        assert isinstance(await writer.settle_binding(name, "n0", 10), api_writes.Written)
        assert isinstance(await writer.settle_binding(name, "n1", 10), api_writes.Conflict)
        assert isinstance(await writer.delete_pod(namesake, 10), api_writes.Conflict)
        assert isinstance(await writer.delete_pod(name, 10), api_writes.Written)
        missing = api_writes.PodName("default", "nobody", "u")
        assert isinstance(await writer.bind(missing, "n0", 10), api_writes.Gone)
        refused = await writer.create(PODS, {"metadata": {"name": "x"}}, 10)
        assert isinstance(refused, api_writes.Refused), "the scheduler's role lets nobody create pods"
        with pytest.raises(ApiError, match="Forbidden"):
            await scheduler.get("/api/v1/secrets")
