"""The plugins that each profile runs: `multiPoint` expanded over the extension points, every plugin checked.

This is the part of kube-scheduler's start-up that makes the plugins, without making any: which plugin runs where, in
which order and with which weight follows from the profile and the registry alone, so it can be checked (and printed,
and compared) before a process is started. A mistake is reported with the profile and the plugin named.

Source: pkg/scheduler/framework/runtime and pkg/scheduler/profile of Kubernetes 1.37.

Tests: tests/unit/config/test_profiles.py, tests/unit/config/test_canary_profiles.py.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from trireme.config import loading
from trireme.config.gates import FeatureGates
from trireme.config.scheduler_configuration import (
    CompletedProfile,
    Extender,
    Plugin,
    PluginConfig,
    Plugins,
    Profile,
    SchedulerConfiguration,
)
from trireme.config.trireme_configuration import TriremeConfiguration
from trireme.framework import canaries
from trireme.framework.plugin_spec import MAX_SCORE, ExtensionPoint, Registry, Role
from trireme.registry import in_tree_args
from trireme.registry.in_tree import IN_TREE
from trireme_kube.apimachinery import declaration
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.field_errors import join_messages
from trireme_kube.apimachinery.golang import SECOND, Duration, json_text, quote
from trireme_kube.componentbase.tls.client_tls import ClientTLS
from trireme_kube.componentbase.tls.pem_checks import check_client

Log = Callable[[str], None]
_FIT = IN_TREE.name_of(Role.RESOURCES)
_GANGS = IN_TREE.name_of(Role.GANGS)
_INT64 = 1 << 63
_EXTENDER_TIMEOUT = Duration(5 * SECOND)


@dataclass(frozen=True, slots=True)
class ConstructedProfiles:
    """The configuration with everything that construction adds, and the profiles that run."""

    configuration: SchedulerConfiguration
    profiles: tuple[CompletedProfile, ...]


def construct_profiles(
    config: SchedulerConfiguration, registry: Registry, gates: FeatureGates, log: Log, *, verbose: bool = False
) -> ConstructedProfiles:
    """Check extenders and profiles and determine what each profile runs; `verbose`: log each extender.

    Raises: ConfigurationError: an extender or a profile cannot be made.
    """
    try:
        config = _with_extenders(config, log if verbose else None)
    except ConfigurationError as error:
        raise ConfigurationError(f"couldn't build extenders: {error}") from error
    try:
        profiles = tuple(_complete_each_profile(config, registry, gates, log))
    except ConfigurationError as error:
        raise ConfigurationError(f"initializing profiles: {error}") from error
    written = tuple(replace(profile.configured, plugin_config=profile.plugin_config) for profile in profiles)
    return ConstructedProfiles(replace(config, profiles=written), profiles)


# Extenders.


def _with_extenders(config: SchedulerConfiguration, log: Log | None) -> SchedulerConfiguration:
    """Extenders with their timeout; NodeResourcesFit ignores resources that only they manage."""
    extenders: list[Extender] = []
    for extender in config.extenders:
        if log is not None:
            log(f'I "Creating extender" extender={json_text(_extender_for_log(extender))}')
        _check_extender_tls(extender)
        timeout = extender.http_timeout if extender.http_timeout.nanoseconds else _EXTENDER_TIMEOUT
        extenders.append(replace(extender, http_timeout=timeout))
    ignored = [
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    profiles = config.profiles
    if ignored:
        profiles = tuple(_with_ignored_resources(profile, ignored) for profile in profiles)
    return replace(config, extenders=tuple(extenders), profiles=profiles)


def _check_extender_tls(extender: Extender) -> None:
    """Check that an extender's TLS can be set up. Raises: ConfigurationError: it cannot."""
    tls = extender.tls_config or ClientTLS()
    if extender.enable_https and not (tls.ca_file or tls.ca_data):
        tls = replace(tls, insecure=True)
    check_client(tls)


