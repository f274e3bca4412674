"""Draws pods that no node takes: a restriction leaves a pod a few nodes or none, and on those something is short."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation import drawn_objects
from tests.simulation.scenarios import claim_kinds, filled_nodes
from tests.simulation.scenarios.compared_cluster import GROUPS, NODES, VOLUME_CLAIMS, VOLUMES
from tests.simulation.scenarios.comparison import Comparison

Json = dict[str, Any]

_ZONE, _HOSTNAME, _RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TAINTS: list[Json] = [
    {"key": "gpu", "value": "true", "effect": "NoSchedule"},
    {"key": "team", "value": "a", "effect": "NoExecute"},
    {"key": "team", "value": "b", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
]
# On how many nodes something is short.
_FEW = (1, 2, 3)
_SHARE_OF_GROUPS = 0.2


@dataclass(slots=True)
class PendingPod:
    """A pod as a manifest, and what keeps nodes from taking it."""

    cause: str
    spec: Json
    labels: dict[str, str]
    #: What make objects anew that the pod changes once it has a node.
    renewals: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    #: How many copies there are: the members of a group, or the pod alone.
    members: int = 1
    #: The names of the nodes that the restriction leaves to the pod.
    left: list[str] = field(default_factory=list)

    def manifest(self, name: str) -> Json:
        """The pod, by this name."""
        metadata = {"name": name, "namespace": "default", "labels": self.labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec}


async def draw_pending_pod(compared: Comparison) -> PendingPod:
    """Change the cluster so that a drawn pod pends, as a rule; all is undone before the next scenario."""
    draw = compared.draw
    # A label of its own: no workload has it.
    app = f"pending-{next(compared.numbers)}"
    pod = PendingPod("", _spec(compared, app), {"app": app})
    # With fewer taints there would be far fewer tolerations than other proposals.
    restriction = "taints" if draw.random() < 0.15 else draw.choice(sorted(_RESTRICTIONS))
    await _RESTRICTIONS[restriction](compared, pod)
    shortage = "nothing"
    if restriction == "none":
        shortage = draw.choice(("request", "host-port", "pods"))
    elif pod.left:
        shortage = draw.choice(sorted(_SHORTAGES))
    pod.cause = f"{restriction}, {shortage} short"
    if shortage != "nothing":
        await _SHORTAGES[shortage](compared, pod)
    if not pod.renewals and draw.random() < _SHARE_OF_GROUPS:
        await _make_group(compared, pod)
    return pod


async def _make_group(compared: Comparison, pod: PendingPod) -> None:
    """The pod is one of a few equal ones, which are scheduled together or not at all."""
    name, pod.members = f"together-{next(compared.numbers)}", compared.draw.choice((2, 3))
    pod.cause = f"{pod.members} members, {pod.cause}"
    pod.spec["schedulingGroup"] = {"podGroupName": name}
    priority = {field: pod.spec[field] for field in ("priorityClassName", "priority")}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": pod.members}}, **priority},
    }

    async def renew() -> None:
        await _remove_group(compared, name)
        await compared.cluster.create(GROUPS, group)
        await compared.cluster.until_seen()

    await renew()
    pod.renewals.append(renew)
    compared.afterwards(functools.partial(_remove_group, compared, name))


async def _remove_group(compared: Comparison, name: str) -> None:
    """Delete a group, if it is there."""
    if await compared.cluster.get(GROUPS, name) is not None:
        await compared.cluster.patch(GROUPS, name, {"metadata": {"finalizers": None}})
        await compared.delete_if_there(GROUPS, name)
        await compared.cluster.until_seen()


def _spec(compared: Comparison, app: str) -> Json:
    """What the pod is like without restriction: one of several arrangements of containers."""
    draw = compared.draw
    spec = compared.drawn.pod_spec(app)
    if draw.random() < 0.7:
        spec = {name: spec[name] for name in ("priorityClassName", "priority", "containers")}
    name = draw.choice(("low", "middle", "high", "high"))
    spec |= {"priorityClassName": name, "priority": drawn_objects.PRIORITIES[name]}
    if draw.random() < 0.85:
        # Else it preempts others where it may, and waits no longer.
        spec |= {"priorityClassName": f"{name}-never", "preemptionPolicy": "Never"}
    main = spec["containers"][0]
    main["resources"] = {"requests": {"cpu": draw.choice(("700m", "1500m", "1900m")), "memory": "1Gi"}}
    arrangement = draw.choice(("one", "one", "one", "two", "init", "sidecar", "of the pod"))
    other: Json = {**main, "name": "other", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    if arrangement == "two":
        spec["containers"] = [other, main]
    elif arrangement == "init":
        spec["initContainers"] = [{**main, "name": "init"}]
        spec["containers"] = [{**other, "name": "main"}]
    elif arrangement == "sidecar":
        spec["initContainers"] = [{**other, "restartPolicy": "Always"}]
    elif arrangement == "of the pod":
        spec["resources"] = main.pop("resources")
    return spec


# Restrictions


async def _leave_all(compared: Comparison, pod: PendingPod) -> None:
    """All nodes are left."""
    pod.left = await compared.nodes()


async def _select_nodes(compared: Comparison, pod: PendingPod) -> None:
    """A nodeSelector."""
    pod.spec["nodeSelector"] = {_RACK: await _labelled_rack(compared, pod)}


async def _require_nodes(compared: Comparison, pod: PendingPod) -> None:
    """Required node affinity: one requirement or two, one term or two."""
    rack, draw = await _labelled_rack(compared, pod), compared.draw
    by_label = {"key": _RACK, "operator": "In", "values": [rack]}
    others = ({"key": "disk", "operator": "Exists"}, {"key": "nobody", "operator": "DoesNotExist"})
    terms: list[Json] = [{"matchExpressions": draw.choice(([by_label], [others[0], by_label], [by_label, others[1]]))}]
    if draw.random() < 0.4:
        named = {"key": "metadata.name", "operator": "In", "values": [f"none-{rack}"]}
        terms.append({"matchExpressions": [others[0]], "matchFields": [named]})
    node_affinity = {_REQUIRED: {"nodeSelectorTerms": terms}}
    pod.spec["affinity"] = {**pod.spec.get("affinity", {}), "nodeAffinity": node_affinity}


async def _labelled_rack(compared: Comparison, pod: PendingPod) -> str:
    """The value of a label that a few nodes have now, or none."""
    rack = f"rack-{next(compared.numbers)}"
    pod.left = await _drawn_nodes(compared, (0, *_FEW))
    for name in pod.left:
        await filled_nodes.change_node(compared, name, {"metadata": {"labels": {_RACK: rack}}})
    return rack


async def _drawn_nodes(compared: Comparison, counts: Sequence[int]) -> list[str]:
    """The names of one of so many nodes."""
    return sorted(compared.draw.sample(await compared.nodes(), compared.draw.choice(counts)))


async def _taint_nodes(compared: Comparison, pod: PendingPod) -> None:
    """Nodes have taints, all but a few."""
    draw = compared.draw
    pod.left = await _drawn_nodes(compared, (0, *_FEW))
    pod.spec.pop("tolerations", None)
    for name in await compared.nodes():
        taints = [] if name in pod.left else draw.sample(_TAINTS, draw.choice((1, 1, 1, 2)))
        await filled_nodes.change_node(compared, name, {"spec": {"taints": taints}})


async def _be_near(compared: Comparison, pod: PendingPod) -> None:
    """Required pod affinity, to a pod on one node or to none."""
    draw, app, key = compared.draw, f"near-{next(compared.numbers)}", draw_key(compared)
    near = await _drawn_nodes(compared, (0, 1))
    await filled_nodes.place(compared, [(name, {"cpu": "1m"}, "high", {"app": app}) for name in near])
    pod.left = [name for name in await compared.nodes() if await _is_beside(compared, name, near, key)]
    _require(pod, "podAffinity", app, key, draw.random() < 0.3)


async def _be_away(compared: Comparison, pod: PendingPod) -> None:
    """Required pod anti-affinity to pods that most nodes or zones have."""
    draw, app, key = compared.draw, f"away-{next(compared.numbers)}", draw_key(compared)
    spared = await _drawn_nodes(compared, (0, *_FEW))
    domains = {await _domain(compared, name, key): name for name in await compared.nodes()}
    free = {await _domain(compared, name, key) for name in spared}
    priority = draw.choice(("low", "middle", "high"))
    taken = [name for domain, name in sorted(domains.items()) if domain not in free]
    await filled_nodes.place(compared, [(name, {"cpu": "1m"}, priority, {"app": app}) for name in taken])
    pod.left = [name for name in await compared.nodes() if await _domain(compared, name, key) in free]
    _require(pod, "podAntiAffinity", app, key, draw.random() < 0.3)


def _require(pod: PendingPod, kind: str, app: str, key: str, twice: bool) -> None:
    """Add a required term to pods of a label; `twice`: behind one that hinders nothing, or only helps itself."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    own = {"topologyKey": _HOSTNAME, "labelSelector": {"matchLabels": dict(pod.labels)}}
    terms = [own, term] if twice else [term]
    pod.spec["affinity"] = {**pod.spec.get("affinity", {}), kind: {_REQUIRED: terms}}


