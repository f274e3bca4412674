"""Plugins that are services of their own, in profiles of the whole scheduler."""

import asyncio
import collections
import contextlib
import os
import pathlib
import re
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.e2e import admin_socket, all_points, clusters, group_sides, installation, witness
from tests.e2e.installation import pod
from trireme import sdk
from trireme.config import remote_plugin_settings
from trireme.framework import plugin_spec
from trireme.v1 import cycle_pb2
from trireme.v1.scheduler_status_pb2 import PluginStatus

pytestmark = pytest.mark.timeout(120)

ROOT = pathlib.Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def plugin(folder: pathlib.Path, script: pathlib.Path) -> AsyncIterator[str]:
    """A plugin's process; answers its address."""
    address = f"unix:{folder}/plugin.sock"
    process = installation.Process(
        "plugin", [sys.executable, "-u", str(script), "--listen", address], folder / "plugin.log"
    )
    process.start()
    try:
        await process.listening()
        yield address
    finally:
        process.stop()


def profile(name: str, *points: str) -> dict[str, Any]:
    """A configuration whose profile has the plugin at these points."""
    plugins = {point: {"enabled": [{"name": name, **({"weight": 5} if point == "score" else {})}]} for point in points}
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}


def remote(name: str, address: str, *points: str, **settings: Any) -> dict[str, Any]:
    """Trireme's configuration that names the plugin."""
    return {"remotePlugins": [{"name": name, "address": address, "extensionPoints": list(points), **settings}]}


