"""The profiles of the two Tririemes of a comparison.

The first one has the default profile, and its insight simulates. The second one has other profiles, which questions
name as `trireme simulate --config` does: ASKED_PROFILES is that file. Where a question leaves a plugin out, the second
Trireme's profile is without it.
"""

from __future__ import annotations

from tests.simulation.scenarios import pool_plugin

Json = dict[str, object]

FIRST: list[Json] = [{"schedulerName": "default-scheduler"}]


def _scoring(kind: str, cpu: int, memory: int) -> list[Json]:
    """Arguments of NodeResourcesFit."""
    resources = [{"name": "cpu", "weight": cpu}, {"name": "memory", "weight": memory}]
    return [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": kind, "resources": resources}}}]


def _weights(**weights: int) -> Json:
    """Plugins with other weights."""
    entries = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"score": {"disabled": [{"name": name} for name in weights], "enabled": entries}}


_SPREAD = [
    {
        "name": "PodTopologySpread",
        "args": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "disk", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        },
    }
]
_REMOTE: Json = {
    "filter": {"enabled": [{"name": pool_plugin.NAME}]},
    "score": {"enabled": [{"name": pool_plugin.NAME, "weight": 3}]},
}
_SAME: list[Json] = [
    {"schedulerName": "packed", "pluginConfig": _scoring("MostAllocated", 1, 1)},
    {"schedulerName": "memory", "pluginConfig": _scoring("LeastAllocated", 1, 9)},
    {"schedulerName": "weighted", "plugins": _weights(NodeResourcesFit=1, TaintToleration=1, InterPodAffinity=20)},
    {"schedulerName": "by-disk", "pluginConfig": _SPREAD},
    {"schedulerName": "with-teams", "plugins": _REMOTE},
]
# By profile and plugin that a question leaves out.
_WITHOUT: dict[tuple[str, str], tuple[Json, Json]] = {
    ("untainted", "TaintToleration"): ({}, {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}),
    ("unspread", "PodTopologySpread"): ({}, {"multiPoint": {"disabled": [{"name": "PodTopologySpread"}]}}),
    ("without-teams", pool_plugin.NAME): (_REMOTE, {}),
}
ASKED_PROFILES: list[Json] = [
    *_SAME,
    *({"schedulerName": name, "plugins": asked} for (name, _), (asked, _) in _WITHOUT.items()),
]
SECOND: list[Json] = [
    *_SAME,
    *({"schedulerName": name, "plugins": real} for (name, _), (_, real) in _WITHOUT.items()),
]
#: What scenarios draw: a profile, and the plugin to leave out of all; empty: none.
ASKED = [(name, "") for name in ("packed", "memory", "weighted", "by-disk")] + [
    (name, plugin) for name, plugin in _WITHOUT if plugin != pool_plugin.NAME
]
ASKED_REMOTE = [("with-teams", ""), ("without-teams", pool_plugin.NAME)]
