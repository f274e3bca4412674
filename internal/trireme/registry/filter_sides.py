"""What the filter phase runs of the in-tree plugins.

All of it is loaded with this module: before a frontend comes, and in the forker once for all its forks.
"""

from collections.abc import Iterable, Mapping

from trireme.evaluation.preemption import post_filtering
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import interfaces
from trireme.registry import sides
from trireme.registry.in_tree import IN_TREE

Features = Mapping[str, bool]

sides.preload(ExtensionPoint.FILTER, ExtensionPoint.POST_FILTER, ExtensionPoint.POD_GROUP_POST_FILTER)


def filter_plugin(name: str, args_json: bytes, features: Features) -> interfaces.FilterPlugin | None:
    """The filter plugin of this name, None where there is no such in-tree plugin. Raises: ValueError for bad args."""
    made: interfaces.FilterPlugin | None = sides.make(name, ExtensionPoint.FILTER, args_json, features)
    return made


def post_filter_plugin(
    name: str, args_json: bytes, features: Features, filters: Iterable[interfaces.FilterPlugin]
) -> post_filtering.PostFilterPlugin | None:
    """The PostFilter plugin of this name; None if there is no such in-tree plugin. Raises: ValueError for bad args.

    `filters` are the profile's filter plugins. None also if the plugin looks at what its filter found, and the profile
    has none.
    """
    point = ExtensionPoint.POST_FILTER
    made: post_filtering.PostFilterPlugin | None = sides.make(name, point, args_json, features, filters)
    return made


def claim_release_plugin(
    features: Features, filters: Iterable[interfaces.FilterPlugin]
) -> post_filtering.ClaimReleasePlugin:
    """What says which claims a group of pods may give up; `filters` are the profile's filter plugins."""
    point = ExtensionPoint.POD_GROUP_POST_FILTER
    made = (sides.make(name, point, b"", features, filters) for name in IN_TREE.plugins)
    plugin: post_filtering.ClaimReleasePlugin = next(each for each in made if each is not None)
    return plugin
