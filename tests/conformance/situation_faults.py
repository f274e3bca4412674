"""Faults for random situations: selectors, terms and references that nobody can read, in one object or another.

An API server refuses most of these today; some it let pass once, and they are still stored. kube-scheduler meets each
in a way of its own, and so must Trireme: the pod with the fault is refused or the fault is passed over, and other pods
are decided as if it were not there.
"""

import random
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

# An expression of a label selector, and of a node selector, that cannot be read.
_EXPRESSIONS: tuple[Json, ...] = (
    {"key": "app", "operator": "Bogus", "values": ["web"]},
    {"key": "app", "operator": "In"},
    {"key": "app", "operator": "Exists", "values": ["web"]},
    {"key": "bad key!", "operator": "Exists"},
    {"key": "a/b/c", "operator": "Exists"},
    {"key": "", "operator": "Exists"},
    {"key": "UPPER.example.com/x", "operator": "In", "values": ["a"]},
    {"key": "app", "operator": "In", "values": ["not a value"]},
    {"key": "app", "operator": "NotIn", "values": ["-x", "web"]},
    {"key": "a" * 64, "operator": "DoesNotExist"},
    {"key": "", "operator": "", "values": [""]},
)
_NODE_EXPRESSIONS: tuple[Json, ...] = (
    *_EXPRESSIONS,
    {"key": "gen", "operator": "Gt", "values": ["many"]},
    {"key": "gen", "operator": "Lt", "values": ["1", "2"]},
    {"key": "gen", "operator": "Gt"},
    {"key": "gen", "operator": "Lt", "values": ["99999999999999999999"]},
)
_FIELDS: tuple[Json, ...] = (
    {"key": "metadata.name", "operator": "Exists"},
    {"key": "metadata.name", "operator": "In"},
    {"key": "metadata.name", "operator": "In", "values": ["n00", "n01"]},
    {"key": "metadata.namespace", "operator": "In", "values": ["default"]},
    {"key": "metadata.namespace", "operator": "NotIn", "values": ["default"]},
)
_LABELS: tuple[Json, ...] = ({"bad key!": "x"}, {"app": "not a value"}, {"app": "x" * 64}, {"a/b/c": ""}, {"": "web"})


def add(draw: random.Random, case: Json) -> None:
    """Put some faults where they can be."""
    places = list(_places(case))
    for holder, name, what in draw.sample(places, min(len(places), draw.choice((1, 2, 4)))):
        if what == "selector":
            fault = draw.choice(_EXPRESSIONS)
            selector: Json = (
                {"matchExpressions": [fault]} if draw.random() < 0.7 else {"matchLabels": draw.choice(_LABELS)}
            )
            holder[name] = selector
        elif what == "labels":
            holder[name] = draw.choice(_LABELS)
        elif what == "node term":
            if draw.random() < 0.8:
                holder.setdefault("matchExpressions", []).append(draw.choice(_NODE_EXPRESSIONS))
            else:
                holder["matchFields"] = [draw.choice(_FIELDS)]
        elif what == "toleration":
            holder |= draw.choice(({"operator": "Bogus"}, {"effect": "Bogus"}, {"key": "", "operator": "Equal"}))
        else:
            holder[name] = draw.choice(("", "no such key", "bad/key/here"))


def _places(case: Json) -> Iterator[tuple[Json, str, str]]:
    """Where a fault may be: the object, the field in it, and of what kind it is."""
    for pod in (*case["pods"], *case.get("nominated", ()), *[case["pod"]] * 4):
        yield from _places_in_pod(pod["spec"])
    for budget in case.get("podDisruptionBudgets", ()):
        yield budget["spec"], "selector", "selector"
    for service in case.get("services", ()):
        yield service["spec"], "selector", "labels"
    for claim in case.get("persistentVolumeClaims", ()):
        yield claim["spec"], "selector", "selector"
    for capacity in case.get("csiStorageCapacities", ()):
        yield capacity, "nodeTopology", "selector"
    for owner in (*case.get("replicaSets", ()), *case.get("statefulSets", ())):
        yield owner["spec"], "selector", "selector"
    for claim in case.get("resourceClaims", ()):
        allocation = claim.get("status", {}).get("allocation") or {}
        terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms", ())
        yield from ((term, "", "node term") for term in terms)
    for volume in case.get("persistentVolumes", ()):
        required = volume["spec"].get("nodeAffinity", {}).get("required", {})
        yield from ((term, "", "node term") for term in required.get("nodeSelectorTerms", ()))


def _places_in_pod(spec: Json) -> Iterator[tuple[Json, str, str]]:
    affinity = spec.get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        required = affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
        preferred = affinity.get(kind, {}).get("preferredDuringSchedulingIgnoredDuringExecution", ())
        for term in (*required, *(weighted["podAffinityTerm"] for weighted in preferred)):
            yield term, "labelSelector", "selector"
            yield term, "namespaceSelector", "selector"
            yield term, "topologyKey", "key"
    of_nodes = affinity.get("nodeAffinity", {})
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    yield from ((term, "", "node term") for term in required.get("nodeSelectorTerms", ()))
    for weighted in of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
        yield weighted["preference"], "", "node term"
    for constraint in spec.get("topologySpreadConstraints", ()):
        yield constraint, "labelSelector", "selector"
        yield constraint, "topologyKey", "key"
    yield from ((toleration, "", "toleration") for toleration in spec.get("tolerations", ()))
    if "nodeSelector" in spec:
        yield spec, "nodeSelector", "labels"
