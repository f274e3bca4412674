"""Example plugins have their effect in a whole scheduler, on an embedded cluster."""

import asyncio
import collections
import contextlib
import itertools
import json
import pathlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import test_utils, web

from tests.contract import contract_services
from tests.e2e import installation, test_e2e_queue_sort, witness
from tests.e2e.installation import pod

# The first test of an example builds it.
pytestmark = pytest.mark.timeout(600)


@contextlib.asynccontextmanager
async def _cluster(folder: pathlib.Path, nodes: int) -> AsyncIterator[installation.Installation]:
    """An embedded cluster of this many nodes, node-0 and so on; nothing of the scheduler runs yet."""
    async with (
        installation.embedded(folder, "--nodes", "0") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        for number in range(nodes):
            await here.add_node(f"node-{number}")
        yield here


@contextlib.asynccontextmanager
async def _example(folder: pathlib.Path, name: str, *flags: str) -> AsyncIterator[installation.Process]:
    """The example's process, which listens on plugin.sock in the folder."""
    command = await asyncio.to_thread(contract_services.command, name)
    listen = ("--listen", f"unix:{folder}/plugin.sock")
    process = installation.Process(name, [*map(str, command), *listen, *flags], folder / "plugin.log")
    process.start()
    try:
        await process.listening()
        yield process
    finally:
        process.stop()


async def _places(here: installation.Installation) -> dict[str, str]:
    """The node of each pod, empty where it has none."""
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in await here.pods()}


