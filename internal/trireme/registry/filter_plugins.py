"""What the filter phase runs of the in-tree plugins.

All of it is loaded with this module: before a frontend connects, and in the forker once for all its forks.

Also change: internal/trireme/registry/score_plugins.py,
internal/trireme/registry/bind_plugins.py (filter and score are alike here).

Tests: tests/unit/simulation/test_fields_that_plugins_read.py, tests/unit/registry/test_registry.py.
"""

from collections.abc import Iterable, Mapping

from trireme.evaluation.preemption import post_filter_plugins
from trireme.framework.plugin_spec import ExtensionPoint, Role
from trireme.plugin_api import interfaces
from trireme.registry import implementations
from trireme.registry.in_tree import IN_TREE

Features = Mapping[str, bool]

implementations.preload(ExtensionPoint.FILTER, ExtensionPoint.POST_FILTER, ExtensionPoint.POD_GROUP_POST_FILTER)


def make_filter_plugin(name: str, args_json: bytes, features: Features) -> interfaces.FilterPlugin | None:
    """Make the filter plugin of this name; None: there is no such in-tree plugin. Raises: ValueError for bad args."""
    made: interfaces.FilterPlugin | None = implementations.make(name, ExtensionPoint.FILTER, args_json, features)
    return made


def make_post_filter_plugin(
    name: str, args_json: bytes, features: Features, filters: Iterable[interfaces.FilterPlugin]
) -> post_filter_plugins.PostFilterPlugin | None:
    """Make the PostFilter plugin of this name; None: there is no such in-tree plugin. Raises: ValueError for bad args.

    `filters` are the profile's filter plugins. None also if the plugin looks at what its filter found, and the profile
    has none.
    """
    point = ExtensionPoint.POST_FILTER
    made: post_filter_plugins.PostFilterPlugin | None = implementations.make(name, point, args_json, features, filters)
    return made


def claim_release_plugin(
    features: Features, filters: Iterable[interfaces.FilterPlugin]
) -> post_filter_plugins.ClaimReleasePlugin:
    """The plugin that releases claims which a group cannot use; `filters` are the profile's filter plugins."""
    name, point = IN_TREE.name_of(Role.CLAIM_RELEASE), ExtensionPoint.POD_GROUP_POST_FILTER
    made: post_filter_plugins.ClaimReleasePlugin = implementations.make(name, point, b"", features, filters)
    return made


def pod_group_preemption_plugin(features: Features) -> post_filter_plugins.PodGroupPreemptionPlugin:
    """The plugin that preempts for groups."""
    name, point = IN_TREE.name_of(Role.PREEMPTION), ExtensionPoint.POD_GROUP_POST_FILTER
    made: post_filter_plugins.PodGroupPreemptionPlugin = implementations.make(name, point, b"", features)
    return made
