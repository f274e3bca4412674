"""Makes the filter, Reserve and PostFilter plugins of each profile in a configuration."""

from collections.abc import Callable, Mapping, Sequence

from trireme.evaluation import filter_engine, reserving
from trireme.evaluation.filtering import evaluation, remote_columns
from trireme.evaluation.preemption import post_filtering
from trireme.framework import resizes
from trireme.plugin_api import interfaces
from trireme.registry import filter_sides, sides
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme.wire import profiles


def chains(
    configuration: snapshot_pb2.Configuration,
    make_remote: Callable[[snapshot_pb2.RemotePlugin], remote_columns.RemoteFilter],
) -> Mapping[str, evaluation.Chain]:
    """The chain of each profile. Raises: ValueError naming a plugin that is neither in-tree nor remote."""
    features = dict(configuration.feature_gates)
    not_for_resizes = sides.resize_exempt() if features.get(resizes.GATE) else frozenset()
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    out = {}
    for profile in configuration.profiles:
        local: list[interfaces.FilterPlugin] = []
        remote: list[remote_columns.RemoteFilter] = []
        order = [entry.name for entry in profiles.plugins_at(profile, plugin_pb2.EXTENSION_POINT_FILTER)]
        for name in order:
            plugin = filter_sides.filter_plugin(name, profiles.args_of(profile, name), features)
            if plugin is not None:
                local.append(plugin)
            elif name in remotes:
                remote.append(make_remote(remotes[name]))
            else:
                raise ValueError(f"profile {profile.scheduler_name}: no filter plugin {name}")
        out[profile.scheduler_name] = evaluation.Chain(tuple(order), tuple(local), tuple(remote), not_for_resizes)
    return out


def post_filters(
    configuration: snapshot_pb2.Configuration,
    chains: Mapping[str, evaluation.Chain],
    make_remote: reserving.MakeRemoteReserve | None,
) -> Mapping[str, Sequence[post_filtering.PostFilter]]:
    """By profile the plugins at PostFilter, in order."""
    features = dict(configuration.feature_gates)
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    out: dict[str, list[post_filtering.PostFilter]] = {}
    for profile in configuration.profiles:
        filters = chains[profile.scheduler_name].local
        found = out[profile.scheduler_name] = []
        for entry in profiles.plugins_at(profile, plugin_pb2.EXTENSION_POINT_POST_FILTER):
            args_json = profiles.args_of(profile, entry.name)
            plugin = filter_sides.post_filter_plugin(entry.name, args_json, features, filters)
            if plugin is not None:
                found.append(post_filtering.InTreePostFilter(plugin))
            elif entry.name in remotes and make_remote is not None:
                found.append(post_filtering.RemotePostFilter(make_remote(remotes[entry.name])))
    return out


def claim_releases(
    configuration: snapshot_pb2.Configuration, chains: Mapping[str, evaluation.Chain]
) -> Mapping[str, post_filtering.ClaimReleasePlugin]:
    """By profile what says which claims a group may give up."""
    features = dict(configuration.feature_gates)
    return {profile: filter_sides.claim_release_plugin(features, chain.local) for profile, chain in chains.items()}


def make(
    configuration: snapshot_pb2.Configuration,
    make_remote: Callable[[snapshot_pb2.RemotePlugin], remote_columns.RemoteFilter],
    make_remote_reserve: reserving.MakeRemoteReserve | None = None,
) -> filter_engine.FilterProfiles:
    """The profiles that the configuration describes. Raises: as chains."""
    made = chains(configuration, make_remote)
    return filter_engine.FilterProfiles(
        made,
        reserving.reservers(configuration, made, make_remote_reserve),
        post_filters(configuration, made, make_remote_reserve),
        claim_releases(configuration, made),
    )
