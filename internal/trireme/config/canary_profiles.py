"""Profiles with the canaries of their remote plugins, and the share of pods that each canary answers for."""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from trireme.config import model, trireme_configuration
from trireme.framework import canaries


def profiles_with_canaries(
    profiles: Sequence[model.CompletedProfile], config: trireme_configuration.TriremeConfiguration
) -> tuple[model.CompletedProfile, ...]:
    """The profiles with each canary after its plugin, wherever that runs, with the same weight and arguments."""
    names = {plugin.canary_of for plugin in config.remote_plugins if plugin.canary_of}
    return tuple(_with_canaries(profile, names) if names else profile for profile in profiles)


def shares_of(
    profiles: Sequence[model.CompletedProfile], config: trireme_configuration.TriremeConfiguration
) -> Mapping[str, Sequence[tuple[str, int]]]:
    """By profile its plugins that have a canary, and the percentage of the pods that it answers for."""
    percentages = [
        (plugin.canary_of, plugin.canary_percent)
        for plugin in config.remote_plugins
        if plugin.canary_of and plugin.canary_percent
    ]
    found = {
        profile.scheduler_name: [entry for entry in percentages if entry[0] in profile.all_names()]
        for profile in profiles
    }
    return {profile: entries for profile, entries in found.items() if entries}


def _with_canaries(profile: model.CompletedProfile, names: set[str]) -> model.CompletedProfile:
    """The profile with the canaries of these plugins."""
    plugins = {
        point: tuple(
            entry for plugin in found for entry in (plugin, *([_canary(plugin)] if plugin.name in names else ()))
        )
        for point, found in profile.plugins.items()
    }
    configs = [
        dataclasses.replace(config, name=canaries.canary_name(config.name))
        for config in profile.plugin_config
        if config.name in names
    ]
    return dataclasses.replace(
        profile, plugins=MappingProxyType(plugins), plugin_config=(*profile.plugin_config, *configs)
    )


def _canary(plugin: model.Plugin) -> model.Plugin:
    """The entry of a plugin's canary."""
    return dataclasses.replace(plugin, name=canaries.canary_name(plugin.name))
