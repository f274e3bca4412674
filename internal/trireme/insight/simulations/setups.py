"""How pods are scheduled in a simulation: by the scheduler's profiles, by others, or without some of the plugins.

Tests: tests/unit/simulation/test_scenarios.py.
"""

from collections.abc import Iterable, Sequence

from trireme.cache import pod_read_set
from trireme.config import scheduler_configuration
from trireme.framework import canaries
from trireme.plugin_api import plugin_info_validation
from trireme.registry import filter_profiles, remote_makers, score_profiles
from trireme.registry.in_tree import IN_TREE
from trireme.simulation import completed_profiles, simulation
from trireme.v1 import cycle_pb2, simulation_pb2, snapshot_pb2

MAX_PROFILES = 16

Setup = simulation.Setup


class SetupError(ValueError):
    """The profiles of a request cannot be used; the text begins with the field."""


def wanted_configuration(
    request: simulation_pb2.SimulateRequest, current: snapshot_pb2.Configuration
) -> snapshot_pb2.Configuration:
    """The scheduler's configuration with the request's profiles, without plugins to leave out. Raises: SetupError."""
    if len(request.profiles) > MAX_PROFILES:
        raise SetupError(f"profiles: there are more than {MAX_PROFILES}")
    out = snapshot_pb2.Configuration()
    out.CopyFrom(current)
    if request.profiles:
        del out.profiles[:]
        out.profiles.extend(request.profiles)
        names = [profile.scheduler_name for profile in request.profiles]
        if not all(names) or len(set(names)) < len(names):
            raise SetupError("profiles: each must have a schedulerName of its own")
        for profile in request.named_at_points:
            _check_named_points(profile, current.remote_plugins)
        for profile in out.profiles:
            _fit_remote_plugins(profile, current.remote_plugins)
    for name in request.without_plugins:
        if not _remove_plugin(out.profiles, name):
            raise SetupError(f"withoutPlugins: no profile has a plugin {name}")
    return out


def make_setup(
    configuration: snapshot_pb2.Configuration,
    caller: cycle_pb2.Cycle,
    make_remote_filter: filter_profiles.MakeRemoteFilter = remote_makers.no_remote_plugin,
    make_remote_score: score_profiles.MakeRemoteScore = remote_makers.no_remote_plugin,
) -> simulation.Setup:
    """The setup of a configuration. Raises: SetupError: a plugin is not known, or its arguments cannot be used."""
    try:
        completed = completed_profiles.completed_profiles(configuration)
        return simulation.Setup(
            completed,
            completed_profiles.feature_gates(configuration),
            filter_profiles.make_profiles(configuration, make_remote_filter),
            score_profiles.make_profiles(configuration, make_remote_score),
            _reads_of(completed, configuration.remote_plugins),
            caller,
        )
    except (LookupError, TypeError, ValueError) as error:
        raise SetupError(f"profiles: {error}: check them with `trireme config validate`") from error


def _reads_of(
    completed: Iterable[scheduler_configuration.CompletedProfile], remotes: Iterable[snapshot_pb2.RemotePlugin]
) -> pod_read_set.PodReadSet:
    """What plugins read of pods: the scheduler reads it for all remote plugins, of whatever profile."""
    in_tree = IN_TREE.pod_fields({name for profile in completed for name in profile.all_names()})
    remote = pod_read_set.of_remote_plugins(each.info for each in remotes)
    return remote.union(pod_read_set.of_in_tree_plugins(in_tree))


def _check_named_points(profile: snapshot_pb2.Profile, remotes: Iterable[snapshot_pb2.RemotePlugin]) -> None:
    """Check that remote plugins serve the points at which a profile names them. Raises: SetupError naming both."""
    served = {remote.name: remote.info.extension_points for remote in remotes}
    for plugin_set in profile.plugin_sets:
        for entry in plugin_set.plugins:
            points = served.get(entry.name)
            if points is None or plugin_set.extension_point in points:
                continue
            has = ", ".join(plugin_info_validation.point_name(point) for point in points)
            named = plugin_info_validation.point_name(plugin_set.extension_point)
            text = f"plugin {entry.name} is enabled at {named}, which is not among those that it has: {has}"
            raise SetupError(f"profiles: profile {profile.scheduler_name}: {text}")


def _fit_remote_plugins(profile: snapshot_pb2.Profile, remotes: Iterable[snapshot_pb2.RemotePlugin]) -> None:
    """Remove remote plugins from points that they do not serve, and add their canaries: who sends it knows neither.

    Raises: SetupError: a plugin is neither in-tree nor a remote one of the scheduler.
    """
    points = {remote.name: remote.info.extension_points for remote in remotes}
    for plugin_set in profile.plugin_sets:
        entries = list(plugin_set.plugins)
        del plugin_set.plugins[:]
        for entry in entries:
            if entry.name not in IN_TREE and entry.name not in points:
                text = "it is not in-tree, and no remote plugin of that name takes part in the scheduler"
                raise SetupError(f"profiles: profile {profile.scheduler_name}: there is no plugin {entry.name}: {text}")
            canary = snapshot_pb2.WeightedPlugin(name=canaries.canary_name(entry.name), weight=entry.weight)
            plugin_set.plugins.extend(
                each
                for each in (entry, canary)
                if each.name in IN_TREE or plugin_set.extension_point in points.get(each.name, ())
            )


def _remove_plugin(of_profiles: Sequence[snapshot_pb2.Profile], name: str) -> bool:
    """Remove the plugin from all profiles, at all points; return whether it was in one."""
    found = False
    for profile in of_profiles:
        for plugin_set in profile.plugin_sets:
            left = [plugin for plugin in plugin_set.plugins if plugin.name != name]
            found |= len(left) < len(plugin_set.plugins)
            del plugin_set.plugins[:]
            plugin_set.plugins.extend(left)
        args = [each for each in profile.plugin_args if each.name != name]
        found |= len(args) < len(profile.plugin_args)
        del profile.plugin_args[:]
        profile.plugin_args.extend(args)
    return found