def _extender_for_log(extender: Extender) -> dict[str, object]:
    """The extender for the log, by kube-scheduler's own names of its fields; a key is masked."""
    shown = loading.with_internal_names(declaration.write(extender), declaration.schema_of(Extender))
    if extender.tls_config is not None:
        for name in ("CertData", "KeyData", "CAData"):
            shown["TLSConfig"][name] = base64.b64encode(shown["TLSConfig"][name]).decode() or None
        shown["TLSConfig"]["KeyData"] = "REDACTED" if extender.tls_config.key_data else None
    return {**shown, "ManagedResources": shown["ManagedResources"] or None}


def _with_ignored_resources(profile: Profile, ignored: list[str]) -> Profile:
    """The profile with resources that NodeResourcesFit ignores. Raises: ConfigurationError: it has no arguments."""
    configs: list[PluginConfig] = []
    found = False
    for config in profile.plugin_config:
        if config.name == _FIT and not found:
            config = replace(config, args={**config.args, "ignoredResources": ignored})
            found = True
        configs.append(config)
    if not found:
        raise ConfigurationError(f"can't find {_FIT}Args in plugin config")
    return replace(profile, plugin_config=tuple(configs))


# Profiles.


def _complete_each_profile(
    config: SchedulerConfiguration, registry: Registry, gates: FeatureGates, log: Log
) -> Iterable[CompletedProfile]:
    """Yield what each profile runs.

    Raises: ConfigurationError, also if two profiles have different QueueSort plugins or arguments.
    """
    first_sort, first_args = "", None
    for profile in config.profiles:
        try:
            completed = complete_profile(profile, config, registry, gates, log)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"creating profile for scheduler name {profile.scheduler_name}: {error}"
            ) from error
        sort = completed.plugins[ExtensionPoint.QUEUE_SORT][0].name
        sort_config = profile.args_of(sort)
        args = sort_config.args if sort_config else None
        if not first_sort:
            first_sort, first_args = sort, args
        elif first_sort != sort:
            raise ConfigurationError(
                f"different queue sort plugins for profile {quote(profile.scheduler_name)}: "
                f"{quote(sort)}, first: {quote(first_sort)}"
            )
        elif first_args != args:
            raise ConfigurationError(f"different queue sort plugin args for profile {quote(profile.scheduler_name)}")
        yield completed


def complete_profile(
    profile: Profile, config: SchedulerConfiguration, registry: Registry, gates: FeatureGates, log: Log
) -> CompletedProfile:
    """What a profile runs.

    Raises: ConfigurationError: a plugin does not exist, does not fit its extension point, or has arguments it cannot
    use.
    """
    needed = sorted(name for name in _enabled_names(profile.plugins) if name in registry)
    configs = _validated_plugin_configs(profile, needed, gates)
    plugins_by_point = {point: _plugins_listed_at_point(profile.plugins, point, registry) for point in ExtensionPoint}
    if profile.plugins.multi_point.enabled:
        for point in ExtensionPoint:
            plugins_by_point[point] = _with_multi_point(profile.plugins, point, registry, plugins_by_point[point], log)
    _check_plugin_counts(profile.scheduler_name, plugins_by_point)
    weights = {
        point: _score_weights(profile.plugins, point, registry, what)
        for point, what in (
            (ExtensionPoint.SCORE, "score plugins"),
            (ExtensionPoint.PLACEMENT_SCORE, "placement score plugins"),
        )
    }
    own = profile.percentage_of_nodes_to_score
    plugins = {
        point: tuple(Plugin(name, weights[point][name] if point.weighted else 0) for name in names)
        for point, names in plugins_by_point.items()
    }
    _log_signature_support(profile.scheduler_name, config, registry, gates, plugins, log)
    _log_post_filters_without_groups(profile.scheduler_name, registry, gates, plugins, log)
    _log_missing_gang_plugin(gates, needed, log)
    return CompletedProfile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=own if own is not None else config.percentage_of_nodes_to_score or 0,
        plugins=MappingProxyType(plugins),
        plugin_config=configs,
        configured=profile,
    )


def _enabled_names(plugins: Plugins) -> set[str]:
    """The plugins that are enabled anywhere in the profile."""
    sets = (plugins.multi_point, *(plugins.at(point) for point in ExtensionPoint))
    return {plugin.name for plugin_set in sets for plugin in plugin_set.enabled or ()}


