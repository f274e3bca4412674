"""The kinds of scenario: each draws one, asks insight, makes it happen, and compares."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.scenarios import (
    acted_controllers,
    claim_kinds,
    compared_cluster,
    configurations,
    drawn_objects,
    pool_plugin,
    proposal_kind,
)
from tests.simulation.scenarios.compared_cluster import BUDGETS, GROUPS, NODES, PODS
from tests.simulation.scenarios.comparison import Comparison, compare_new_pods, names_of_pods

Json = dict[str, Any]

# Pods that a workload has in the end.
_MOST = 5


async def compare_pods(compared: Comparison) -> None:
    """Pods of several kinds at once; perhaps a node is added, or one is cordoned."""
    cluster, draw = compared.cluster, compared.draw
    changes: list[Json] = []
    added = [compared.drawn.node()] if draw.random() < 0.2 else []
    changes += [{"addNodes": {"manifest": node}} for node in added]
    gone = draw.choice(await compared.nodes()) if draw.random() < 0.2 else ""
    if gone:
        node = await cluster.get(NODES, gone)
        assert node is not None
        node["spec"]["unschedulable"] = True
        changes.append({"apply": {"manifest": manifest_of(node)}})
    pods = compared.drawn.pods()
    changes += [{"addPods": {"manifest": pod}} for pod in pods]
    before = await names_of_pods(compared)
    answer = await compared.ask(changes)
    async with cluster.held():
        for node in added:
            await cluster.create(NODES, node)
        if gone:
            await compared.controllers.cordon(gone)
        await cluster.until_seen()
        for pod in pods:
            await cluster.create(PODS, pod)
    await compared.controllers.settle(compared.order_of(answer))
    await compared.compare(answer, before)


async def compare_drain(compared: Comparison) -> None:
    """One or two nodes are drained; some workloads have budgets, or get some, or are scaled before."""
    draw, controllers = compared.draw, compared.controllers
    added = compared.draw_budgets(draw.choice((0, 2, 4)))
    late = added if draw.random() < 0.3 else []
    if not late:
        await compared.create_budgets(added)
    changes: list[Json] = [{"apply": {"manifest": budget}} for budget in late]
    scaled = await draw_workload(compared) if draw.random() < 0.4 else None
    replicas = draw.choice((1, 3, 6))
    if scaled is not None:
        changes.append({"scale": scale_of(scaled, replicas)})
    nodes = draw.sample(await compared.nodes(), draw.choice((1, 1, 2)))
    before = await names_of_pods(compared)
    answer = await compared.ask([*changes, {"drain": {"nodeNames": nodes}}])
    await compared.create_budgets(late)
    if scaled is not None:
        async with compared.cluster.held():
            await controllers.scale(scaled, replicas)
        await controllers.settle(compared.order_of(answer))
    blocked = await controllers.drain(nodes, compared.order_of(answer))
    await compared.compare(answer, before, blocked=blocked)


async def draw_workload(compared: Comparison) -> acted_controllers.Workload:
    """A workload that has pods."""
    pods = await compared.cluster.list(PODS)
    owners = {each["name"] for pod in pods for each in pod["metadata"].get("ownerReferences", ())}
    workloads = compared.controllers.workloads
    return workloads[compared.draw.choice(sorted(owners & workloads.keys()))]


def scale_of(workload: acted_controllers.Workload, replicas: int) -> Json:
    """The change that scales a workload."""
    kind = "deployment" if workload.deployment else workload.kind.lower()
    name = workload.deployment or workload.name
    return {"kind": kind, "namespace": "default", "name": name, "replicas": replicas}


async def compare_scale(compared: Comparison) -> None:
    """A workload gets more pods, or fewer, or none."""
    controllers = compared.controllers
    workload = await draw_workload(compared)
    replicas = compared.draw.choice((0, 1, 2, 4, 8, 12))
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in await compared.cluster.list(PODS)}
    answer = await compared.ask([{"scale": scale_of(workload, replicas)}])
    async with compared.cluster.held():
        left = await controllers.scale(workload, replicas)
    await controllers.settle(compared.order_of(answer))
    compared.afterwards(functools.partial(shrink, compared, workload))
    await compared.compare(answer, nodes)
    said = {entry.name: entry.requested for entry in answer.after.resources}
    actual = await requested_cpu(compared)
    if said["cpu"] != actual:
        compared.findings.differ(
            f"pods request {actual} of cpu, not {said['cpu']}, after {[(n, nodes[n]) for n in left]} left"
        )


async def shrink(compared: Comparison, workload: acted_controllers.Workload) -> None:
    """Let a workload have no more pods than others."""
    if workload.name in compared.controllers.workloads and workload.replicas > _MOST:
        async with compared.cluster.held():
            await compared.controllers.scale(workload, _MOST)


async def requested_cpu(compared: Comparison) -> int:
    """What pods on nodes request, in millicores."""
    requests = (
        pod["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu", "0")
        for pod in await compared.cluster.list(PODS)
        if pod["spec"].get("nodeName")
    )
    return sum(int(each[:-1]) if each.endswith("m") else 1000 * int(each) for each in requests)


async def compare_delete(compared: Comparison) -> None:
    """A node is deleted with its pods, or pods are, or a budget before nodes are drained."""
    cluster, controllers, draw = compared.cluster, compared.controllers, compared.draw
    what = draw.choice(("node", "pods", "budget"))
    if what == "budget":
        await _compare_deleted_budget(compared)
        return
    pods = {pod["metadata"]["name"]: pod for pod in await cluster.list(PODS)}
    before = list(pods)
    if what == "node":
        name = draw.choice(await compared.nodes())
        answer = await compared.ask([{"delete": {"kind": "node", "name": name}}])
        order = [each.replaces.name for each in answer.placements if each.HasField("replaces")]
        leaving = [each for each, pod in pods.items() if pod["spec"].get("nodeName") == name]
        leaving.sort(key=lambda each: order.index(each) if each in order else len(order))
    else:
        leaving = draw.sample(sorted(pods), min(len(pods), draw.choice((1, 3, 6))))
        answer = await compared.ask(
            [{"delete": {"kind": "pod", "namespace": "default", "name": each}} for each in leaving]
        )
    async with cluster.held():
        if what == "node":
            await cluster.delete(NODES, name)
        for each in leaving:
            await cluster.delete(PODS, each)
            await controllers.replace(pods[each])
    await controllers.settle(compared.order_of(answer))
    await compared.compare(answer, before)


async def _compare_deleted_budget(compared: Comparison) -> None:
    """A budget is deleted, then nodes are drained."""
    await compared.add_budgets(3)
    budget = compared.draw.choice([each["metadata"]["name"] for each in await compared.cluster.list(BUDGETS)])
    nodes = compared.draw.sample(await compared.nodes(), 2)
    delete = {"kind": "pod_disruption_budget", "namespace": "default", "name": budget}
    before = await names_of_pods(compared)
    answer = await compared.ask([{"delete": delete}, {"drain": {"nodeNames": nodes}}])
    await compared.cluster.delete(BUDGETS, budget)
    await compared.cluster.until_seen()
    blocked = await compared.controllers.drain(nodes, compared.order_of(answer))
    await compared.compare(answer, before, blocked=blocked)


async def compare_how_many(compared: Comparison) -> None:
    """How many copies of a pod fit, and on which nodes."""
    draw = compared.draw
    app = f"app-{draw.randrange(4)}"
    spec = compared.drawn.pod_spec(app)
    spec["containers"][0]["resources"]["requests"]["cpu"] = draw.choice(("700m", "1500m", "4"))
    # Copies do not make room for each other.
    spec |= {"priorityClassName": f"{spec['priorityClassName']}-never", "preemptionPolicy": "Never"}
    pod = compared.drawn.pod(app, spec)
    answer = await compared.ask(howMany={"manifest": pod})
    copies = [compared.drawn.pod(app, spec) for _ in range(answer.capacity.pods + 3)]
    async with compared.cluster.held():
        for copy in copies:
            await compared.cluster.create(PODS, copy)
    after = {each["metadata"]["name"]: each for each in await compared.controllers.settle()}
    nodes = [after[copy["metadata"]["name"]]["spec"].get("nodeName", "") for copy in copies]
    compared.findings.count({copy["metadata"]["name"]: node for copy, node in zip(copies, nodes, strict=True)})
    said = {each.node_name: each.pods for each in answer.capacity.nodes}
    actual = {node: nodes.count(node) for node in nodes if node}
    if said != actual or answer.capacity.pods != sum(actual.values()):
        compared.findings.differ(f"{sum(actual.values())} copies of {json.dumps(spec)} fit, {actual}, not {said}")


async def compare_compact(compared: Comparison) -> None:
    """A plan is carried out, node by node."""
    controllers = compared.controllers
    await compared.add_budgets(compared.draw.choice((0, 2)))
    answer = await compared.ask(compaction={"maxNodes": 3, "maxTried": 8})
    async with compared.cluster.held():
        for name in answer.cordoned:
            await controllers.cordon(name)
    names: dict[str, str] = {}
    for move in answer.moves:
        order = [names.get(each.replaces.name, each.replaces.name) for each in move.placements]
        before = {each["metadata"]["name"]: each for each in await compared.cluster.list(PODS)}
        blocked = await controllers.drain([move.node_name], order)
        after = {each["metadata"]["name"]: each for each in await compared.cluster.list(PODS)}
        if blocked or await compared.names_on(move.node_name):
            compared.findings.differ(
                f"{move.node_name} is not empty: {await compared.names_on(move.node_name)} {blocked}"
            )
        for each, left in zip(move.placements, order, strict=True):
            name = controllers.happened.replaced.get(before[left]["metadata"]["uid"], "")
            names[each.pod.name] = name
            node = after[name]["spec"].get("nodeName", "") if name in after else ""
            compared.findings.counts["placed"] += bool(node)
            if node != each.node_name:
                compared.findings.differ(
                    f"{name} in place of {left} is on {node or 'no node'}, not on {each.node_name}"
                )
    compared.findings.counts["emptied nodes"] += len(answer.moves)


async def compare_preemption(compared: Comparison) -> None:
    """Pods of high priority need room that workloads with disruption budgets have."""
    draw = compared.draw
    await compared.add_budgets(draw.choice((2, 3, 4)))
    app = f"app-{draw.randrange(4)}"
    spec = compared.drawn.pod_spec(app)
    spec |= {"priorityClassName": "high", "priority": drawn_objects.PRIORITIES["high"]}
    spec["containers"][0]["resources"]["requests"]["cpu"] = draw.choice(("1500m", "3", "5"))
    pods = [compared.drawn.pod(app, spec) for _ in range(draw.choice((1, 1, 4, 12)))]
    await compare_new_pods(compared, pods)


async def compare_configuration(compared: Comparison) -> None:
    """The pods of another configuration, which a second Trireme has: plugins' arguments, weights, plugins left out."""
    profile, without = compared.draw.choice(configurations.ASKED)
    await _compare_other_profile(compared, profile, without)


