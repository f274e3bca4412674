"""What the score phase runs of the in-tree plugins.

All of it is loaded with this module: before a frontend comes, and in the forker once for all its forks.

Also change: internal/trireme/registry/filter_plugins.py,
internal/trireme/registry/bind_plugins.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_pod_group_placements.py.
"""

from collections.abc import Callable, Mapping

from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import placements, scorers
from trireme.registry import implementations
from trireme.registry.in_tree import IN_TREE

implementations.preload(ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)


def make_score_plugin(name: str, args_json: bytes, features: Mapping[str, bool]) -> scorers.AnyScorePlugin | None:
    """Make the score plugin of this name; None: there is no such in-tree plugin. Raises: ValueError for bad args."""
    made: scorers.AnyScorePlugin | None = implementations.make(name, ExtensionPoint.SCORE, args_json, features)
    return made


def all_placement_score_plugins(
    args_of: Callable[[str], bytes], features: Mapping[str, bool]
) -> dict[str, placements.PlacementScorePlugin]:
    """All that score placements, by name; `args_of` answers a plugin's arguments. Raises: ValueError for bad args."""
    point = ExtensionPoint.PLACEMENT_SCORE
    made = {name: implementations.make(name, point, args_of(name), features) for name in IN_TREE.plugins}
    return {name: plugin for name, plugin in made.items() if plugin is not None}
