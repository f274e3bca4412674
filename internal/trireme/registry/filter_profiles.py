"""Makes the filter, Reserve and PostFilter plugins of each profile in a configuration.

Also change: internal/trireme/registry/score_profiles.py (filter and score are alike here).

Tests: tests/unit/registry/test_filter_profiles.py, tests/unit/in_process/test_in_process_evaluators.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from trireme.evaluation import filter_engine, reserving
from trireme.evaluation.filtering import filter_chain
from trireme.evaluation.preemption import post_filter_plugins
from trireme.framework import resizes
from trireme.plugin_api import interfaces
from trireme.registry import canary_shares, filter_plugins, implementations, remote_makers
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme.wire import profile_messages

# Make plugins that are services of their own; a filter plugin is made for the profile of this name.
# Implementers: trireme.remote.remote_plugins.RemotePlugins.make_filter_plugin,
# trireme.remote.recorded_makers.RecordedMakers.make_filter, trireme.registry.remote_makers.no_remote_plugin.
MakeRemoteFilter = Callable[[snapshot_pb2.RemotePlugin, str], interfaces.AsyncFilter]
#: Implementers: trireme.remote.remote_plugins.RemotePlugins.make_post_filter_plugin,
#: trireme.remote.recorded_makers.RecordedMakers.make_post_filter.
MakeRemotePostFilter = Callable[[snapshot_pb2.RemotePlugin], post_filter_plugins.HostedPostFilter]


def make_filter_chains(
    configuration: snapshot_pb2.Configuration,
    make_remote: MakeRemoteFilter,
) -> Mapping[str, filter_chain.FilterChain]:
    """The chain of each profile. Raises: ValueError naming a plugin that is neither in-tree nor remote."""
    features = dict(configuration.feature_gates)
    not_for_resizes = implementations.plugins_ignoring_resizes() if features.get(resizes.GATE) else frozenset()
    remotes = {remote.name: remote for remote in configuration.remote_plugins}

    def make(remote: snapshot_pb2.RemotePlugin, profile: str) -> interfaces.AsyncFilter:
        return canary_shares.limit_filter(make_remote(remote, profile), remotes)

    out = {}
    for profile in configuration.profiles:
        plugins: list[interfaces.AnyFilterPlugin] = []
        for entry in profile_messages.plugins_at(profile, plugin_pb2.EXTENSION_POINT_FILTER):
            plugin = filter_plugins.make_filter_plugin(
                entry.name, profile_messages.args_of(profile, entry.name), features
            )
            if plugin is not None:
                plugins.append(plugin)
            elif entry.name in remotes:
                if not remotes[entry.name].shadow:
                    plugins.append(make(remotes[entry.name], profile.scheduler_name))
            else:
                raise ValueError(f"profile {profile.scheduler_name}: no filter plugin {entry.name}")
        plugins += [make(remote, profile.scheduler_name) for remote in _with_pre_filter_alone(profile, remotes)]
        out[profile.scheduler_name] = filter_chain.FilterChain(plugins, not_for_resizes)
    return out


def _with_pre_filter_alone(
    profile: snapshot_pb2.Profile, remotes: Mapping[str, snapshot_pb2.RemotePlugin]
) -> Iterator[snapshot_pb2.RemotePlugin]:
    """The remote plugins that the profile names at PreFilter and that have no Filter, in order."""
    for entry in profile_messages.plugins_at(profile, plugin_pb2.EXTENSION_POINT_PRE_FILTER):
        remote = remotes.get(entry.name)
        if remote is None or remote.shadow:
            continue
        if plugin_pb2.EXTENSION_POINT_FILTER not in remote.info.extension_points:
            yield remote


def make_post_filters(
    configuration: snapshot_pb2.Configuration,
    chains: Mapping[str, filter_chain.FilterChain],
    make_remote: MakeRemotePostFilter | None,
) -> Mapping[str, Sequence[post_filter_plugins.HostedPostFilter]]:
    """By profile the plugins at PostFilter, in order. A name that is neither in-tree nor remote is left out.

    Without `make_remote`, so are remote ones.
    """
    features = dict(configuration.feature_gates)
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    out: dict[str, list[post_filter_plugins.HostedPostFilter]] = {}
    for profile in configuration.profiles:
        filters = chains[profile.scheduler_name].synchronous
        found = out[profile.scheduler_name] = []
        for entry in profile_messages.plugins_at(profile, plugin_pb2.EXTENSION_POINT_POST_FILTER):
            args_json = profile_messages.args_of(profile, entry.name)
            plugin = filter_plugins.make_post_filter_plugin(entry.name, args_json, features, filters)
            if plugin is not None:
                found.append(post_filter_plugins.InTreePostFilter(plugin))
            elif entry.name in remotes and make_remote is not None:
                found.append(make_remote(remotes[entry.name]))
    return out


def make_claim_releases(
    configuration: snapshot_pb2.Configuration, chains: Mapping[str, filter_chain.FilterChain]
) -> Mapping[str, post_filter_plugins.ClaimReleasePlugin]:
    """By profile what says which claims a group may give up."""
    features = dict(configuration.feature_gates)
    return {
        profile: filter_plugins.claim_release_plugin(features, chain.synchronous) for profile, chain in chains.items()
    }


def make_profiles(
    configuration: snapshot_pb2.Configuration,
    make_remote: MakeRemoteFilter = remote_makers.no_remote_plugin,
    make_remote_reserver: reserving.MakeRemoteReserver | None = None,
    make_remote_post_filter: MakeRemotePostFilter | None = None,
) -> filter_engine.FilterProfiles:
    """Make filter's plugins for each profile of the configuration, in-tree and remote. Raises: ValueError.

    Without a maker, remote plugins of Reserve and PostFilter are left out.
    """
    made = make_filter_chains(configuration, make_remote)
    group_preemption = filter_plugins.pod_group_preemption_plugin(dict(configuration.feature_gates))
    return filter_engine.FilterProfiles(
        made,
        reserving.make_reservers(configuration, made, make_remote_reserver),
        make_post_filters(configuration, made, make_remote_post_filter),
        make_claim_releases(configuration, made),
        dict.fromkeys(made, group_preemption),
    )