def _validated_plugin_configs(profile: Profile, needed: Sequence[str], gates: FeatureGates) -> tuple[PluginConfig, ...]:
    """Return the arguments of the plugins that are made (`needed`), by name; some are validated only here.

    Raises: ConfigurationError: two configurations of one plugin, or arguments that are missing or invalid.
    """
    configs_by_name: dict[str, PluginConfig] = {}
    for config in profile.plugin_config:
        if config.name in configs_by_name:
            raise ConfigurationError(f"repeated config for plugin {config.name}")
        configs_by_name[config.name] = config
    configs: list[PluginConfig] = []
    arguments = in_tree_args.plugin_args()
    for name in needed:
        if name not in configs_by_name or configs_by_name[name].args is None:
            if name in arguments:
                raise ConfigurationError(f"initializing plugin {quote(name)}: {arguments[name].missing}")
            continue
        problems = arguments[name].validate("", configs_by_name[name].args, gates) if name in arguments else []
        if problems:
            raise ConfigurationError(f"initializing plugin {quote(name)}: {join_messages(problems)}")
        configs.append(configs_by_name[name])
    return tuple(configs)


def _plugins_listed_at_point(plugins: Plugins, point: ExtensionPoint, registry: Registry) -> list[str]:
    """The plugins that the extension point itself lists.

    Raises: ConfigurationError: one does not exist or fit, or is listed twice.
    """
    names: list[str] = []
    for plugin in plugins.at(point).enabled or ():
        name = plugin.name
        if name not in registry:
            raise ConfigurationError(f"{point.interface} {quote(name)} does not exist")
        if not registry.implements(name, point):
            raise ConfigurationError(f"plugin {quote(name)} does not extend {point.interface} plugin")
        if name in names:
            raise ConfigurationError(f"plugin {quote(name)} already registered as {quote(point.interface)}")
        names.append(name)
    return names


def _with_multi_point(
    plugins: Plugins, point: ExtensionPoint, registry: Registry, point_plugins: list[str], log: Log
) -> list[str]:
    """The plugins of an extension point with those of `multiPoint`.

    Order: plugins that both list, as the point lists them; then the rest of `multiPoint`; then plugins that only the
    point lists.
    """
    disabled = {plugin.name for plugin in plugins.at(point).disabled or ()}
    if "*" in disabled:
        return point_plugins
    overriding: list[str] = []
    spread: list[str] = []
    for plugin in plugins.multi_point.enabled or ():
        name = plugin.name
        if name not in registry:
            raise ConfigurationError(f"{point.interface} {quote(name)} does not exist")
        if not registry.implements(name, point) or name in disabled:
            continue
        if name in point_plugins:
            log(f'I "MultiPoint plugin is explicitly re-configured; overriding" plugin={quote(name)}')
            overriding.append(name)
        elif name in spread:
            raise ConfigurationError(f"plugin {quote(name)} already registered as {quote(point.interface)}")
        else:
            spread.append(name)
    return [
        *(name for name in point_plugins if name in overriding),
        *spread,
        *(name for name in point_plugins if name not in overriding),
    ]


def _check_plugin_counts(scheduler_name: str, plugins_by_point: dict[ExtensionPoint, list[str]]) -> None:
    """Check for one QueueSort and some Bind plugin. Raises: ConfigurationError."""
    name = quote(scheduler_name)
    sorts = len(plugins_by_point[ExtensionPoint.QUEUE_SORT])
    if sorts != 1:
        raise ConfigurationError(
            f"only one queue sort plugin required for profile with scheduler name {name}, but got {sorts}"
        )
    if not plugins_by_point[ExtensionPoint.BIND]:
        raise ConfigurationError(f"at least one bind plugin is needed for profile with scheduler name {name}")


def _wrapped_to_int64(value: int) -> int:
    """The sum in 64 bits: kube-scheduler's check for overflow relies on wrapping."""
    return (value + _INT64) % (2 * _INT64) - _INT64


