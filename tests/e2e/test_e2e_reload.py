"""The configuration of a running scheduler is replaced: what becomes of the pods, and who learns of it."""

import asyncio
import functools
import pathlib
import signal
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.e2e import admin_socket, clusters, installation, test_e2e_plugins, test_e2e_queue_sort
from tests.e2e.installation import pod
from trireme.v1.scheduler_status_pb2 import ConfigurationStatus

pytestmark = pytest.mark.timeout(180)

PREFERS_FIRST = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "first", "operator": "Exists"}]},
            }
        ]
    }
}


def weighted(affinity: int, taint: int, name: str = "default-scheduler", **more: Any) -> dict[str, Any]:
    """A profile with two scores that disagree about the first node."""
    enabled = [{"name": "NodeAffinity", "weight": affinity}, {"name": "TaintToleration", "weight": taint}]
    score = {"disabled": [{"name": "*"}], "enabled": enabled}
    return {"schedulerName": name, "plugins": {"score": score}, **more}


async def _prefer_and_avoid(here: installation.Installation) -> str:
    """Label the first node so that pods prefer it, and taint it so that they avoid it; returns its name."""
    name: str = (await here.nodes())[0]["metadata"]["name"]
    change = {
        "metadata": {"labels": {"first": "yes"}},
        "spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]},
    }
    await here.request("PATCH", f"/api/v1/nodes/{name}", change, "application/strategic-merge-patch+json")
    return name


def _rewrite(here: installation.Installation, **changes: Any) -> None:
    """Replace fields of the first frontend's KubeSchedulerConfiguration, as `kubectl` does with a ConfigMap's file."""
    path = here.folder / "config-0.yaml"
    document = {**yaml.safe_load(path.read_text()), **changes}
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(document))
    new.replace(path)


async def _configuration(here: installation.Installation) -> ConfigurationStatus:
    """What `trireme status` shows of the configuration."""
    return (await admin_socket.scheduler_status(here.folder / "admin.sock")).configuration


def _nodes_of(pods: list[Mapping[str, Any]], prefix: str) -> set[str]:
    """The nodes of the pods with such names."""
    return {each["spec"]["nodeName"] for each in pods if each["metadata"]["name"].startswith(prefix)}


async def _lease_events(here: installation.Installation, reason: str) -> list[str]:
    """The texts of the events of this reason."""
    answer = await here.request("GET", "/api/v1/events")
    return [event["message"] for event in answer["items"] or [] if event["reason"] == reason]


async def test_weights_that_change_under_load_decide_from_then_on_and_no_pod_is_lost(
    cluster: clusters.OpenCluster,
) -> None:
    """If this fails, changing a weight takes a restart, or pods in flight meanwhile are dropped or placed by both."""
    async with cluster(nodes=3, cpu="64") as here:
        first = await _prefer_and_avoid(here)
        own = {"admin": {"socket": str(here.folder / "admin.sock")}}
        await here.start(configuration={"profiles": [weighted(10, 1)]}, own=own)
        frontend = here.frontends[0]
        before = await _configuration(here)
        await here.create_pods(pod(f"before-{n}", cpu="10m", affinity=PREFERS_FIRST) for n in range(20))
        assert _nodes_of(await here.bound(20), "before") == {first}

        load = asyncio.create_task(
            here.create_pods((pod(f"during-{n}", cpu="10m", affinity=PREFERS_FIRST) for n in range(200)), at_once=2)
        )
        _rewrite(here, profiles=[weighted(1, 10)])
        await here.logged(frontend, "Configuration reloaded")
        await load
        await here.create_pods(pod(f"after-{n}", cpu="10m", affinity=PREFERS_FIRST) for n in range(20))
        assert first not in _nodes_of(await here.bound(240), "after")

        after = await _configuration(here)
        assert after.hash != before.hash
        assert after.call_hash != before.call_hash
        assert (after.reloads, after.HasField("last_refusal")) == (1, False)
        await installation.until(lambda: _lease_events(here, "ConfigurationReloaded"), 20, here.story)