async def test_a_filter_and_score_plugin_decides(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """Nodes that the plugin refuses get no pod, the one that it prefers does, and why not is told in its words."""
    script = ROOT / "examples/plugin-python/maintenance.py"
    async with cluster(nodes=4) as here, plugin(tmp_path, script) as address:
        names = [node["metadata"]["name"] for node in await here.nodes()]
        for name in names[:2]:
            await _label(here, name, "example.com/maintenance", "yes")
        await _label(here, names[3], "example.com/preference", "100")
        await here.start(
            configuration=profile("Maintenance", "filter", "score"),
            own=remote("Maintenance", address, "filter", "score"),
        )
        await here.create_pods([pod("p"), pod("nowhere", nodeSelector={"kubernetes.io/hostname": names[0]})])
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == names[3]
        await here.condition("nowhere", "1 node(s) were under maintenance")
        await _label(here, names[0], "example.com/maintenance", None)
        await here.bound(2)


def with_args(configuration: dict[str, Any], name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The configuration with arguments for the plugin."""
    (only,) = configuration["profiles"]
    return {**configuration, "profiles": [{**only, "pluginConfig": [{"name": name, "args": args}]}]}


async def test_a_plugin_gets_its_arguments_again_when_it_is_restarted(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """The label that a profile's args name counts, also for a plugin that was restarted meanwhile."""
    script = ROOT / "examples/plugin-python/maintenance.py"
    async with cluster(nodes=2) as here:
        first, second = [node["metadata"]["name"] for node in await here.nodes()]
        await _label(here, first, "down", "yes")
        await _label(here, second, "example.com/maintenance", "yes")
        configuration = with_args(profile("Maintenance", "filter"), "Maintenance", {"maintenanceLabel": "down"})
        async with plugin(tmp_path, script) as address:
            await here.start(configuration=configuration, own=remote("Maintenance", address, "filter"))
            await here.create_pods([pod("p")])
            (bound,) = await here.bound(1)
            assert bound["spec"]["nodeName"] == second
        async with plugin(tmp_path, script):
            # Another class of pods, so that the plugin is called.
            await here.create_pods([pod("q", tolerations=[{"operator": "Exists"}])])
            bound = next(each for each in await here.bound(2) if each["metadata"]["name"] == "q")
            assert bound["spec"]["nodeName"] == second


async def test_arguments_that_a_plugin_refuses_end_the_start_with_its_words(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """The last line of the log has the profile, the plugin, the path of the field and the plugin's message."""
    script = ROOT / "examples/plugin-python/maintenance.py"
    async with cluster(nodes=1) as here, plugin(tmp_path, script) as address:
        frontend = here.add_frontend(
            configuration=with_args(profile("Maintenance", "filter"), "Maintenance", {"maintenanceLabel": "no key"}),
            own=remote("Maintenance", address, "filter"),
        )
        frontend.start()
        await installation.until(lambda: not frontend.running, 60, frontend.log.read_text)
        assert frontend.stop() == 1
        text = (
            f"plugin Maintenance at {address}: profile default-scheduler: pluginConfig: "
            "args.maintenanceLabel: must be the key of a label"
        )
        assert text in frontend.log.read_text().splitlines()[-1]


async def _label(here: installation.Installation, node: str, key: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {key: value}}}
    await here.request("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")


async def test_a_pod_waits_on_permit_until_it_is_allowed(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """A pod that waits on Permit is bound when the plugin allows it through the Handle, and goes back when refused."""
    handle_address = f"unix:{tmp_path}/handle.sock"
    script = pathlib.Path(__file__).parent / "gatekeeper.py"
    async with cluster(nodes=2) as here, plugin(tmp_path, script) as address:
        own = remote("Gatekeeper", address, "preEnqueue", "permit") | {"handle": {"listen": handle_address}}
        await here.start(configuration=profile("Gatekeeper", "preEnqueue", "permit"), own=own)
        await here.create_pods([pod("p"), pod("q"), pod("kept-out", labels={"wait": "yes"})])
        async with sdk.Handle(handle_address, "Gatekeeper") as handle:
            await _decided(handle.allow, await _identity(here, "p"))
            await _decided(lambda who: handle.reject(who, "not today"), await _identity(here, "q"))
        (bound,) = await here.bound(1)
        assert bound["metadata"]["name"] == "p"
        await here.condition("q", "not today")
        assert not (await here.pod("kept-out")).get("status", {}).get("conditions")


async def _identity(here: installation.Installation, name: str) -> cycle_pb2.PodIdentity:
    uid = (await here.pod(name))["metadata"]["uid"]
    return cycle_pb2.PodIdentity(namespace="default", name=name, uid=uid)


async def _decided(decide: Any, who: cycle_pb2.PodIdentity) -> None:
    """Say it until the pod waits and has heard it."""
    async with asyncio.timeout(20):
        while not await decide(who):
            await asyncio.sleep(0.1)


def two_profiles(name: str, *points: str) -> dict[str, Any]:
    """As `profile`, with a second profile that does not have the plugin."""
    configuration = profile(name, *points)
    configuration["profiles"].append({"schedulerName": "plain"})
    return configuration


async def shown(socket: pathlib.Path, true: Callable[[PluginStatus], bool]) -> PluginStatus:
    """The only plugin as the frontend's status has it, once that is true of it."""
    last = PluginStatus()

    async def found() -> bool:
        nonlocal last
        (last,) = (await admin_socket.scheduler_status(socket)).plugins
        return true(last)

    await installation.until(found, 30, lambda: str(last))
    return last


async def test_profiles_wait_for_a_plugin_that_must_be_there(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """With Fail the profile that names the plugin waits while others are scheduled.

    When the plugin comes, its pods are placed as it says, though it reads fields of pods that nobody read before.
    """
    script = pathlib.Path(__file__).parent / "chooser.py"
    address = f"unix:{tmp_path}/plugin.sock"
    async with cluster(nodes=3) as here:
        chosen = (await here.nodes())[1]["metadata"]["name"]
        socket = tmp_path / "admin.sock"
        own = remote("Chooser", address, "filter") | {"admin": {"socket": str(socket)}}
        await here.start(configuration=two_profiles("Chooser", "filter"), own=own)
        first = pod("p")
        first["metadata"]["annotations"] = {"example.com/node": chosen}
        await here.create_pods([first, pod("q", schedulerName="plain")])
        (bound,) = await here.bound(1)
        assert bound["metadata"]["name"] == "q"
        assert not (await here.pod("p"))["spec"].get("nodeName")
        missing = await shown(socket, lambda plugin: plugin.health == "unreachable")
        assert (missing.address, missing.failure_policy, missing.calls) == (address, "Fail", 0)
        (waits,) = (await admin_socket.scheduler_status(socket)).pending
        assert waits.summary == "waits for the plugin Chooser, which does not take part yet"
        async with plugin(tmp_path, script):
            placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in await here.bound(2)}
            assert placed["p"] == chosen
            there = await shown(socket, lambda plugin: plugin.calls > 0)
            assert (there.health, there.version, there.breaker) == ("ok", "2.1", "closed")
            assert 0 < there.p99_s < 60
            ready = await admin_socket.read(socket, "/readyz?verbose")
            assert f"plugin Chooser ok: {address}, version 2.1, breaker closed, failure policy Fail, " in ready
            second = pod("r")
            second["metadata"]["annotations"] = {"example.com/node": chosen}
            await here.create_pods([second])
            placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in await here.bound(3)}
            assert placed["r"] == chosen


async def test_an_ignorable_plugin_takes_part_once_it_is_reachable(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path
) -> None:
    """With Ignore the scheduler starts without the plugin and logs it.

    Pods that come after the plugin are placed as it says.
    """
    script = pathlib.Path(__file__).parent / "chooser.py"
    address = f"unix:{tmp_path}/plugin.sock"
    async with cluster(nodes=3) as here:
        chosen = (await here.nodes())[1]["metadata"]["name"]
        own = remote("Chooser", address, "filter", failurePolicy="Ignore")
        await here.start(configuration=profile("Chooser", "filter"), own=own)
        (frontend,) = here.frontends
        await here.create_pods([pod("p")])
        await here.bound(1)
        await here.logged(frontend, "profiles are scheduled without it")
        async with plugin(tmp_path, script):
            await here.logged(frontend, f"plugin Chooser at {address} takes part")
            second = pod("r")
            second["metadata"]["annotations"] = {"example.com/node": chosen}
            await here.create_pods([second])
            placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in await here.bound(2)}
            assert placed["r"] == chosen


@pytest.mark.parametrize(("policy", "scheduled"), [("Fail", False), ("Ignore", True)])
async def test_a_plugin_that_dies_has_its_failure_policy(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, policy: str, scheduled: bool
) -> None:
    """With Fail pods wait, by error, until the plugin is back; with Ignore they go on without it."""
    script = ROOT / "examples/plugin-python/maintenance.py"
    async with cluster(nodes=2) as here:
        async with plugin(tmp_path, script) as address:
            own = remote("Maintenance", address, "filter", failurePolicy=policy, deadline="500ms")
            await here.start(configuration=profile("Maintenance", "filter"), own=own)
        await here.create_pods([pod("p")])
        if scheduled:
            await here.bound(1)
            return
        condition = await here.condition("p", 'running "Maintenance" filter plugin')
        assert condition["reason"] == "SchedulerError"
        async with plugin(tmp_path, script):
            await here.bound(1)


async def test_a_plugin_follows_the_cluster(cluster: clusters.OpenCluster, tmp_path: pathlib.Path) -> None:
    """A plugin with NODE_DATA_SNAPSHOT counts the pods on nodes.

    None gets more than it may, also after the plugin started anew and knew nothing.
    """
    script = ROOT / "examples/plugin-python/pod_limit.py"
    async with cluster(nodes=3) as here:
        for node in await here.nodes():
            await _label(here, node["metadata"]["name"], "example.com/pod-limit", "2")
        async with plugin(tmp_path, script) as address:
            own = remote("PodLimit", address, "filter")
            await here.start(filters=2, configuration=profile("PodLimit", "filter"), own=own)
            await here.create_pods(pod(f"p{number}") for number in range(5))
            await here.bound(5)
        async with plugin(tmp_path, script):
            await here.create_pods(pod(f"q{number}") for number in range(5))
            await here.bound(6)
            waiting = [each for each in await here.pods() if not each["spec"].get("nodeName")]
            await here.condition(waiting[0]["metadata"]["name"], "3 node(s) had as many pods as they may")
            assert sorted(await _pods_per_node(here)) == [2, 2, 2]
            gone = next(each for each in await here.pods() if each["spec"].get("nodeName"))["metadata"]["name"]
            await here.request("DELETE", f"/api/v1/namespaces/default/pods/{gone}?gracePeriodSeconds=0")

            async def replaced() -> bool:
                there = {each["metadata"]["name"] for each in await here.pods()}
                return gone not in there and sorted(await _pods_per_node(here)) == [2, 2, 2]

            await installation.until(replaced, 60, lambda: here.frontends[0].said[-3000:])


async def _pods_per_node(here: installation.Installation) -> list[int]:
    names = [each["spec"]["nodeName"] for each in await here.pods() if each["spec"].get("nodeName")]
    return list(collections.Counter(names).values())


@pytest.mark.parametrize("late", [False, True], ids=["there at the start", "comes later"])
async def test_a_plugin_reads_nodes_as_json(cluster: clusters.OpenCluster, tmp_path: pathlib.Path, late: bool) -> None:
    """A plugin with NODE_DATA_JSON gets of each node what the API server says, also where it comes late."""
    script = pathlib.Path(__file__).parent / "annotated.py"
    async with cluster(nodes=3) as here, contextlib.AsyncExitStack() as stack:
        names = [node["metadata"]["name"] for node in await here.nodes()]
        await _annotate(here, names[0])
        address = f"unix:{tmp_path}/plugin.sock"
        if not late:
            await stack.enter_async_context(plugin(tmp_path, script))
        await here.start(configuration=profile("Annotated", "filter"), own=remote("Annotated", address, "filter"))
        await here.create_pods([pod("p")])
        if late:
            await stack.enter_async_context(plugin(tmp_path, script))
        (bound,) = await here.bound(1)
        assert bound["spec"]["nodeName"] == names[0]
        await here.create_pods([pod("q", nodeSelector={"kubernetes.io/hostname": names[1]})])
        await here.condition("q", "1 no rack")
        await _annotate(here, names[1])
        await here.bound(2)


async def _annotate(here: installation.Installation, node: str) -> None:
    patch = {"metadata": {"annotations": {"example.com/rack": "1"}}}
    await here.request("PATCH", f"/api/v1/nodes/{node}", patch, "application/merge-patch+json")


@pytest.mark.parametrize("elects", [True, False], ids=["with election", "without election"])
async def test_plugins_and_phases_outlive_a_cluster(tmp_path: pathlib.Path, elects: bool) -> None:
    """The scheduler of a cluster that was made anew is served by what served the one before, whose epochs were higher.

    A scheduler of the old one is not, until it leads anew.
    """
    script = ROOT / "examples/plugin-python/maintenance.py"
    folders = [tmp_path / "old", tmp_path / "new"]
    for folder in folders:
        folder.mkdir()
    configuration = profile("Maintenance", "filter", "score") | {"leaderElection": {"leaderElect": elects}}
    async with plugin(tmp_path, script) as address, _small_cluster(folders[0]) as old:
        await old.create_pods(pod(f"p{number}") for number in range(200))
        own = remote("Maintenance", address, "filter", "score")
        await old.start(1, 1, 0, configuration=configuration, own=own)
        await old.bound(200)
        async with _small_cluster(folders[1]) as new:
            endpoints = {phase: {"endpoints": [old.socket(phase, 0)]} for phase in ("filter", "score")}
            await new.create_pods([pod("p")])
            await new.start(0, 0, 0, configuration=configuration, own=own | {"phases": endpoints})
            await new.bound(1)
            assert "stale-epoch" not in new.frontends[0].said
            assert "epochs of another scheduler are not compared" in old.phases["filter"][0].said
            # The old cluster's leader is refused, and does not get in the way.
            await old.create_pods([pod("late")])
            await old.logged(old.frontends[0], "has replaced scheduler")
            await new.create_pods(pod(f"q{number}") for number in range(20))
            await new.bound(21)


@contextlib.asynccontextmanager
async def _small_cluster(folder: pathlib.Path) -> AsyncIterator[installation.Installation]:
    async with (
        installation.embedded(folder, "--nodes", "2", "--cpu", "64") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        yield here


async def test_pods_that_a_plugin_refused_are_tried_when_it_comes_back_as_another_version(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = pathlib.Path(__file__).parent / "versioned.py"
    monkeypatch.setenv("VERSION", "1")
    async with _small_cluster(tmp_path) as here:
        async with plugin(tmp_path, script) as address:
            own = remote("Versioned", address, "filter")
            await here.start(configuration=profile("Versioned", "filter"), own=own)
            await here.create_pods([pod("p")])
            await here.condition("p", "2 node(s) were refused by version 1")
        monkeypatch.setenv("VERSION", "2")
        async with plugin(tmp_path, script):
            await here.bound(1)


async def test_each_extension_point_of_a_plugin_is_called_with_the_pod(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a plugin is never called at a point that its profile names, or lacks the pod's fields.

    A pod that Permit refuses is for Unreserve, one that no node takes for PostFilter.
    """
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("CALLS", str(calls))
    # Groups of pods have a test of their own, below.
    of_pods = remote_plugin_settings.REMOTE_POINTS - {plugin_spec.ExtensionPoint.PLACEMENT_FEASIBLE}
    points = sorted(point.value for point in of_pods)
    configuration = profile("AllPoints", *points)
    plugins = configuration["profiles"][0]["plugins"]
    for point, in_tree in (("bind", ["DefaultBinder"]), ("postFilter", []), ("queueSort", [])):
        plugins[point]["disabled"] = [{"name": "*"}]
        plugins[point]["enabled"] += [{"name": name} for name in in_tree]
    script = pathlib.Path(__file__).parent / "all_points.py"
    async with cluster(nodes=2) as here, plugin(tmp_path, script) as address:
        socket = tmp_path / "admin.sock"
        own = remote("AllPoints", address, *points) | {"admin": {"socket": str(socket)}}
        await here.start(configuration=configuration, own=own)
        pods = [pod("plain"), pod("refused"), pod("unreserved"), pod("homeless", nodeSelector={"no": "node"})]
        for each in pods:
            each["metadata"]["annotations"] = {"example.com/mark": each["metadata"]["name"]}
        await here.create_pods(pods)
        await here.bound(1)
        passed = [method for method in all_points.METHODS if method not in ("post_filter", "unreserve")]
        wanted = {f"{method} plain" for method in passed} | {"post_filter homeless", "unreserve refused"}

        def missing() -> list[str]:
            return sorted(wanted - set(calls.read_text().splitlines()))

        await installation.until(lambda: not missing(), 20, lambda: f"missing: {missing()}")
        unmarked = [line for line in calls.read_text().splitlines() if line.endswith(" ")]
        assert not unmarked
        for name, step, why in (
            ("unreserved", "Reserve", "no licence is free (noFreeLicence: licences 3, product cad)"),
            ("refused", "Permit", "refused"),
        ):
            await here.condition(name, "0/1 nodes are available: 1 ")
            explained = await _trireme("explain", f"default/{name}", "--socket", str(socket))
            assert re.search(rf"AllPoints refused it at {step}, on node [\w-]+: {re.escape(why)}", explained), explained


async def test_a_plugin_decides_where_a_group_of_pods_is(tmp_path: pathlib.Path) -> None:
    """If this fails, a profile with a plugin at placementFeasible does not start, or its groups go anywhere.

    Rack a has the nodes with more room; a group that must be in it waits, with the plugin's words.
    """
    script = pathlib.Path(__file__).with_name("rack_licences.py")
    point = plugin_spec.ExtensionPoint.PLACEMENT_FEASIBLE.value
    gates = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
    topology = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    async with (
        installation.embedded(tmp_path, "--nodes", "3", "--cpu", "8", "--pod-groups") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
        plugin(tmp_path, script) as address,
    ):
        names = [node["metadata"]["name"] for node in await here.nodes()]
        for name, rack in zip(names, "aab", strict=True):
            await _label(here, name, "rack", rack)
        here.frontend_flags += [f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"]
        await here.start(configuration=profile("RackLicences", point), own=remote("RackLicences", address, point))
        await here.request("POST", group_sides.GROUPS, group_sides.gang("free", 2, **topology))
        await here.create_pods(group_sides.members("free", 2))
        bound = await here.bound(2)
        assert {each["spec"]["nodeName"] for each in bound} == {names[2]}
        await here.request("POST", group_sides.GROUPS, group_sides.gang("large", 9, **topology))
        await here.create_pods(group_sides.members("large", 9))

        async def message() -> str:
            group = await here.request("GET", f"{group_sides.GROUPS}/large")
            conditions = group.get("status", {}).get("conditions", [])
            return "".join(each["message"] for each in conditions)

        async def refused() -> bool:
            text = await message()
            return text.startswith("0/2 placements are available") and "no licence in this rack" in text

        await installation.until(refused, 20, lambda: here.frontends[0].said[-2000:])
        assert len(await here.bound(2)) == 2


async def _trireme(*arguments: str) -> str:
    """What a command prints on a wide terminal."""
    command = (pathlib.Path(sys.executable).with_name("trireme"), *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, "COLUMNS": "200"}
    )
    printed, _ = await process.communicate()
    return printed.decode()


async def test_pods_that_permit_refuses_do_not_wake_each_other(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, two of them are tried again without end: each gives up the room that it had."""
    calls = tmp_path / "calls"
    calls.touch()
    monkeypatch.setenv("CALLS", str(calls))
    async with cluster(nodes=2) as here, plugin(tmp_path, pathlib.Path(__file__).with_name("refuser.py")) as address:
        await here.start(configuration=profile("Refuser", "permit"), own=remote("Refuser", address, "permit"))
        await here.create_pods([pod("a"), pod("b", cpu="200m")])
        for name in ("a", "b"):
            await here.condition(name, "nobody approved")
        # One more attempt of each may be under way.
        await asyncio.sleep(1)
        before = len(calls.read_text())
        await asyncio.sleep(3)
        assert len(calls.read_text()) == before
