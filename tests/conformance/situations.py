"""Random situations from scratch: clusters and pods with what the plugins look at, in many shapes.

`situation` first draws which matters a situation is about (resources, spread, volumes, …), so that some of them meet,
and then everything else from few values, so that things collide: three zones, four colours, ports and priorities that
others have too. What it makes an API server would take, but it goes further than golden data do: quantities in every
notation, nodes without labels, terms without selectors, claims that nobody has.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance import (
    situation_arguments,
    situation_devices,
    situation_faults,
    situation_oddities,
    situation_rarities,
    situation_volumes,
)
from tests.conformance.golden_rows import Row

Json = dict[str, Any]

LABELS = {
    "app": ("web", "db", "cache", "job"),
    "tier": ("front", "back"),
    "color": ("red", "green", "blue"),
    "track": ("stable", "canary"),
}
NAMESPACES = ("default", "other", "third")
IMAGES = ("app:v1", "db:v2", "ml:v3", "small:v1", "big", "port:5000/none:v1")
_SIZES = (10 << 20, 23 << 20, 300 << 20, 900 << 20, 3 << 30, 0)
MATTERS = (
    "resources",
    "scalars",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
    "spread",
    "defaultspread",
    "interpod",
    "volumes",
    "limits",
    "features",
    "nominated",
    "preemption",
    "scarcity",
    "resize",
    "devices",
    "oddities",
    "faults",
    "rarities",
)
# How often a pod is placed only if others go, and what may be the reason beside a full node.
CONTESTED = 0.2
REASONS_TO_GO = (
    "interpod",
    "ports",
    "volumes",
    "limits",
    "spread",
    "nominated",
    "devices",
    "scalars",
    "oddities",
    "rarities",
)
CPU = ("10m", "50m", "100m", "0.2", "250m", "0.5", "1", "1500m", "2", "3", "1e-1", "0", "0.0005")
MEMORY = ("16Mi", "64Mi", "100M", "128Mi", "2e8", "0.1Gi", "0.5Gi", "1Gi", "2G", "1e9", "4Gi", "0", "1.5Gi", "1500000k")
SCALARS = {
    "example.com/gpu": ("0", "1", "2", "3", "8"),
    "hugepages-2Mi": ("0", "128Mi", "512Mi", "1Gi"),
    "ephemeral-storage": ("100Mi", "2Gi", "20Gi"),
}
FEATURES = (
    "VolumeBindMountOptions",
    "ExtendWebSocketsToKubelet",
    "RestartAllContainersOnContainerExits",
    "InPlacePodLevelResourcesVerticalScaling",
    "UserNamespacesHostNetworkSupport",
    "SomethingNewer",
)
PRIORITIES = (0, 10, 50, 100, 500)
TOPOLOGY = ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack")
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PORTS = (80, 443, 8080, 0)


def situation(draw: random.Random, name: str) -> Row:
    """One situation."""
    matters = frozenset(draw.sample(MATTERS, draw.choice((1, 1, 2, 2, 3, 4, 6))))
    if draw.random() < CONTESTED:
        matters = frozenset(("preemption", "scarcity", *draw.sample(REASONS_TO_GO, draw.choice((0, 1, 1, 2)))))
    return _Situation(draw, matters).row("+".join(sorted(matters)), name)


class _Situation:
    def __init__(self, draw: random.Random, matters: frozenset[str]) -> None:
        self._draw = draw
        self._matters = matters
        self._contested = {"preemption", "scarcity"} <= matters
        size = draw.choice((1, 2, 3, 4) if self._contested else (1, 2, 3, 5, 7, 9, 12))
        self._node_names = [f"n{number:02}" for number in range(size)]

    def row(self, about: str, name: str) -> Row:
        """The situation as a row."""
        draw = self._draw
        count = draw.choice((5, 10, 20, 40) if self._contested else (0, 2, 5, 10, 20, 40, 90))
        case: Json = {
            "name": f"{about}-{name}",
            "nodes": [self._node(node) for node in self._node_names],
            "pods": [self._placed(f"p{number:02}") for number in range(count)],
            "pod": self._pod("incoming", True),
            "namespaces": [self._namespace(namespace) for namespace in NAMESPACES if self._often(0.95)],
        }
        if self._is("defaultspread"):
            case["services"] = [self._service(f"s{number}") for number in range(draw.choice((1, 2, 3)))]
        if self._is("preemption"):
            case["podDisruptionBudgets"] = [self._budget(f"b{number}") for number in range(draw.randrange(3))]
            case["pod"]["spec"]["priority"] = draw.choice((100, 500, 1000))
            if self._often(0.1):
                case["pod"]["spec"]["preemptionPolicy"] = draw.choice(("Never", "PreemptLowerPriority"))
            if self._contested:
                requests = {"cpu": draw.choice(("0.5", "1", "1500m", "2")), "memory": "64Mi"}
                case["pod"]["spec"]["containers"] = [{"name": "c0", "image": "x", "resources": {"requests": requests}}]
        if self._is("nominated"):
            case["nominated"] = [self._nominated(f"w{number}") for number in range(draw.choice((1, 2, 4)))]
            if self._often(0.2):
                case["pod"]["status"]["nominatedNodeName"] = draw.choice(self._node_names)
        if self._is("volumes", "limits"):
            situation_volumes.add(draw, case, self._is("limits"))
        if self._is("devices"):
            situation_devices.add(draw, case)
        if self._is("oddities"):
            situation_oddities.add(draw, case)
        if self._is("rarities"):
            situation_rarities.add(draw, case)
        if self._is("faults"):
            situation_faults.add(draw, case)
        if self._often(0.1):
            case["fitStrategy"] = "MostAllocated"
        elif self._often(0.3):
            choices = [one for matter in sorted(self._matters) for one in situation_arguments.ARGUMENTS.get(matter, ())]
            if choices:
                case["pluginConfig"] = draw.choice(choices)
        return {"name": case["name"], "case": case}

    def _is(self, *matters: str) -> bool:
        return not self._matters.isdisjoint(matters)

    def _often(self, chance: float) -> bool:
        return self._draw.random() < chance

    def _some(self, values: Sequence[Any], most: int = 3, least: int = 0) -> list[Any]:
        return self._draw.sample(list(values), min(len(values), self._draw.randint(least, most)))

    # --- the cluster

    def _node(self, name: str) -> Json:
        draw = self._draw
        labels = {"kubernetes.io/hostname": name}
        if self._often(0.85):
            labels["topology.kubernetes.io/zone"] = draw.choice(("za", "zb", "zc"))
        if self._often(0.8):
            labels["topology.kubernetes.io/region"] = draw.choice(("r1", "r1", "r2"))
        for key, values in (("disk", ("ssd", "hdd")), ("gen", ("1", "5", "07", "x")), ("rack", ("k1", "k2", "k3"))):
            if self._often(0.6):
                labels[key] = draw.choice(values)
        if self._often(0.03):
            del labels["kubernetes.io/hostname"]
        status: Json = {"allocatable": self._allocatable()}
        spec: Json = {}
        if self._is("taints") and self._often(0.6):
            spec["taints"] = [self._taint() for _ in range(draw.choice((1, 1, 2, 3)))]
        if self._is("taints") and self._often(0.15):
            spec["unschedulable"] = True
            if self._often(0.5):
                spec.setdefault("taints", []).append({"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
        if self._is("images") and self._often(0.8):
            status["images"] = [self._node_image(image) for image in self._some(IMAGES, 4)]
        if self._is("features"):
            status["declaredFeatures"] = sorted(self._some(FEATURES, 6))
        return _object("v1", "Node", {"name": name, "labels": labels}, spec=spec, status=status)

    def _allocatable(self) -> Json:
        draw = self._draw
        tight = self._is("preemption", "scarcity")
        amounts = {
            "cpu": draw.choice(("1", "2", "4") if tight else ("1", "2", "4", "7500m", "16", "0.5")),
            "memory": draw.choice(("1Gi", "4Gi", "8Gi") if tight else ("1Gi", "4Gi", "8Gi", "30Gi", "64G", "2000M")),
            "pods": draw.choice(("2", "5", "8", "110") if tight else ("8", "110", "110")),
        }
        if self._is("scalars"):
            amounts |= {name: draw.choice(values) for name, values in SCALARS.items() if self._often(0.7)}
        if self._often(0.03):
            del amounts[draw.choice(sorted(amounts))]
        return amounts

    def _taint(self) -> Json:
        draw = self._draw
        effect = draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        return {
            "key": draw.choice(("gpu", "flaky", "dedicated")),
            "value": draw.choice(("", "a", "b")),
            "effect": effect,
        }

    def _node_image(self, image: str) -> Json:
        names = [f"registry.example/{image}{'' if ':' in image else ':latest'}"]
        if self._often(0.3):
            names.append(f"registry.example/{image.partition(':')[0]}@sha256:aa")
        # All nodes report the same size: of several, kube-scheduler takes the one that it happens to see first.
        return {"names": names, "sizeBytes": _SIZES[IMAGES.index(image)]}

    def _namespace(self, name: str) -> Json:
        labels = {"kubernetes.io/metadata.name": name}
        if self._often(0.6):
            labels["team"] = self._draw.choice(("a", "b"))
        return _object("v1", "Namespace", {"name": name, "labels": labels})

    def _service(self, name: str) -> Json:
        metadata = {"name": name, "namespace": self._draw.choice(("default", "default", "other"))}
        spec: Json = {"ports": [{"port": 80}]}
        if self._often(0.9):
            spec["selector"] = self._match_labels(2)
        return _object("v1", "Service", metadata, spec=spec)

    def _budget(self, name: str) -> Json:
        selector = self._selector() if self._often(0.9) else {}
        metadata = {"name": name, "namespace": self._draw.choice(("default", "default", "other"))}
        status: Json = {"disruptionsAllowed": self._draw.choice((0, 1, 2))}
        if self._often(0.1):
            status["disruptedPods"] = {"p01": "2026-01-01T00:00:00Z"}
        return _object("policy/v1", "PodDisruptionBudget", metadata, spec={"selector": selector}, status=status)

    # --- pods

    def _placed(self, name: str) -> Json:
        draw = self._draw
        pod = self._pod(name, False)
        pod["spec"]["nodeName"] = draw.choice(self._node_names)
        pod["status"] = {"phase": "Running"}
        if self._often(0.9):
            pod["status"]["startTime"] = f"2026-01-{draw.randint(1, 28):02}T{draw.randint(0, 23):02}:00:00Z"
        if self._often(0.05):
            pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
            if self._often(0.5):
                reason = draw.choice(("PreemptionByScheduler", "EvictionByEvictionAPI"))
                pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": reason}]
        if self._is("resize") and self._often(0.5):
            self._resize(pod)
        return pod

    def _resize(self, pod: Json) -> None:
        draw = self._draw
        statuses = []
        containers = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
        for container in containers:
            amounts = {"cpu": draw.choice(CPU), "memory": draw.choice(MEMORY)}
            said: Json = {"name": container["name"], "ready": True, "restartCount": 0, "image": "", "imageID": ""}
            if self._often(0.7):
                said["allocatedResources"] = dict(amounts)
            if self._often(0.7):
                said["resources"] = {"requests": {"cpu": draw.choice(CPU), "memory": draw.choice(MEMORY)}}
            statuses.append((container, said))
        main = len(pod["spec"]["containers"])
        pod["status"]["containerStatuses"] = [said for _, said in statuses[:main]]
        if statuses[main:]:
            pod["status"]["initContainerStatuses"] = [said for _, said in statuses[main:]]
        if self._often(0.5):
            reason = draw.choice(("Infeasible", "Deferred"))
            condition = {"type": "PodResizePending", "status": "True", "reason": reason}
            pod["status"].setdefault("conditions", []).append(condition)
        if "resources" in pod["spec"] and self._often(0.7):
            pod["status"]["resources"] = {"requests": {"cpu": draw.choice(CPU)}}
            pod["status"]["allocatedResources"] = {"cpu": draw.choice(CPU), "memory": draw.choice(MEMORY)}

    def _nominated(self, name: str) -> Json:
        pod = self._pod(name, False)
        pod["spec"]["priority"] = self._draw.choice((0, 10, 100, 500, 1000))
        pod["status"] = {"phase": "Pending", "nominatedNodeName": self._draw.choice(self._node_names)}
        return pod

    def _pod(self, name: str, waits: bool) -> Json:
        draw = self._draw
        labels = {key: draw.choice(values) for key, values in LABELS.items() if self._often(0.75)}
        namespace = "default" if waits or self._often(0.75) else draw.choice(NAMESPACES)
        metadata: Json = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
        spec: Json = {"schedulerName": "default-scheduler"}
        spec["containers"] = [self._container(f"c{number}") for number in range(draw.choice((1, 1, 1, 2, 3)))]
        if self._is("resources", "scalars", "resize") and self._often(0.4):
            spec["initContainers"] = [self._init(f"i{number}") for number in range(draw.choice((1, 2, 3)))]
        if self._is("resources") and self._often(0.3):
            spec["overhead"] = {"cpu": draw.choice(CPU), "memory": draw.choice(MEMORY)}
        if self._is("resources", "resize") and self._often(0.25):
            amounts = {"cpu": "3500m", "memory": "5Gi", "hugepages-2Mi": "1Gi"}
            spec["resources"] = {"requests": {key: amounts[key] for key in self._some(amounts, 3, 1)}}
        if self._is("preemption", "nominated") and self._often(0.9):
            spec["priority"] = draw.choice(PRIORITIES)
        self._selecting(spec, waits)
        if self._is("features") and waits:
            self._needing(spec, metadata)
        return _object("v1", "Pod", metadata, spec=spec, status={"phase": "Pending"})

    def _selecting(self, spec: Json, waits: bool) -> None:
        """What the pod wants of nodes and of other pods."""
        draw = self._draw
        affinity: Json = {}
        if self._is("taints") and self._often(0.6):
            spec["tolerations"] = [self._toleration() for _ in range(draw.choice((1, 2, 4)))]
        if self._is("nodeaffinity") and self._often(0.8 if waits else 0.05):
            if self._often(0.25):
                spec["nodeSelector"] = self._node_selector_labels()
            if self._often(0.9):
                affinity["nodeAffinity"] = self._node_affinity()
        if self._is("interpod"):
            for kind in ("podAffinity", "podAntiAffinity"):
                if self._often(0.6 if waits else 0.3):
                    affinity[kind] = self._pod_affinity(waits)
        if affinity:
            spec["affinity"] = affinity
        if self._is("spread") and waits:
            constraints = [self._constraint() for _ in range(draw.choice((1, 1, 2, 3)))]
            # An API server takes one constraint a key and effect.
            unique = {(one["topologyKey"], one["whenUnsatisfiable"]): one for one in constraints}
            spec["topologySpreadConstraints"] = list(unique.values())

    def _needing(self, spec: Json, metadata: Json) -> None:
        if self._often(0.4):
            spec["hostNetwork"] = True
        if self._often(0.5):
            spec["hostUsers"] = self._often(0.5)
        for container in spec["containers"]:
            if self._often(0.3):
                rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
                container["restartPolicyRules"] = [rule]
                container["restartPolicy"] = "Never"

    def _container(self, name: str) -> Json:
        draw = self._draw
        requests: Json = {}
        small = not self._is("resources", "scarcity", "preemption") or self._often(0.5)
        if self._often(0.85):
            requests["cpu"] = draw.choice(CPU[:4] if small else CPU)
        if self._often(0.8):
            requests["memory"] = draw.choice(MEMORY[:5] if small else MEMORY)
        if self._is("scalars"):
            requests |= {key: draw.choice(values) for key, values in SCALARS.items() if self._often(0.3)}
        container: Json = {"name": name, "image": f"registry.example/{draw.choice(IMAGES)}"}
        container["resources"] = {"requests": requests} if requests or self._often(0.5) else {}
        if self._is("ports") and self._often(0.6):
            container["ports"] = [self._port() for _ in range(draw.choice((1, 2)))]
        return container

    def _init(self, name: str) -> Json:
        container = self._container(name)
        if self._often(0.5):
            container["restartPolicy"] = "Always"
        return container

    def _port(self) -> Json:
        draw = self._draw
        port: Json = {"containerPort": 80, "hostPort": draw.choice(_PORTS)}
        if self._often(0.6):
            port["protocol"] = draw.choice(("TCP", "UDP", "SCTP"))
        if self._often(0.5):
            port["hostIP"] = draw.choice(("0.0.0.0", "10.0.0.1", "127.0.0.1", "", "::"))
        return port

    def _toleration(self) -> Json:
        draw = self._draw
        out: Json = {"operator": draw.choice(("Exists", "Equal", "Equal"))}
        if out["operator"] == "Equal" or self._often(0.7):
            out["key"] = draw.choice(("gpu", "flaky", "dedicated", _UNSCHEDULABLE))
        if out["operator"] == "Equal":
            out["value"] = draw.choice(("", "a", "b"))
            if self._often(0.3):
                del out["operator"]
        if self._often(0.6):
            out["effect"] = draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        return out

    # --- selectors

    def _match_labels(self, most: int = 1) -> Json:
        return {key: self._draw.choice(LABELS[key]) for key in self._some(LABELS, most, 1)}

    def _selector(self) -> Json:
        draw = self._draw
        chance = draw.random()
        if chance < 0.06:
            return {}
        selector: Json = {}
        if chance < 0.6:
            selector["matchLabels"] = self._match_labels(draw.choice((1, 1, 2)))
        if chance > 0.4:
            key = draw.choice(sorted(LABELS))
            operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
            expression: Json = {"key": key, "operator": operator}
            if operator in ("In", "NotIn"):
                expression["values"] = self._some(LABELS[key], 2, 1)
            selector["matchExpressions"] = [expression]
        return selector

    def _node_selector_labels(self) -> Json:
        choices = {"disk": ("ssd", "hdd"), "topology.kubernetes.io/zone": ("za", "zb"), "rack": ("k1", "k2")}
        return {key: self._draw.choice(choices[key]) for key in self._some(choices, 2, 1)}

    def _node_affinity(self) -> Json:
        draw = self._draw
        out: Json = {}
        if self._often(0.7):
            terms = [self._node_term() for _ in range(draw.choice((1, 1, 2, 3)))]
            out["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if self._often(0.5):
            preferred = [{"weight": draw.randint(1, 100), "preference": self._node_term()} for _ in range(3)]
            out["preferredDuringSchedulingIgnoredDuringExecution"] = preferred[: draw.choice((1, 2, 3))]
        return out

    def _node_term(self) -> Json:
        draw = self._draw
        term: Json = {}
        if self._often(0.85):
            term["matchExpressions"] = [self._node_expression() for _ in range(draw.choice((1, 1, 2)))]
        if self._often(0.2):
            operator = draw.choice(("In", "In", "NotIn"))
            field = {"key": "metadata.name", "operator": operator, "values": [draw.choice(self._node_names)]}
            term["matchFields"] = [field]
        return term

    def _node_expression(self) -> Json:
        draw = self._draw
        values = {
            "disk": ("ssd", "hdd", "nvme"),
            "gen": ("1", "5", "7", "x"),
            "rack": ("k1", "k2", "k9"),
            "topology.kubernetes.io/zone": ("za", "zb"),
            "nolabel": ("x",),
        }
        key = draw.choice(sorted(values))
        operator = draw.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "gen", "operator": operator, "values": [draw.choice(("0", "3", "5", "-1"))]}
        expression: Json = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = self._some(values[key], 2, 1)
        return expression

    def _pod_affinity(self, waits: bool) -> Json:
        draw = self._draw
        out: Json = {}
        if self._often(0.5 if waits else 0.3):
            terms = [self._term() for _ in range(draw.choice((1, 1, 2)))]
            out["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if self._often(0.6):
            weighted = [{"weight": draw.randint(1, 100), "podAffinityTerm": self._term()} for _ in range(2)]
            out["preferredDuringSchedulingIgnoredDuringExecution"] = weighted[: draw.choice((1, 2))]
        return out

    def _term(self) -> Json:
        draw = self._draw
        term: Json = {"topologyKey": draw.choice((*TOPOLOGY, "topology.kubernetes.io/region"))}
        if self._often(0.95):
            term["labelSelector"] = self._selector()
        if self._often(0.25):
            term["namespaces"] = self._some(NAMESPACES, 2, 1)
        if self._often(0.25):
            choices: tuple[Json, ...] = (
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]},
                {"matchLabels": {"team": "nobody"}},
            )
            term["namespaceSelector"] = draw.choice(choices)
        if "labelSelector" in term and self._often(0.1):
            term["matchLabelKeys"] = ["track"]
        if "labelSelector" in term and self._often(0.1):
            term["mismatchLabelKeys"] = ["tier"]
        return term

    def _constraint(self) -> Json:
        draw = self._draw
        out: Json = {
            "maxSkew": draw.choice((1, 1, 2, 3)),
            "topologyKey": draw.choice((*TOPOLOGY, "disk", "nolabel")),
            "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        if self._often(0.95):
            out["labelSelector"] = self._selector()
        if out["whenUnsatisfiable"] == "DoNotSchedule" and self._often(0.25):
            out["minDomains"] = draw.choice((1, 2, 3, 5))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._often(0.3):
                out[policy] = draw.choice(("Honor", "Ignore"))
        if "labelSelector" in out and self._often(0.2):
            out["matchLabelKeys"] = self._some(("track", "nosuch"), 2, 1)
        return out


def _object(version: str, kind: str, metadata: Json, **parts: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
