"""Draws nodes and pods for comparisons of simulations with what a scheduler does."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]

PRIORITIES = {"low": 0, "middle": 100, "high": 1000}
PRIORITY_CLASSES: list[Json] = [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
# Insight knows which pods have a label as long as something selects by it.
SERVICE: Json = {"metadata": {"name": "keys"}, "spec": {"selector": {"app": "none"}, "ports": [{"port": 80}]}}


class Scenarios:
    """Draws scenarios: the changes as a question to insight has them, and the objects that make them."""

    def __init__(self, seed: int, several: bool) -> None:
        """`several`: copies of pods, and pods of several kinds, at once."""
        self._several = several
        #: The source of all that is drawn.
        self.draw = random.Random(f"scenarios {seed}")
        self._pods = self._nodes = 0

    def node(self) -> Json:
        """A node of one of a few sizes, in one of three zones, perhaps with a taint."""
        draw, number = self.draw, self._nodes
        self._nodes += 1
        name = f"node-{number}"
        size = {"cpu": str(draw.choice((2, 4, 8))), "memory": draw.choice(("4Gi", "8Gi", "16Gi")), "pods": "30"}
        taints = [{"key": "pool", "value": "a", "effect": "NoSchedule"}] if draw.random() < 0.2 else []
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "disk": draw.choice(("ssd", "hdd")),
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"capacity": size, "allocatable": size},
        }

    def pods(self) -> list[Json]:
        """Some pods: copies of one, or of several kinds."""
        draw = self.draw
        if not self._several:
            return self._copies(1)
        return [pod for _ in range(draw.choice((1, 1, 1, 2))) for pod in self._copies(draw.choice((1, 1, 2, 5)))]

    def _copies(self, count: int) -> list[Json]:
        """Copies of a pod."""
        app = f"app-{self.draw.randrange(4)}"
        spec = self.pod_spec(app)
        return [self.pod(app, spec) for _ in range(count)]

    def pod(self, app: str, spec: Json) -> Json:
        """A pod of this spec, with a name of its own."""
        metadata = {"name": f"pod-{self._pods}", "namespace": "default", "labels": {"app": app}}
        self._pods += 1
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def pod_spec(self, app: str) -> Json:
        """What pods with this label `app` ask for."""
        draw = self.draw
        requests = {"cpu": f"{draw.choice((100, 300, 700, 1500, 3000))}m"}
        if draw.random() < 0.7:
            requests["memory"] = f"{draw.choice((128, 512, 2048))}Mi"
        name = draw.choice(("low", "low", "low", "middle", "high"))
        return {
            "priorityClassName": name,
            "priority": PRIORITIES[name],
            "containers": [{"name": "main", "image": "example.org/app", "resources": {"requests": requests}}],
            **self._constraints(app),
        }

    def _constraints(self, app: str) -> Json:
        """Where the pods may go, and where they should."""
        draw, out = self.draw, dict[str, Any]()
        zone, selector = "topology.kubernetes.io/zone", {"matchLabels": {"app": app}}
        if draw.random() < 0.3:
            out["tolerations"] = [{"key": "pool", "operator": "Exists"}]
        if draw.random() < 0.2:
            out["nodeSelector"] = {"disk": draw.choice(("ssd", "hdd"))}
        if draw.random() < 0.25:
            when = draw.choice(("DoNotSchedule", "ScheduleAnyway"))
            spread = {"maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": when, "labelSelector": selector}
            out["topologySpreadConstraints"] = [spread]
        if draw.random() < 0.25:
            term = {"topologyKey": draw.choice((zone, "kubernetes.io/hostname")), "labelSelector": selector}
            kind = draw.choice(("podAffinity", "podAntiAffinity"))
            weighted = {"weight": draw.randrange(1, 100), "podAffinityTerm": term}
            required = kind == "podAntiAffinity" and draw.random() < 0.5
            out["affinity"] = {
                kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                if required
                else {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
            }
        return out

    def leaving(self, names: list[str], share: float) -> list[str]:
        """Some of the names."""
        return sorted(self.draw.sample(sorted(names), round(len(names) * share)))

    def happens(self, chance: float) -> bool:
        """Whether something happens that has this chance."""
        return self.draw.random() < chance

    def one_of(self, names: list[str]) -> str:
        """One of the names."""
        return self.draw.choice(sorted(names))
