"""Feature gates of dynamic resource allocation, as they reach the plugin."""

import json

import pytest

from tests.helpers.config_starts import feature_gates
from trireme.config import loading, profiles
from trireme.registry import filter_plugins, score_plugins
from trireme.registry.in_tree import IN_TREE


@pytest.mark.parametrize(
    "flipped",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"DRASchedulerFilterTimeout": False}, id="no-filter-timeout"),
    ],
)
def test_default_arguments_make_a_plugin_whatever_the_gates(flipped: dict[str, bool]) -> None:
    gates = feature_gates(**flipped)
    config = loading.default_configuration(gates)
    profile = profiles.construct_profiles(config, IN_TREE, gates, lambda _line: None).profiles[0]
    arguments = profile.args_json("DynamicResources")
    stated = json.loads(arguments)
    assert (stated["filterTimeout"] is None) == ("DRASchedulerFilterTimeout" in flipped)
    for make in (filter_plugins.make_filter_plugin, score_plugins.make_score_plugin):
        plugin = make("DynamicResources", arguments, gates.all())
        assert plugin is not None
        assert plugin.name == "DynamicResources"