def draw_key(compared: Comparison) -> str:
    """The label of a kind of domain."""
    return compared.draw.choice((_ZONE, _HOSTNAME))


async def _domain(compared: Comparison, name: str, key: str) -> str:
    """The node's value of a label."""
    node = await compared.cluster.get(NODES, name)
    assert node is not None
    return str(node["metadata"]["labels"][key])


async def _is_beside(compared: Comparison, name: str, near: Sequence[str], key: str) -> bool:
    """Whether a node is in the domain of one of the others."""
    return await _domain(compared, name, key) in [await _domain(compared, other, key) for other in near]


async def _spread(compared: Comparison, pod: PendingPod) -> None:
    """A spread constraint over zones: pods are in all but one of them, or in all, which are too few."""
    draw = compared.draw
    zones = {await _domain(compared, name, _ZONE): name for name in await compared.nodes()}
    open_zones = draw.sample(sorted(zones), draw.choice((0, 1)))
    taken = [(name, {"cpu": "1m"}, "low", dict(pod.labels)) for zone, name in zones.items() if zone not in open_zones]
    await filled_nodes.place(compared, taken)
    constraint: Json = {
        "maxSkew": 1,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(pod.labels)},
        "nodeTaintsPolicy": draw.choice(("Honor", "Ignore")),
    }
    if not open_zones:
        constraint["minDomains"] = len(zones) + 1
    pod.spec["topologySpreadConstraints"] = [constraint]
    pod.left = [name for name in await compared.nodes() if await _domain(compared, name, _ZONE) in open_zones]


