"""Canaries of remote plugins in profiles: where they run, with which weight and arguments."""

import dataclasses

from trireme.config import loading, profiles, trireme_configuration
from trireme.config.gates import from_flags
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry.in_tree import IN_TREE

OWN = b"""
apiVersion: trireme.dev/v1alpha1
kind: TriremeConfiguration
remotePlugins:
- name: P
  address: unix:/p
  extensionPoints: [filter, score]
  failurePolicy: Ignore
  budgetPerSecond: 100ms
  hedging: true
  canary: {address: "unix:/next", percent: 5, failurePolicy: Fail}
- {name: Q, address: "unix:/q", extensionPoints: [filter]}
"""
STOCK = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins:
    filter: {enabled: [{name: P}, {name: Q}]}
    score: {enabled: [{name: P, weight: 7}]}
  pluginConfig: [{name: P, args: {limit: 3}}]
- schedulerName: plain
"""


def test_a_canary_is_as_its_plugin_but_for_what_it_says() -> None:
    """If this fails, the new version runs with another deadline or weight, and the comparison says nothing."""
    config = trireme_configuration.parse(OWN)
    assert [plugin.name for plugin in config.remote_plugins] == ["P", "P/canary", "Q"]
    stable, canary, _ = config.remote_plugins
    assert (canary.address, canary.failure_policy, canary.hedging) == ("unix:/next", "Fail", True)
    assert (canary.served_name, stable.served_name) == ("P", "P")
    assert (canary.canary_percent, canary.deadline) == (5, stable.deadline)
    # Under Fail there is no budget, and its absence has no pod wait: the plugin then answers for all.
    assert canary.budget_per_second.nanoseconds == 0
    assert not canary.required


def test_profiles_run_the_canary_after_its_plugin() -> None:
    """If this fails, a canary has no arguments or another weight, or runs in profiles that do not name its plugin."""
    own = trireme_configuration.parse(OWN)
    gates = from_flags((), (), {}).gates
    registry = trireme_configuration.registry_with_remote_plugins(IN_TREE, own)
    assert "P/canary" not in registry
    config = loading.load(STOCK, gates, lambda line: None)
    constructed = profiles.construct_profiles(config, registry, gates, lambda line: None)
    first, plain = profiles.add_canaries_to_profiles(constructed.profiles, own)
    assert first.names(ExtensionPoint.FILTER)[-3:] == ("P", "P/canary", "Q")
    weights = {plugin.name: plugin.weight for plugin in first.plugins[ExtensionPoint.SCORE]}
    assert (weights["P"], weights["P/canary"]) == (7, 7)
    assert first.args_json("P/canary") == first.args_json("P") == b'{"limit":3}'
    assert "P/canary" not in plain.all_names()
    assert profiles.canary_shares([first, plain], own) == {"s": [("P", 5)]}


def test_without_a_percentage_no_pod_is_a_canarys() -> None:
    """If this fails, a canary that is only connected decides."""
    own = trireme_configuration.parse(OWN)
    off = tuple(dataclasses.replace(plugin, canary_percent=0) for plugin in own.remote_plugins)
    profile = profiles.canary_shares((), dataclasses.replace(own, remote_plugins=off))
    assert profile == {}
