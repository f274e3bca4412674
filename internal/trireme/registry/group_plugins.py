"""The in-tree plugins that cycles of pod groups run; each is loaded when a profile that has the plugin asks.

Tests: tests/unit/simulation/test_group_preemption.py, tests/unit/frontend/test_start_with_each_gate.py.
"""

from trireme.framework.plugin_spec import ExtensionPoint, Role
from trireme.plugin_api.placements import PlacementGeneratePlugin
from trireme.registry.in_tree import IN_TREE


def placement_generator(name: str) -> PlacementGeneratePlugin | None:
    """The plugin at PlacementGenerate; None where it is not in-tree or does not implement it."""
    spec = IN_TREE.plugins.get(name)
    if spec is None or ExtensionPoint.PLACEMENT_GENERATE not in spec.implementations:
        return None
    made: PlacementGeneratePlugin = spec.implementations[ExtensionPoint.PLACEMENT_GENERATE].load(spec.package)()
    return made


def releases_claims(name: str) -> bool:
    """Whether the plugin's PodGroupPostFilter releases claims that a group cannot use."""
    return _has_role(name, Role.CLAIM_RELEASE)


def preempts(name: str) -> bool:
    """Whether the plugin's PodGroupPostFilter preempts."""
    return _has_role(name, Role.PREEMPTION)


def _has_role(name: str, role: Role) -> bool:
    spec = IN_TREE.plugins.get(name)
    return spec is not None and spec.role is role
