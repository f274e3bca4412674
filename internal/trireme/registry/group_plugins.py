"""The in-tree plugins that cycles of pod groups run; each is loaded when a profile that has the plugin asks.

Tests: tests/unit/simulation/test_group_preemption.py, tests/unit/frontend/test_start_with_each_gate.py.
"""

import functools
from collections.abc import Iterable
from typing import Any

from trireme.framework.plugin_spec import ExtensionPoint, Role
from trireme.plugin_api.placements import PlacementFeasiblePlugin, PlacementGeneratePlugin
from trireme.registry.in_tree import IN_TREE


def placement_generators(names: Iterable[str]) -> dict[str, PlacementGeneratePlugin]:
    """Those of the plugins that are in-tree, at PlacementGenerate, in this order."""
    return _made(names, ExtensionPoint.PLACEMENT_GENERATE)


def placement_feasible_plugins(names: Iterable[str]) -> dict[str, PlacementFeasiblePlugin]:
    """Those of the plugins that are in-tree, at PlacementFeasible, in this order."""
    return _made(names, ExtensionPoint.PLACEMENT_FEASIBLE)


def _made(names: Iterable[str], point: ExtensionPoint) -> dict[str, Any]:
    return {
        name: _implementation(name, point)
        for name in names
        if name in IN_TREE and point in IN_TREE.plugins[name].implementations
    }


@functools.cache
def _implementation(name: str, point: ExtensionPoint) -> Any:
    """The plugin at the point, made once: none of them has a state, and trials of groups need it at each step."""
    spec = IN_TREE.plugins[name]
    return spec.implementations[point].load(spec.package)()


def releases_claims(name: str) -> bool:
    """Whether the plugin's PodGroupPostFilter releases claims that a group cannot use."""
    return _has_role(name, Role.CLAIM_RELEASE)


def preempts(name: str) -> bool:
    """Whether the plugin's PodGroupPostFilter preempts."""
    return _has_role(name, Role.PREEMPTION)


def _has_role(name: str, role: Role) -> bool:
    spec = IN_TREE.plugins.get(name)
    return spec is not None and spec.role is role
