"""Plugin arguments for random situations: one of each kind that decides otherwise than the defaults."""

from typing import Any

Json = dict[str, Any]

_SCORED = [
    {"name": "cpu", "weight": 3},
    {"name": "memory", "weight": 1},
    {"name": "example.com/gpu", "weight": 5},
    {"name": "ephemeral-storage", "weight": 2},
]
_SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 40, "score": 9}, {"utilization": 100, "score": 3}]


def _fit(kind: str, **more: Any) -> Json:
    return {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": kind, "resources": _SCORED, **more}}}


def _spread(*constraints: tuple[int, str, str]) -> Json:
    names = ("maxSkew", "topologyKey", "whenUnsatisfiable")
    defaults = [dict(zip(names, one, strict=True)) for one in constraints]
    return {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": defaults}}


_ADDED_TERM = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
_ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_ADDED_TERM]},
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}}
    ],
}

# By matter of a situation: `pluginConfig` as a configuration file has it.
ARGUMENTS: dict[str, tuple[list[Json], ...]] = {
    "resources": (
        [_fit("LeastAllocated")],
        [_fit("MostAllocated")],
        [_fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": _SHAPE})],
        [{"name": "NodeResourcesBalancedAllocation", "args": {"resources": [{**one, "weight": 1} for one in _SCORED]}}],
        [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"]}}],
        [{"name": "NodeResourcesFit", "args": {"ignoredResourceGroups": ["example.com"]}}],
    ),
    "spread": (
        [_spread((1, "rack", "DoNotSchedule"), (2, "topology.kubernetes.io/zone", "ScheduleAnyway"))],
        [_spread((1, "topology.kubernetes.io/zone", "DoNotSchedule"), (1, "kubernetes.io/hostname", "ScheduleAnyway"))],
        [_spread()],
    ),
    "interpod": (
        [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 100}}],
        [
            {
                "name": "InterPodAffinity",
                "args": {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True},
            }
        ],
    ),
    "nodeaffinity": ([{"name": "NodeAffinity", "args": {"addedAffinity": _ADDED}}],),
    "volumes": (
        [
            {
                "name": "VolumeBinding",
                "args": {"shape": [{"utilization": 0, "score": 10}, {"utilization": 80, "score": 0}]},
            }
        ],
    ),
}
ARGUMENTS["scalars"] = ARGUMENTS["resources"]
ARGUMENTS["defaultspread"] = ARGUMENTS["spread"]
