"""Reading the profiles of trireme.v1.Configuration.

Tests: tests/unit/registry/test_filter_profiles.py, tests/unit/replay/test_decision_replay.py.
"""

from collections.abc import Sequence

from trireme.v1 import plugin_pb2, snapshot_pb2


def plugins_at(
    profile: snapshot_pb2.Profile, point: plugin_pb2.ExtensionPoint.ValueType
) -> Sequence[snapshot_pb2.WeightedPlugin]:
    """The profile's plugins at an extension point, in order."""
    for plugin_set in profile.plugin_sets:
        if plugin_set.extension_point == point:
            return plugin_set.plugins
    return ()


def has_remote_plugin(
    configuration: snapshot_pb2.Configuration, profile: str, *points: plugin_pb2.ExtensionPoint.ValueType
) -> bool:
    """Whether a plugin of the profile at one of these points is a service whose answers count."""
    remote = {plugin.name for plugin in configuration.remote_plugins if not plugin.shadow}
    return bool(remote) and any(
        entry.name in remote
        for each in configuration.profiles
        if each.scheduler_name == profile
        for point in points
        for entry in plugins_at(each, point)
    )


def args_of(profile: snapshot_pb2.Profile, name: str) -> bytes:
    """The plugin's arguments as JSON; empty where it has none."""
    return next((args.args_json for args in profile.plugin_args if args.name == name), b"")
