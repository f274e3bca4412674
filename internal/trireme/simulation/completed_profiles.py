"""The profiles of a configuration as phases receive it, as the queue and the cycles take them.

Tests: tests/unit/simulation/test_fields_that_plugins_read.py.
"""

from collections.abc import Mapping

from trireme.config import gates, scheduler_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import json_args
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme.wire import profile_messages

_POINTS: Mapping[ExtensionPoint, plugin_pb2.ExtensionPoint.ValueType] = {
    ExtensionPoint.PRE_ENQUEUE: plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE,
    ExtensionPoint.PRE_FILTER: plugin_pb2.EXTENSION_POINT_PRE_FILTER,
    ExtensionPoint.FILTER: plugin_pb2.EXTENSION_POINT_FILTER,
    ExtensionPoint.POST_FILTER: plugin_pb2.EXTENSION_POINT_POST_FILTER,
    ExtensionPoint.PRE_SCORE: plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    ExtensionPoint.SCORE: plugin_pb2.EXTENSION_POINT_SCORE,
    ExtensionPoint.RESERVE: plugin_pb2.EXTENSION_POINT_RESERVE,
    ExtensionPoint.PLACEMENT_FEASIBLE: plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE,
}
# The message does not have these points, or has none if it is of an older version (PlacementFeasible): a profile has
# there those of its plugins that serve them.
_POINTS_OF_GROUPS = (
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.PLACEMENT_FEASIBLE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
)


def completed_profiles(
    configuration: snapshot_pb2.Configuration,
) -> tuple[scheduler_configuration.CompletedProfile, ...]:
    """The profiles, with the points that the queue and the scheduling cycles know. Raises: ValueError."""
    return tuple(_completed_profile(profile) for profile in configuration.profiles)


def feature_gates(configuration: snapshot_pb2.Configuration) -> gates.FeatureGates:
    """The feature gates."""
    return gates.FeatureGates(values=dict(configuration.feature_gates))


def _completed_profile(profile: snapshot_pb2.Profile) -> scheduler_configuration.CompletedProfile:
    """One profile. Raises: ValueError: arguments of a plugin are no JSON object."""
    plugins = {
        point: tuple(
            scheduler_configuration.Plugin(each.name, each.weight)
            for each in profile_messages.plugins_at(profile, number)
        )
        for point, number in _POINTS.items()
    }
    names = list(dict.fromkeys(args.name for args in profile.plugin_args))
    for point in _POINTS_OF_GROUPS:
        plugins[point] = plugins.get(point) or tuple(
            scheduler_configuration.Plugin(name, int(point.weighted))
            for name in names
            if IN_TREE.implements(name, point)
        )
    return scheduler_configuration.CompletedProfile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        plugins={point: entries for point, entries in plugins.items() if entries},
        plugin_config=tuple(
            scheduler_configuration.PluginConfig(args.name, json_args.parse_args(args.name, args.args_json))
            for args in profile.plugin_args
        ),
        configured=scheduler_configuration.Profile(scheduler_name=profile.scheduler_name),
    )
