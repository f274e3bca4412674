"""Checks remote plugins, and their descriptions, against the profiles that name them."""

from collections.abc import Iterable

from trireme.config import scheduler_configuration
from trireme.frontend import phase_configuration
from trireme.plugin_api import plugin_info_validation
from trireme.v1 import plugin_pb2


def check_profiles(info: plugin_pb2.PluginInfo, profiles: Iterable[scheduler_configuration.CompletedProfile]) -> None:
    """Check that a plugin has every extension point at which some profile enables it; it may have more.

    Raises: ValueError naming the field, the profile and the extension points that the plugin has.
    """
    for profile in profiles:
        for point, plugins in profile.plugins.items():
            number = phase_configuration.POINTS.get(point)
            if all(plugin.name != info.name for plugin in plugins) or number in info.extension_points:
                continue
            has = ", ".join(plugin_info_validation.point_name(each) for each in info.extension_points)
            raise ValueError(
                f"extension_points: profile {profile.scheduler_name} enables the plugin at {point.value}, "
                f"which is not among those that it has: {has}"
            )