def _profile(name: str, *points: str, args: Mapping[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    """A configuration whose profile has the plugin at these points, and no other plugin that scores."""
    enabled = {point: {"enabled": [{"name": name}]} for point in points}
    plugins = {"score": {}} | enabled | others
    plugins["score"]["disabled"] = [{"name": "*"}]
    config = [{"name": name, "args": args}] if args is not None else []
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": config}]}


def _remote(folder: pathlib.Path, name: str, *points: str) -> dict[str, Any]:
    """Trireme's configuration that names the plugin."""
    entry = {"name": name, "address": f"unix:{folder}/plugin.sock", "extensionPoints": list(points), "deadline": "5s"}
    return {"remotePlugins": [entry]}


async def test_pods_wait_for_floating_licences(tmp_path: pathlib.Path) -> None:
    """As many pods run as there are licences, also after a restart of the plugin, and the next one when one is free."""
    points = ("preFilter", "reserve")
    async with _cluster(tmp_path, 2) as here:
        async with _example(tmp_path, "floating-licences-java"):
            await here.start(
                configuration=_profile("FloatingLicences", *points, args={"products": {"cad": 2}}),
                own=_remote(tmp_path, "FloatingLicences", *points),
            )
            await here.create_pods(pod(f"p{number}", labels={"example.com/licence": "cad"}) for number in range(3))
            await here.create_pods([pod("free")])
            holders = [each["metadata"]["name"] for each in await here.bound(3) if each["metadata"]["labels"]]
            (waiting,) = {"p0", "p1", "p2"} - set(holders)
            await here.condition(waiting, "all licences of cad were in use")
            await here.create_pods([pod("other", labels={"example.com/licence": "simulation"})])
            await here.condition("other", "there are no licences of simulation")
        async with _example(tmp_path, "floating-licences-java"):
            await here.create_pods([pod("late", labels={"example.com/licence": "cad"})])
            await here.condition("late", "all licences of cad were in use")
            await here.request("DELETE", f"/api/v1/namespaces/default/pods/{holders[0]}?gracePeriodSeconds=0")

            async def taken() -> bool:
                with_licence = {name for name, node in (await _places(here)).items() if node and name != "free"}
                return holders[0] not in with_licence and len(with_licence) == 2

            await installation.until(taken, 20, lambda: here.story(waiting))


async def test_a_score_phase_in_go_takes_the_place_of_ours(tmp_path: pathlib.Path) -> None:
    """Whole decisions go by its scores: pods are spread over empty nodes, and a soft taint counts.

    Pods under a topology constraint, which it places one by one, are bound as well.
    """
    enabled = [
        {"name": "NodeResourcesFit"},
        {"name": "NodeResourcesBalancedAllocation"},
        {"name": "TaintToleration", "weight": 9},
    ]
    score = {"disabled": [{"name": "*"}], "enabled": enabled}
    profiles = [{"schedulerName": "default-scheduler", "plugins": {"score": score}}]
    async with _cluster(tmp_path, 4) as here:
        taints = {"spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}}
        await here.request("PATCH", "/api/v1/nodes/node-3", taints, "application/merge-patch+json")
        command = await asyncio.to_thread(contract_services.command, "score-phase-go")
        listen = ["--listen", here.socket("score", 0)]
        here.phases["score"].append(
            installation.Process("score-0", [*map(str, command), *listen], tmp_path / "score-0.log")
        )
        here.phases["score"][0].start()
        await here.start(scores=0, configuration={"profiles": profiles})
        await here.create_pods(pod(f"p{number}", cpu="1") for number in range(6))
        await here.bound(6)
        assert sorted((await _places(here)).values()) == [f"node-{number}" for number in (0, 0, 1, 1, 2, 2)]
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
        labels = {"app": "spread"}
        await here.create_pods(
            pod(f"s{number}", labels=labels, topologySpreadConstraints=[spread]) for number in range(8)
        )
        await here.bound(14)
        places = await _places(here)
        assert sorted(node for name, node in places.items() if name[0] == "s") == sorted(
            f"node-{number % 4}" for number in range(8)
        )


async def test_pods_go_where_it_is_cheap_also_after_prices_change(tmp_path: pathlib.Path) -> None:
    """The cheaper node is chosen; once the file says otherwise, the other one, without a restart."""
    instance_type = "node.kubernetes.io/instance-type"
    prices = tmp_path / "prices.json"

    def set_prices(**by_type: float) -> None:
        entries = [{"instanceType": name, "onDemand": price} for name, price in by_type.items()]
        new = tmp_path / "prices.new"
        new.write_text(json.dumps({"prices": entries}))
        new.replace(prices)

    async with _cluster(tmp_path, 0) as here:
        for name in ("one", "other"):
            await here.add_node(name, labels={instance_type: name})
        set_prices(one=1.0, other=2.0)
        async with _example(tmp_path, "cost-carbon-python", "--prices", str(prices)):
            await here.start(
                configuration=_profile("CostAndCarbon", "score", args={"carbonWeight": 0}),
                own=_remote(tmp_path, "CostAndCarbon", "score"),
            )
            await here.create_pods(pod(f"p{number}") for number in range(3))
            await here.bound(3)
            assert set((await _places(here)).values()) == {"one"}
            set_prices(one=2.0, other=1.0)
            counts = itertools.count(4)

            async def goes_elsewhere() -> bool:
                count = next(counts)
                await here.create_pods([pod(f"p{count}")])
                await here.bound(count)
                return (await _places(here))[f"p{count}"] == "other"

            await installation.until(goes_elsewhere, 40, here.story)


@contextlib.asynccontextmanager
async def _ipam(given: dict[str, str], free: list[str]) -> AsyncIterator[str]:
    """An IPAM service of one network; answers its URL."""

    async def allocate(request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        if uid not in given:
            if not free:
                return web.Response(status=409)
            given[uid] = free.pop()
        return web.json_response({"address": given[uid]})

    application = web.Application()
    application.router.add_put("/networks/blue/addresses/{uid}", allocate)
    server = test_utils.TestServer(application)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


async def test_pods_are_bound_with_an_address_of_their_network(tmp_path: pathlib.Path) -> None:
    """Each pod of the network has its own address once it is bound, others none; without a free one a pod waits."""
    given: dict[str, str] = {}
    free = ["10.0.0.1", "10.0.0.2"]
    bind = {"disabled": [{"name": "*"}], "enabled": [{"name": "IpamBind"}, {"name": "DefaultBinder"}]}
    async with _cluster(tmp_path, 2) as here, _ipam(given, free) as url:
        async with _example(tmp_path, "ipam-bind-python", "--ipam", url, "--api-server", here.url):
            await here.start(configuration=_profile("IpamBind", bind=bind), own=_remote(tmp_path, "IpamBind", "bind"))
            pods = [pod(f"p{number}") for number in range(3)]
            for each in pods:
                each["metadata"]["annotations"] = {"example.com/network": "blue"}
            await here.create_pods([*pods, pod("plain")])
            await here.bound(3)
            (waiting,) = [name for name, node in (await _places(here)).items() if not node]
            await here.condition(waiting, "network blue has no free address")
            free.append("10.0.0.3")
            await here.bound(4)
        addresses = {
            each["metadata"]["uid"]: (each["metadata"].get("annotations") or {}).get("example.com/address")
            for each in await here.pods()
            if each["metadata"]["name"] != "plain"
        }
        assert addresses == given
        assert "annotations" not in (await here.pod("plain"))["metadata"]


async def test_batch_pods_make_room_for_others(tmp_path: pathlib.Path) -> None:
    """A pod that finds no room is bound in place of as few batch pods as needed; batch pods themselves wait.

    The event names the pod that room was made for.
    """
    batch = {"example.com/tier": "spot-batch"}
    post_filter = {"disabled": [{"name": "*"}], "enabled": [{"name": "SpotBatch"}]}
    async with _cluster(tmp_path, 2) as here, _example(tmp_path, "spot-batch-python"):
        await here.start(
            configuration=_profile("SpotBatch", postFilter=post_filter),
            own=_remote(tmp_path, "SpotBatch", "postFilter"),
        )
        await here.create_pods(pod(f"b{number}", cpu="2", labels=batch) for number in range(8))
        await here.bound(8)
        await here.create_pods([pod("more", cpu="2", labels=batch)])
        await here.condition("more", "batch pods evict no others")
        await here.request("DELETE", "/api/v1/namespaces/default/pods/more?gracePeriodSeconds=0")
        await here.create_pods([pod("web", cpu="3")])

        async def placed() -> bool:
            return bool((await here.pod("web"))["spec"].get("nodeName"))

        await installation.until(placed, 40, lambda: here.story("web"))
        left = set(await _places(here)) - {"web"}
        assert len(left) == 6
        (gone, _) = sorted({f"b{number}" for number in range(8)} - left)
        (event,) = await here.reported_events_of(gone, "Preempted")
        assert (await here.pod("web"))["metadata"]["uid"] in event["note"]


async def test_a_free_place_goes_to_the_pod_whose_deadline_is_next(tmp_path: pathlib.Path) -> None:
    """Class of service, then deadline, decide who gets the one node, whatever the priorities."""
    queue_sort = {"enabled": [{"name": "DeadlineOrder"}], "disabled": [{"name": "*"}]}
    configuration = _profile("DeadlineOrder", queueSort=queue_sort, args={"classes": ["first", "standard"]})
    configuration |= {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}

    def waiting(name: str, deadline: str = "", **labels: str) -> dict[str, Any]:
        made = pod(name, cpu="5", labels=labels, priorityClassName="important" if name == "whenever" else "")
        made["metadata"]["annotations"] = {"example.com/deadline": deadline} if deadline else {}
        return made

    async with _cluster(tmp_path, 1) as here, _example(tmp_path, "deadline-order-rust"):
        await here.add_priority_class("important", 1000, preemptionPolicy="Never")
        await here.create_pods(
            [
                waiting("whenever"),
                waiting("later", "2030-01-02T00:00:00Z"),
                waiting("soon", "2030-01-01T00:00:00Z"),
                waiting("first", "2031-01-01T00:00:00Z", **{"example.com/service-class": "first"}),
            ]
        )
        await here.start(configuration=configuration, own=_remote(tmp_path, "DeadlineOrder", "queueSort"))
        assert await test_e2e_queue_sort.placed(here) == "first"
        for name in ("soon", "later", "whenever"):
            await here.condition(name, "Insufficient cpu")
        assert await test_e2e_queue_sort.free_place(here, "first") == "soon"
        assert await test_e2e_queue_sort.free_place(here, "soon") == "later"


async def test_a_learned_score_chooses_the_node_where_a_pod_is_slowed_down_least(tmp_path: pathlib.Path) -> None:
    """Pods avoid the busy node, also while their own placements make the others busier."""
    async with _cluster(tmp_path, 3) as here, _example(tmp_path, "learned-score-python"):
        await here.start(
            configuration=_profile("LearnedScore", "score"), own=_remote(tmp_path, "LearnedScore", "score")
        )
        busy = {"kubernetes.io/hostname": "node-1"}
        await here.create_pods([pod("busy", cpu="7", nodeSelector=busy)])
        await here.bound(1)
        await here.create_pods(pod(f"p{number}", cpu="1") for number in range(10))
        await here.bound(11)
        places = await _places(here)
        counts = collections.Counter(node for name, node in places.items() if name != "busy")
        assert counts.keys() == {"node-0", "node-2"}
        # There is room for eight.
        assert max(counts.values()) <= 6
