"""Reads the configuration of a running frontend again, and checks what of it may change without a restart.

A reload is refused as a whole, as a start is: everything is decoded and checked before anything of it is used. Beyond
what a start checks, the fields that only a restart can change must be as they were; the message names each that is not.

Also change: docs/operating-plugins.md.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from trireme.config import commandline, profiles, trireme_configuration
from trireme.config.loading import default_configuration
from trireme.config.profiles import construct_profiles
from trireme.config.scheduler_configuration import SchedulerConfiguration
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.declaration import Change
from trireme_kube.apimachinery.field_errors import Problem, child, forbidden, index, join_messages

_RESTART = "cannot change without a restart of the frontend: set it back, or restart"


def load_again(current: commandline.CompletedConfig, log: commandline.Log) -> commandline.CompletedConfig:
    """Read the files of `current` again; flags and feature gates are as they were.

    Raises: ConfigurationError: a file cannot be read, decoded or used, or changes what only a restart can change.
    """
    settings, gates = current.options, current.gates
    config = commandline.load_configuration(settings, gates, default_configuration(gates), log)
    trireme = trireme_configuration.load(settings.trireme.config_file)
    registry = trireme_configuration.registry_with_remote_plugins(IN_TREE, trireme)
    constructed = construct_profiles(config, registry, gates, log, verbose=settings.logging.verbosity >= 2)
    new = dataclasses.replace(
        current,
        configuration=constructed.configuration,
        profiles=profiles.add_canaries_to_profiles(constructed.profiles, trireme),
        trireme=trireme,
        registry=registry,
        retired_profiles=frozenset(),
    )
    problems = fixed_field_problems(current, new)
    if problems:
        raise ConfigurationError(join_messages(problems), problems)
    return new


def fixed_field_problems(current: commandline.CompletedConfig, new: commandline.CompletedConfig) -> list[Problem]:
    """The fields that differ, though only a restart can change them."""
    before, after = current.document(), new.document()
    problems = [
        problem
        for member in declaration.members(SchedulerConfiguration)
        if member.change is Change.AT_RESTART
        for problem in _differences(member.name, before.get(member.name), after.get(member.name))
    ]
    return sorted(problems) + _own_field_problems(current.trireme, new.trireme)


def _differences(path: str, before: Any, after: Any) -> list[Problem]:
    """A problem for each field below the path that differs; lists are compared as a whole."""
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [
            problem
            for name in before.keys() | after.keys()
            for problem in _differences(child(path, name), before.get(name), after.get(name))
        ]
    return [forbidden(path, _RESTART)]


def _own_field_problems(before: TriremeConfiguration, after: TriremeConfiguration) -> list[Problem]:
    """The problems of a TriremeConfiguration."""
    problems = [forbidden(path, _RESTART) for path in declaration.changes_at_restart(before, after)]
    if after.handle_has_tls:
        # The listener of HandleService admits the identities that were configured at the start.
        known = frozenset[str]().union(
            before.handle.allowed_identities, *(plugin.caller_identities for plugin in before.remote_plugins)
        )
        problems.extend(
            forbidden(child(index("remotePlugins", position), "handleIdentities"), _RESTART)
            for position, plugin in enumerate(after.remote_plugins)
            if not plugin.caller_identities <= known
        )
    return problems


def with_retired_profiles(
    new: commandline.CompletedConfig, current: commandline.CompletedConfig, in_use: frozenset[str]
) -> commandline.CompletedConfig:
    """The new configuration with those profiles of `current` that it removes and that are still in use, as retired.

    `in_use`: the profiles with pods that are being bound. A plugin that only retired profiles name stays configured.
    """
    names = {profile.scheduler_name for profile in new.profiles}
    retired = [profile for profile in current.profiles if profile.scheduler_name in in_use - names]
    if not retired:
        return new
    needed = {name for profile in retired for name in profile.all_names()}
    plugins = [
        plugin
        for plugin in current.trireme.remote_plugins
        if plugin.name in needed and new.trireme.remote_plugin(plugin.name) is None
    ]
    return dataclasses.replace(
        new,
        profiles=(*new.profiles, *retired),
        trireme=dataclasses.replace(new.trireme, remote_plugins=(*new.trireme.remote_plugins, *plugins)),
        retired_profiles=frozenset(profile.scheduler_name for profile in retired),
    )
