"""Random situations about preemption alone: small clusters full of pods, and one more that wants in.

Few values are used, so that much is alike: priorities that are equal or next to each other, from the lowest there is to
those of the system; pods that started at the same moment; several budgets over the same pods; other pods that wait for
the same nodes. In mixed situations each node has victims of several priorities, some of them protected, so that all
rules which choose among nodes have a say. What stands in the way is drawn beside it: room, ports, devices, volumes,
other pods, the spread.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance import situation_devices, situation_volumes
from tests.conformance.golden_rows import Row

Json = dict[str, Any]

_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_APPS, _TIERS = ("web", "db", "job"), ("front", "back")
_NAMESPACES = ("default", "default", "default", "other")
_LEAST, _MOST = -(2**31), 2**31 - 1
# Around each of these some are drawn for a situation.
_LEVELS = (0, 0, 10, 100, -10, _LEAST + 2, 1_000_000_000, 2_000_000_000, 2_000_001_000, _MOST - 2)
_REASONS = (
    *("ports", "interpod", "interpod", "spread", "spread", "exclusive", "scalars", "helpers", "whole", "taints"),
    *("volumes", "limits", "devices", "selectors"),
)
# How many situations are of nodes with several victims each, and what these stand below the pod that wants in.
_MIXED = 0.4
_BELOW = ((-1, -2, -3), (-5, -10, -15), (-1, -1, -2, -2, -10), (-1, -2, -4, -8, -16), (-3, -2, -1, 0))
_ARGUMENTS = ((0, 1), (1, 0), (100, 0), (100, 100), (50, 2), (0, 3))


def situation(draw: random.Random, name: str) -> Row:
    """One situation."""
    reasons = frozenset(draw.sample(_REASONS, draw.choice((0, 0, 1, 1, 1, 2, 3))))
    if draw.random() < _MIXED:
        reasons |= {"mixed"}
    return Preempting(draw, reasons).row("+".join(("preempting", *sorted(reasons))), name)


class Preempting:
    """What one situation is drawn from: objects that are drawn of one are much alike."""

    def __init__(self, draw: random.Random, reasons: frozenset[str]) -> None:
        self._draw = draw
        self._reasons = reasons
        self._nodes = [f"n{number:02}" for number in range(draw.choice((1, 2, 3, 3, 4, 5, 8, 12)))]
        level = draw.choice(_LEVELS)
        steps = draw.choice(((-1, 0), (-2, -1, 0, 1), (-2, -1), (-1,), (-10, -1, 0, 0, 5)))
        self._priorities = [min(max(level + step, _LEAST), _MOST) for step in steps]
        self._level = level
        # Equal pods started in one of few moments, and request one of few amounts.
        self._starts = [f"2026-01-01T00:00:{draw.randrange(60):02}Z" for _ in range(draw.choice((1, 2, 4)))]
        self._amounts = draw.sample(("250m", "500m", "700m", "1", "1500m", "0"), draw.choice((1, 2, 3)))
        if self._is("mixed"):
            self._nodes = [f"n{number:02}" for number in range(draw.choice((2, 3, 4, 6, 9)))]
            self._priorities = [min(max(level + step, _LEAST), _MOST) for step in draw.choice(_BELOW)]
            self._amounts = list(
                draw.choice((("500m",), ("250m", "500m"), ("500m", "700m", "1"), ("300m", "0", "900m")))
            )

    def row(self, about: str, name: str) -> Row:
        """The situation as a row."""
        draw = self._draw
        nodes = [self.node(node) for node in self._nodes]
        each = draw.choice((4, 5, 6, 8) if self._is("mixed") else (2, 3, 4, 6))
        placed = [self.placed(f"p{number:02}", draw.choice(self._nodes)) for number in range(each * len(nodes))]
        case: Json = {"name": f"{about}-{name}", "nodes": nodes, "pods": placed, "pod": self.incoming()}
        case["podDisruptionBudgets"] = [
            self.budget(f"b{number}", placed)
            for number in range(draw.choice((1, 2, 3, 5) if self._is("mixed") else (0, 1, 2, 5)))
        ]
        waiting = draw.choice((0, 0, 1, 2, 4))
        case["nominated"] = [self.nominated(f"w{number}") for number in range(waiting)]
        case["namespaces"] = [_object("v1", "Namespace", {"name": each}) for each in sorted(set(_NAMESPACES))]
        if self._is("exclusive"):
            self._exclusive(case)
        elif self._is("volumes", "limits"):
            situation_volumes.add(draw, case, self._is("limits"))
        if self._is("devices"):
            situation_devices.add(draw, case)
        if self._often(0.06):
            percentage, absolute = draw.choice(_ARGUMENTS)
            args = {"minCandidateNodesPercentage": percentage, "minCandidateNodesAbsolute": absolute}
            case["pluginConfig"] = [{"name": "DefaultPreemption", "args": args}]
        return {
            "name": case["name"],
            "case": {field: value for field, value in case.items() if value or field == "pods"},
        }

    def _is(self, *reasons: str) -> bool:
        return not self._reasons.isdisjoint(reasons)

    def _often(self, chance: float) -> bool:
        return self._draw.random() < chance

    def _some(self, values: Sequence[Any], most: int, least: int = 0) -> list[Any]:
        return self._draw.sample(list(values), min(len(values), self._draw.randint(least, most)))

    def node(self, name: str) -> Json:
        """A node."""
        draw = self._draw
        labels = {_HOST: name, _ZONE: draw.choice(("za", "zb"))}
        if self._often(0.1):
            del labels[_ZONE]
        amounts = {
            "cpu": draw.choice(("3", "3", "2500m") if self._is("mixed") else ("1", "2", "2", "3")),
            "memory": "4Gi",
            "pods": draw.choice(("2", "4", "110", "110")),
        }
        if self._is("scalars"):
            amounts["example.com/gpu"] = draw.choice(("1", "2"))
        spec: Json = {}
        if self._is("taints") and self._often(0.5):
            effect = draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
            spec["taints"] = [{"key": draw.choice(("gpu", "flaky")), "value": "a", "effect": effect}]
        if self._often(0.05):
            spec["unschedulable"] = True
        return _object("v1", "Node", {"name": name, "labels": labels}, spec=spec, status={"allocatable": amounts})

    # --- pods

    def placed(self, name: str, node: str) -> Json:
        """A pod on a node."""
        draw = self._draw
        pod = self._pod(name, draw.choice(_NAMESPACES), draw.choice(self._priorities), draw.choice(self._amounts))
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": draw.choice(("Running", "Running", "Running", "Pending"))}
        if self._often(0.85):
            pod["status"]["startTime"] = draw.choice(self._starts)
        if self._often(0.06):
            pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}
        if self._often(0.08):
            reason = draw.choice(("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"))
            said = draw.choice(("True", "True", "False"))
            pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": said, "reason": reason}]
        return pod

    def nominated(self, name: str) -> Json:
        """A pod that waits for a node."""
        draw = self._draw
        priority = min(max(self._level + draw.choice((0, 0, 1, 2, -1)), _LEAST), _MOST)
        pod = self._pod(name, draw.choice(_NAMESPACES), priority, draw.choice((*self._amounts, "1")))
        node = draw.choice((*self._nodes, "gone") if self._often(0.1) else self._nodes)
        pod["status"] = {"phase": "Pending", "nominatedNodeName": node}
        return pod

    def incoming(self) -> Json:
        """The pod that wants in."""
        draw = self._draw
        amounts = ("1500m", "2", "2500m") if self._is("mixed") else ("500m", "1", "1500m", "2", "100m")
        pod = self._pod("incoming", "default", self._level, draw.choice(amounts))
        pod["status"] = {"phase": "Pending"}
        if self._often(0.12):
            pod["status"]["nominatedNodeName"] = draw.choice((*self._nodes, "gone"))
        if self._often(0.05):
            pod["spec"]["preemptionPolicy"] = draw.choice(("Never", "PreemptLowerPriority"))
        if self._is("selectors"):
            pod["spec"]["nodeSelector"] = {_ZONE: draw.choice(("za", "zb"))}
        if self._is("taints"):
            pod["spec"]["tolerations"] = [{"key": draw.choice(("gpu", "flaky")), "operator": "Exists"}]
        if self._is("spread"):
            keys = self._some((_HOST, _ZONE), 2, 1)
            pod["spec"]["topologySpreadConstraints"] = [self._constraint(key) for key in keys]
        return pod

    def _pod(self, name: str, namespace: str, priority: int, cpu: str) -> Json:
        draw = self._draw
        labels = {"app": draw.choice(_APPS), "tier": draw.choice(_TIERS)}
        labels = dict(self._some(sorted(labels.items()), 2, 0 if self._often(0.3) else 1))
        requests = {"cpu": cpu, "memory": "64Mi"}
        if self._is("scalars") and self._often(0.6):
            requests["example.com/gpu"] = draw.choice(("1", "1", "2"))
        container: Json = {"name": "c0", "image": "x", "resources": {"requests": requests}}
        if self._is("ports") and self._often(0.5):
            port = {"containerPort": 80, "hostPort": draw.choice((80, 81)), "protocol": draw.choice(("TCP", "UDP"))}
            container["ports"] = [port | draw.choice(({}, {"hostIP": "10.0.0.1"}, {"hostIP": "0.0.0.0"}))]
        spec: Json = {"schedulerName": "default-scheduler", "containers": [container], "priority": priority}
        if priority == 0 and self._often(0.3):
            del spec["priority"]
        if self._is("helpers") and self._often(0.5):
            spec["initContainers"] = [self._helper(f"i{number}") for number in range(draw.choice((1, 2)))]
            spec |= draw.choice(({}, {}, {"overhead": {"cpu": "100m"}}))
        if self._is("whole") and self._often(0.5):
            spec["resources"] = {"requests": {"cpu": draw.choice(("500m", "1", "2"))}}
        if self._is("interpod"):
            self._near_others(spec, name == "incoming")
        if self._is("exclusive") and (name == "incoming" or self._often(0.3)):
            claim = {"claimName": draw.choice(("one", "two", "many"))}
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
        return _object("v1", "Pod", metadata, spec=spec)

    def _helper(self, name: str) -> Json:
        requests = {"cpu": self._draw.choice(("250m", "500m", "1"))}
        always = {"restartPolicy": "Always"} if self._often(0.5) else {}
        return {"name": name, "image": "x", "resources": {"requests": requests}, **always}

    def _near_others(self, spec: Json, waits: bool) -> None:
        affinity: Json = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self._often(0.5 if waits else 0.2):
                terms = [self._term() for _ in range(self._draw.choice((1, 1, 2)))]
                affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity

    def _term(self) -> Json:
        term: Json = {"topologyKey": self._draw.choice((_HOST, _HOST, _ZONE)), "labelSelector": self._selector()}
        if self._often(0.2):
            term["namespaceSelector"] = {}
        return term

    def _constraint(self, key: str) -> Json:
        draw = self._draw
        out: Json = {"topologyKey": key, "maxSkew": draw.choice((1, 1, 2)), "whenUnsatisfiable": "DoNotSchedule"}
        out["labelSelector"] = self._selector()
        if self._often(0.3):
            out["minDomains"] = draw.choice((1, 2, 3, 5))
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._often(0.3):
                out[policy] = draw.choice(("Honor", "Ignore"))
        return out

    def _selector(self) -> Json:
        draw = self._draw
        choices: tuple[Json, ...] = (
            {"matchLabels": {"app": draw.choice(_APPS)}},
            {"matchLabels": {"tier": draw.choice(_TIERS)}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
            {"matchExpressions": [{"key": "tier", "operator": draw.choice(("Exists", "DoesNotExist"))}]},
        )
        return draw.choice(choices)

    # --- what protects and what is claimed

    def budget(self, name: str, placed: Sequence[Json]) -> Json:
        """A budget."""
        draw = self._draw
        spec: Json = {"selector": self._selector()}
        if self._often(0.2):
            bad: Json = {"matchExpressions": [{"key": "app", "operator": "In"}]}
            spec = draw.choice(({}, {"selector": {}}, {"selector": None}, {"selector": bad}))
        out = _object(
            "policy/v1", "PodDisruptionBudget", {"name": name, "namespace": draw.choice(_NAMESPACES)}, spec=spec
        )
        if self._often(0.93):
            out["status"] = {"disruptionsAllowed": draw.choice((-1, 0, 0, 1, 1, 2, 4))}
            if self._often(0.3):
                names = [pod["metadata"]["name"] for pod in self._some(placed, 3)]
                out["status"]["disruptedPods"] = dict.fromkeys(names, "2026-01-01T00:00:00Z")
        return out

    def _exclusive(self, case: Json) -> None:
        """Claims that several pods name, some of which are for one pod only."""
        case["persistentVolumeClaims"] = []
        for namespace in sorted(set(_NAMESPACES)):
            for name in ("one", "two", "many"):
                metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
                metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
                modes = ["ReadWriteMany" if name == "many" else "ReadWriteOncePod"]
                spec = {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
                spec["volumeName"] = f"pv-{namespace}-{name}"
                claim = _object("v1", "PersistentVolumeClaim", metadata, spec=spec, status={"phase": "Bound"})
                case["persistentVolumeClaims"].append(claim)
                source = {"driver": "a.csi.example.com", "volumeHandle": f"{namespace}-{name}"}
                owner = {"namespace": namespace, "name": name, "uid": f"uid-{namespace}-{name}"}
                volume = {"capacity": {"storage": "1Gi"}, "accessModes": modes, "csi": source, "claimRef": owner}
                metadata = {"name": f"pv-{namespace}-{name}"}
                made = _object("v1", "PersistentVolume", metadata, spec=volume, status={"phase": "Bound"})
                case.setdefault("persistentVolumes", []).append(made)


def _object(version: str, kind: str, metadata: Json, **parts: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