async def compare_remote_plugin(compared: Comparison) -> None:
    """A remote plugin that the scheduler's own profile does not have takes part, or is left out of one that has it."""
    profile, without = compared.draw.choice(configurations.ASKED_REMOTE)
    await _compare_other_profile(compared, profile, without)


async def _compare_other_profile(compared: Comparison, profile: str, without: str) -> None:
    """Pods of a profile of the second Trireme, which insight gets as by `--config` and `--without-plugin`."""
    pods = compared.drawn.pods()
    for pod in pods:
        # Nobody is preempted: the first Trireme would place the pods that come for those that left, beside the second.
        named = f"{pod['spec']['priorityClassName']}-never"
        never = {"priorityClassName": named, "preemptionPolicy": "Never"}
        pod["spec"] = {**pod["spec"], **never, "schedulerName": profile}
        if compared.draw.random() < 0.5:
            pod["metadata"]["labels"]["team"] = str(compared.draw.randrange(pool_plugin.TEAMS))
    asked = compared_cluster.wanted_profiles(compared.cluster.folder, configurations.ASKED_PROFILES)
    question: Json = {**asked, **({"withoutPlugins": [without]} if without else {})}
    await compare_new_pods(compared, pods, **question)


async def compare_groups(compared: Comparison) -> None:
    """Groups of pods that go all or none, beside single pods."""
    draw = compared.draw
    changes, pods = [], []
    for _ in range(draw.choice((1, 2))):
        name = f"group-{next(compared.numbers)}"
        count = draw.choice((2, 3, 5, 9))
        policy = {"gang": {"minCount": max(1, count - draw.choice((0, 0, 1, 2)))}}
        app = f"app-{draw.randrange(4)}"
        spec = {**compared.drawn.pod_spec(app), "schedulingGroup": {"podGroupName": name}}
        spec["containers"][0]["resources"]["requests"]["cpu"] = draw.choice(("500m", "1500m", "3"))
        # The priority of a group is that of its pods.
        priority = {"priorityClassName": spec["priorityClassName"], "priority": spec["priority"]}
        group = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulingPolicy": policy, **priority},
        }
        changes.append({"apply": {"manifest": group}})
        compared.afterwards(functools.partial(remove_group, compared, name))
        pods += [compared.drawn.pod(app, spec) for _ in range(count)]
    if draw.random() < 0.5:
        pods += compared.drawn.pods()
    await compare_new_pods(compared, pods, changes)


