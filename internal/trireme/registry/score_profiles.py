"""Makes the score plugins of each profile in a configuration.

Also change: internal/trireme/registry/filter_profiles.py (filter and score are alike here).

Tests: tests/unit/score/test_service.py.
"""

import functools
from collections.abc import Callable, Mapping

from trireme.evaluation import score_engine
from trireme.evaluation.scoring import score_chain
from trireme.plugin_api import scorers
from trireme.registry import canary_shares, remote_makers, score_plugins
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme.wire import profile_messages

# Makes a plugin that is a service of its own, for the profile of this name.
# Implementers: trireme.remote.remote_plugins.RemotePlugins.make_score_plugin,
# trireme.remote.recorded_makers.RecordedMakers.make_score, trireme.registry.remote_makers.no_remote_plugin.
MakeRemoteScore = Callable[[snapshot_pb2.RemotePlugin, str], scorers.AsyncScore]


def make_score_chains(
    configuration: snapshot_pb2.Configuration,
    make_remote: MakeRemoteScore,
) -> Mapping[str, score_chain.ScoreChain]:
    """The chain of each profile. Raises: ValueError naming a plugin that is neither in-tree nor remote."""
    features = dict(configuration.feature_gates)
    remotes = {remote.name: remote for remote in configuration.remote_plugins}
    out = {}
    for profile in configuration.profiles:
        plugins: list[scorers.AnyScorePlugin] = []
        weights = {}
        for entry in profile_messages.plugins_at(profile, plugin_pb2.EXTENSION_POINT_SCORE):
            if entry.name in remotes and remotes[entry.name].shadow:
                continue
            weights[entry.name] = entry.weight
            plugin = score_plugins.make_score_plugin(
                entry.name, profile_messages.args_of(profile, entry.name), features
            )
            if plugin is not None:
                plugins.append(plugin)
            elif entry.name in remotes:
                made = make_remote(remotes[entry.name], profile.scheduler_name)
                plugins.append(canary_shares.limit_score(made, remotes))
            else:
                raise ValueError(f"profile {profile.scheduler_name}: no score plugin {entry.name}")
        percentage = profile.percentage_of_nodes_to_score
        out[profile.scheduler_name] = score_chain.ScoreChain(weights, plugins, percentage)
    return out


def make_profiles(
    configuration: snapshot_pb2.Configuration,
    make_remote: MakeRemoteScore = remote_makers.no_remote_plugin,
) -> score_engine.ScoreProfiles:
    """The profiles that the configuration describes. Raises: ValueError, as `make_score_chains`."""
    features = dict(configuration.feature_gates)
    placement_scorers = {
        profile.scheduler_name: score_plugins.all_placement_score_plugins(
            functools.partial(profile_messages.args_of, profile), features
        )
        for profile in configuration.profiles
    }
    return score_engine.ScoreProfiles(make_score_chains(configuration, make_remote), placement_scorers)