async def test_what_is_wrong_is_refused_as_a_whole_and_profiles_come_and_go(cluster: clusters.OpenCluster) -> None:
    """If this fails, a mistake in a file stops scheduling, or pods of an added or removed profile are lost."""
    async with cluster(nodes=2) as here:
        own = {"admin": {"socket": str(here.folder / "admin.sock")}}
        profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "old"}]
        await here.start(configuration={"profiles": profiles}, own=own)
        frontend = here.frontends[0]
        await here.create_pods([pod("waits-for-new", schedulerName="new")])
        gate = [{"name": "example.com/gate"}]
        await here.create_pods([pod("waits-in-old", schedulerName="old", schedulingGates=gate)])

        unknown = {"filter": {"enabled": [{"name": "Unknown"}]}}
        _rewrite(here, profiles=[{"schedulerName": "new"}, {"schedulerName": "other", "plugins": unknown}])
        await here.logged(frontend, "Configuration refused")
        refusal = (await _configuration(here)).last_refusal
        assert refusal.current
        assert "Unknown" in refusal.error
        await installation.until(lambda: _lease_events(here, "ConfigurationRefused"), 20, here.story)
        await here.create_pods([pod("of-old", schedulerName="old")])
        await here.bound(1)

        _rewrite(here, profiles=[{"schedulerName": "default-scheduler"}, {"schedulerName": "new"}])
        frontend.signal(signal.SIGHUP)
        await here.logged(frontend, "Configuration reloaded")
        assert [each["metadata"]["name"] for each in await here.bound(2) if "new" in each["metadata"]["name"]]

        # The gate is opened, and nobody is responsible for the pod any more.
        change = {"spec": {"schedulingGates": []}}
        await here.request(
            "PATCH", "/api/v1/namespaces/default/pods/waits-in-old", change, "application/merge-patch+json"
        )
        await here.create_pods([pod("last")])
        bound = {each["metadata"]["name"] for each in await here.bound(3)}
        assert bound == {"waits-for-new", "of-old", "last"}
        status = await admin_socket.scheduler_status(here.folder / "admin.sock")
        assert status.pending_pods == 0
        assert not status.configuration.last_refusal.current

        _rewrite(here, leaderElection={"leaderElect": True, "resourceName": "another"})
        text = "leaderElection.resourceName: Forbidden: cannot change without a restart of the frontend"
        await here.logged(frontend, text)
        _rewrite(here, leaderElection={"leaderElect": True})
        await installation.until(lambda: _is_accepted(here), 20, here.story)


async def _is_accepted(here: installation.Installation) -> bool:
    """Whether the files, as they are, are in force."""
    return not (await _configuration(here)).last_refusal.current


async def test_another_plugin_orders_the_queue_after_a_reload(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """If this fails, pods that wait while the order changes are compared by keys of both orders."""
    sorted_by_plugin, waiting = test_e2e_queue_sort.SORTED, test_e2e_queue_sort.waiting
    by_priority = {**sorted_by_plugin, "profiles": [{"schedulerName": "default-scheduler"}]}
    async with (
        cluster(nodes=1) as here,
        test_e2e_plugins.plugin(tmp_path, test_e2e_queue_sort.FAIR_ORDER) as address,
    ):
        await here.add_priority_class("important", 1000, preemptionPolicy="Never")
        own = test_e2e_plugins.remote("FairOrder", address, "queueSort") | {
            "admin": {"socket": str(here.folder / "admin.sock")}
        }
        await here.start(configuration=by_priority, own=own)
        await here.create_pods([waiting("first", 0)])
        assert await test_e2e_queue_sort.placed(here) == "first"
        ranks = {"unranked": None, "b": 2, "c": 3, "urgent": None}
        await here.create_pods([waiting(name, rank) for name, rank in ranks.items()])
        for name in ranks:
            await here.condition(name, "Insufficient cpu")
        for reloads, (configuration, holder, successors) in enumerate(
            ((sorted_by_plugin, "first", ["b"]), (by_priority, "b", ["unranked", "urgent"])), start=1
        ):
            _rewrite(here, **configuration)
            await installation.until(functools.partial(_has_reloaded, here, reloads), 20, here.story)
            assert await test_e2e_queue_sort.free_place(here, holder) in successors


async def _has_reloaded(here: installation.Installation, times: int) -> bool:
    """Whether the configuration was reloaded so many times."""
    reloads = (await _configuration(here)).reloads
    return reloads == times