async def remove_group(compared: Comparison, name: str) -> None:
    """Delete a group with its pods."""
    for pod in await compared.cluster.list(PODS):
        if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == name:
            await compared.cluster.delete(PODS, pod["metadata"]["name"])
    if await compared.cluster.get(GROUPS, name) is not None:
        await compared.cluster.patch(GROUPS, name, {"metadata": {"finalizers": None}})
        await compared.delete_if_there(GROUPS, name)


def manifest_of(stored: Json) -> Json:
    """An object as the API returns it, as a manifest."""
    metadata = {name: value for name, value in stored["metadata"].items() if name in ("name", "namespace", "labels")}
    return {"apiVersion": "v1", **stored, "metadata": metadata}


KINDS: dict[str, Callable[[Comparison], Awaitable[None]]] = {
    "pods": compare_pods,
    "drain": compare_drain,
    "scale": compare_scale,
    "delete": compare_delete,
    "how-many": compare_how_many,
    "compact": compare_compact,
    "preemption": compare_preemption,
    "configuration": compare_configuration,
    "remote-plugin": compare_remote_plugin,
    "groups": compare_groups,
    "volumes": claim_kinds.compare_volumes,
    "devices": claim_kinds.compare_devices,
    "proposals": proposal_kind.compare_proposals,
}