def _score_weights(plugins: Plugins, point: ExtensionPoint, registry: Registry, what: str) -> dict[str, int]:
    """The weight of each plugin: the point's, else that of `multiPoint`, else 1."""
    weights: dict[str, int] = {}
    total = 0
    for plugin in (*(plugins.at(point).enabled or ()), *(plugins.multi_point.enabled or ())):
        if plugin.name in weights or not registry.implements(plugin.name, point):
            continue
        weight = plugin.weight or 1
        weights[plugin.name] = weight
        if weight * MAX_SCORE > _wrapped_to_int64(_INT64 - 1 - total):
            raise ConfigurationError(f"{what}: total score of Score plugins could overflow")
        total = _wrapped_to_int64(total + weight * MAX_SCORE)
    return weights


def _log_signature_support(
    scheduler_name: str,
    config: SchedulerConfiguration,
    registry: Registry,
    gates: FeatureGates,
    plugins: dict[ExtensionPoint, tuple[Plugin, ...]],
    log: Log,
) -> None:
    """Log, as kube-scheduler does, the plugins that prevent pod signatures. Pod classes do not depend on them."""
    if not gates.enabled("OpportunisticBatching"):
        return
    looking = (ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE)
    unable = sorted(
        {plugin.name for point in looking for plugin in plugins[point] if not registry[plugin.name].supports_signature}
    )
    profile = f"profile={quote(scheduler_name)}"
    if config.extenders:
        log(f'I "Disabling signatures for profile because it has extenders configured." {profile}')
    if unable or config.extenders:
        names = "[" + ",".join(quote(name) for name in unable) + "]"
        log(f'I "Disabling signatures for profile because plugins do not support it." {profile} plugins={names}')


def _log_post_filters_without_groups(
    scheduler_name: str,
    registry: Registry,
    gates: FeatureGates,
    plugins: Mapping[ExtensionPoint, tuple[Plugin, ...]],
    log: Log,
) -> None:
    """Log an error for each plugin at PostFilter that groups do not have, as kube-scheduler does."""
    if not gates.enabled("GenericWorkload"):
        return
    point = ExtensionPoint.POD_GROUP_POST_FILTER
    of_groups = {plugin.name for plugin in plugins[point]}
    for name in (plugin.name for plugin in plugins[ExtensionPoint.POST_FILTER] if plugin.name not in of_groups):
        has = "implements PodGroupPostFilterPlugin but is not enabled"
        state = has if registry.implements(name, point) else "does not implement PodGroupPostFilterPlugin"
        log(
            f'E "PostFilter plugin {state}; it will not be run for PodGroups or CompositePodGroups" '
            f"plugin={quote(name)} profile={quote(scheduler_name)}"
        )


def _log_missing_gang_plugin(gates: FeatureGates, needed: Sequence[str], log: Log) -> None:
    """Log an error if pod groups are on and the profile lacks GangScheduling.

    As in kube-scheduler, the start goes on.
    """
    if gates.enabled("GenericWorkload") and _GANGS not in needed:
        log(
            f'E "GenericWorkload is enabled, but {_GANGS} plugin is not set. '
            'Gang scheduling using PodGroups may not work as expected."'
        )


# Canaries of remote plugins.


def add_canaries_to_profiles(
    profiles: Sequence[CompletedProfile], config: TriremeConfiguration
) -> tuple[CompletedProfile, ...]:
    """Add each canary after its plugin, wherever that runs, with the same weight and arguments."""
    names = {plugin.canary_of for plugin in config.remote_plugins if plugin.canary_of}
    return tuple(_add_canaries(profile, names) if names else profile for profile in profiles)


def canary_shares(
    profiles: Sequence[CompletedProfile], config: TriremeConfiguration
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


def _add_canaries(profile: CompletedProfile, names: set[str]) -> CompletedProfile:
    """Add the canaries of these plugins to the profile."""
    plugins = {
        point: tuple(
            entry
            for plugin in found
            for entry in (plugin, *([_make_canary_entry(plugin)] if plugin.name in names else ()))
        )
        for point, found in profile.plugins.items()
    }
    configs = [
        replace(config, name=canaries.canary_name(config.name))
        for config in profile.plugin_config
        if config.name in names
    ]
    return replace(profile, plugins=MappingProxyType(plugins), plugin_config=(*profile.plugin_config, *configs))


def _make_canary_entry(plugin: Plugin) -> Plugin:
    """The entry of a plugin's canary."""
    return replace(plugin, name=canaries.canary_name(plugin.name))