async def _bound_volume(compared: Comparison, pod: PendingPod) -> None:
    """A claim that is bound to a volume of a node or a zone."""
    compared.afterwards(functools.partial(claim_kinds.remove_volumes, compared))
    node = await compared.cluster.get(NODES, compared.draw.choice(await compared.nodes()))
    assert node is not None
    volume = claim_kinds.volume(compared, node, "at-once", "10Gi")
    claim = claim_kinds.volume_claim(compared, "at-once", "1Gi")
    await compared.cluster.create(VOLUMES, volume)
    await compared.cluster.create(VOLUME_CLAIMS, claim)
    await claim_kinds.until_bound(compared)
    await _leave_nodes_of_volumes(compared, pod, [volume], [claim])


async def _volume_to_bind(compared: Comparison, pod: PendingPod) -> None:
    """A claim that is bound with its pod, and volumes on a few nodes."""
    compared.afterwards(functools.partial(claim_kinds.remove_volumes, compared))
    names = await _drawn_nodes(compared, _FEW)
    nodes = [node for node in await compared.cluster.list(NODES) if node["metadata"]["name"] in names]
    volumes = [claim_kinds.volume(compared, node, "later", "10Gi") for node in nodes]
    claim = claim_kinds.volume_claim(compared, "later", "4Gi")

    async def renew() -> None:
        await claim_kinds.remove_volumes(compared)
        for volume in volumes:
            await compared.cluster.create(VOLUMES, volume)
        await compared.cluster.create(VOLUME_CLAIMS, claim)
        await compared.cluster.until_seen()

    await renew()
    pod.renewals.append(renew)
    await _leave_nodes_of_volumes(compared, pod, volumes, [claim])


async def _leave_nodes_of_volumes(
    compared: Comparison, pod: PendingPod, volumes: Sequence[Json], claims: Sequence[Json]
) -> None:
    """Have the pod use the claims; the nodes of the volumes are left."""
    pod.spec["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for number, claim in enumerate(claims)
    ]
    for volume in volumes:
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        for name in await compared.nodes():
            if await _domain(compared, name, expression["key"]) in expression["values"]:
                pod.left.append(name)


async def _devices(compared: Comparison, pod: PendingPod) -> None:
    """A claim for devices, which a few nodes have."""
    compared.afterwards(functools.partial(claim_kinds.remove_devices, compared))
    pod.left = await _drawn_nodes(compared, _FEW)
    slices = [claim_kinds.device_slice(compared, name) for name in pod.left]
    claim = claim_kinds.device_claim(compared)

    async def renew() -> None:
        await claim_kinds.remove_devices(compared)
        for each in slices:
            await compared.cluster.create(claim_kinds.SLICES, each)
        await compared.cluster.create(claim_kinds.CLAIMS, claim)
        await compared.cluster.until_seen()

    await renew()
    pod.renewals.append(renew)
    pod.spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]


# Shortages


async def _request_much(compared: Comparison, pod: PendingPod) -> None:
    """The pod requests more than any node has."""
    resource, amount = compared.draw.choice((("cpu", "9"), ("cpu", "7900m"), ("memory", "17Gi"), ("memory", "40Gi")))
    _largest_requests(pod)[resource] = amount
    if amount == "7900m":
        # Nodes of this size have other pods.
        await filled_nodes.fill(compared, await compared.nodes(), "cpu", ("low", "middle"), 7600)


def _largest_requests(pod: PendingPod) -> Json:
    """The requests of the container that requests most, or of the pod."""
    holders = [pod.spec, *pod.spec.get("initContainers", ()), *pod.spec["containers"]]
    found: list[Json] = [each["resources"]["requests"] for each in holders if "resources" in each]
    return max(found, key=lambda requests: filled_nodes.amount(requests["cpu"]))


async def _fill_cpu(compared: Comparison, pod: PendingPod) -> None:
    """Other pods request nearly all cpu."""
    await filled_nodes.fill(compared, pod.left, "cpu", ("low", "low", "middle", "high"), compared.draw.choice((0, 600)))


async def _fill_memory(compared: Comparison, pod: PendingPod) -> None:
    """Other pods request nearly all memory."""
    left = compared.draw.choice((0, 600 * 2**20))
    await filled_nodes.fill(compared, pod.left, "memory", ("low", "middle"), left)


async def _take_port(compared: Comparison, pod: PendingPod) -> None:
    """Other pods have the host port."""
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    pod.spec["containers"][0]["ports"] = ports
    priorities = [compared.draw.choice(("low", "middle")) for _ in pod.left]
    placed = [(name, {"cpu": "1m"}, priority, {}) for name, priority in zip(pod.left, priorities, strict=True)]
    await filled_nodes.place(compared, placed, ports)


async def _limit_pods(compared: Comparison, pod: PendingPod) -> None:
    """Nodes have as many pods as they may have."""
    for name in pod.left:
        count = {"pods": str(len(await compared.names_on(name)))}
        change = {"status": {"allocatable": count, "capacity": count}}
        await filled_nodes.change_node(compared, name, change, "status")


async def _use_gpus(compared: Comparison, pod: PendingPod) -> None:
    """The extended resource that the pod requests is used by others, or is less on each node."""
    for name in pod.left:
        size = {filled_nodes.GPU: compared.draw.choice(("1", "2"))}
        change = {"status": {"allocatable": size, "capacity": size}}
        await filled_nodes.change_node(compared, name, change, "status")
    used = [
        (name, {"cpu": "1m", filled_nodes.GPU: "1"}, compared.draw.choice(("low", "high")), {}) for name in pod.left
    ]
    await filled_nodes.place(compared, used)
    count = {filled_nodes.GPU: compared.draw.choice(("2", "3"))}
    resources = pod.spec["containers"][0].setdefault("resources", {})
    resources["requests"] = resources.get("requests", {}) | count
    resources["limits"] = count


_RESTRICTIONS: dict[str, Callable[[Comparison, PendingPod], Awaitable[None]]] = {
    "none": _leave_all,
    "node selector": _select_nodes,
    "node affinity": _require_nodes,
    "taints": _taint_nodes,
    "pod affinity": _be_near,
    "pod anti-affinity": _be_away,
    "spread": _spread,
    "bound volume": _bound_volume,
    "volume to bind": _volume_to_bind,
    "devices": _devices,
}
_SHORTAGES: dict[str, Callable[[Comparison, PendingPod], Awaitable[None]]] = {
    "request": _request_much,
    "cpu": _fill_cpu,
    "memory": _fill_memory,
    "host-port": _take_port,
    "pods": _limit_pods,
    "gpu": _use_gpus,
}
